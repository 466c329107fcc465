//! `resemblance contract`: the contract of an output in the formats of other tools.

use crate::cli::support::print;
use crate::cli::support::work::{MANIFEST_MEMORY, on_session};
use crate::error::Result;
use crate::output::Stored;
use crate::schema::publish::{DescribedOutput, dbt, odcs, yaml};
use crate::schema::{self, Table};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance contract out/reviews/ --format odcs > reviews.odcs.yaml
  resemblance contract out/reviews/ --format dbt > models/reviews.yml";

/// Print the contract of a finished output for other tools, as YAML
///
/// It has the tables of the output with the meaning of a row, the key, the columns with their types and descriptions, and rules
/// that every row keeps. They are those by which each run checks its tables before it publishes them.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ContractCommand {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// Format of the contract
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ContractFormat::Odcs)]
    format: ContractFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ContractFormat {
    /// The Open Data Contract Standard 3.1, for datacontract-cli and catalogues
    Odcs,
    /// Sources of dbt, with tests
    Dbt,
}

impl ContractCommand {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        let stored =
            on_session(MANIFEST_MEMORY, async |session, _| Stored::open(session, &self.output).await)?;
        let (manifest, job) = (stored.manifest(), stored.job());
        let url = stored.layout().absolute();
        let over = |table: Table| schema::contract(table).over(&manifest.source, job.columns());
        let described = DescribedOutput {
            name: &manifest.name,
            url: url.trim_end_matches('/'),
            tables: Table::of(job).into_iter().map(over).collect(),
        };
        print::result(&yaml(&match self.format {
            ContractFormat::Odcs => odcs(&described),
            ContractFormat::Dbt => dbt(&described),
        }))
    }
}
