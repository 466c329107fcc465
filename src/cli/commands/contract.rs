//! `resemblance contract`: prints the contract of an output in the formats of other tools.

use crate::cli::process::{MANIFEST_MEMORY, on_session};
use crate::cli::screen::print;
use crate::error::Result;
use crate::output::Stored;
use crate::schema::publish::{DescribedOutput, dbt, odcs, yaml};
use crate::schema::{self, Table};

/// Print the contract of a finished output for other tools, as YAML
///
/// The contract contains the tables of the output. For each table, it has the meaning of a row, the key, the columns with types and
/// descriptions, and rules for every row. Each run checks its tables against these rules before it publishes them.
#[derive(clap::Args)]
#[command(after_help = "  resemblance contract out/reviews/ --format odcs > reviews.odcs.yaml
  resemblance contract out/reviews/ --format dbt > models/reviews.yml")]
pub(crate) struct ContractCommand {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// Format of the contract
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = ContractFormat::Odcs)]
    format: ContractFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ContractFormat {
    /// Open Data Contract Standard 3.1, for datacontract-cli and catalogues
    Odcs,
    /// Sources for dbt, with tests
    Dbt,
}

impl ContractCommand {
    pub(crate) fn run(&self) -> Result<()> {
        let stored =
            on_session(MANIFEST_MEMORY, async |session, _| Stored::open(session, &self.output).await)?;
        let (manifest, job) = (stored.manifest(), stored.job());
        let url = stored.layout().absolute();
        let contract = |table: Table| schema::contract(table).over(&manifest.source, job.columns());
        let described = DescribedOutput {
            name: &manifest.name,
            url: url.trim_end_matches('/'),
            tables: Table::written_by(job).into_iter().map(contract).collect(),
        };
        print::result(&yaml(&match self.format {
            ContractFormat::Odcs => odcs(&described),
            ContractFormat::Dbt => dbt(&described),
        }))
    }
}
