//! `resemblance evaluate`: measures on a sample what a finished output missed.

use crate::cli::support::work::on_session;
use crate::cli::support::{arguments, evaluated, print};
use crate::error::{Error, Result};
use crate::evaluate::{Evaluation, Settings, evaluate};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance evaluate out/reviews/
  resemblance evaluate out/reviews/ --sample 5000 --seed 2 --json
  resemblance evaluate out/reviews/ --truth known.csv";

/// Measure on a sample what a finished output missed: recall with 95 % intervals
///
/// Draws shingle sets, and compares every document of the source with them by its text, whatever the candidates of the run were. What
/// this exact search finds and the output has not was missed. The source is read twice, and nothing is written.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Evaluate {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// Shingle sets to draw, about; all of them if there are no more
    #[arg(long, value_name = "N", default_value = "1000", value_parser = arguments::one_to(arguments::MAX_EVALUATED))]
    sample: std::num::NonZeroUsize,
    /// The seed of the draw
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// A CSV or Parquet file of known pairs (id_a, id_b) or known clusters (id, cluster_id) to compare with
    #[arg(long, value_name = "FILE")]
    truth: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
}

impl Evaluate {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        let (sample, truth) = (self.sample.get(), self.truth.clone());
        let settings = Settings { sample, seed: self.seed, memory: self.memory, truth };
        let evaluation =
            on_session(self.memory, async |session, _| evaluate(session, &self.output, &settings).await)?;
        print::result(&if self.json { as_json(&evaluation)? } else { evaluated::text(&evaluation) })
    }
}

fn as_json(evaluation: &Evaluation) -> Result<String> {
    let text = serde_json::to_string_pretty(evaluation)
        .map_err(|e| Error::bug("an evaluation cannot be written").because(e))?;
    Ok(format!("{text}\n"))
}
