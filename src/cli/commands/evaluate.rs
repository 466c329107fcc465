//! `resemblance evaluate`: measures on a sample what a finished output missed.

use std::num::NonZeroUsize;

use crate::audit;
use crate::cli::support::work::on_session;
use crate::cli::support::{arguments, audited, evaluated, print};
use crate::error::Result;
use crate::evaluate::{EvaluationSettings, evaluate};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance evaluate out/reviews/
  resemblance evaluate out/reviews/ --sample 5000 --seed 2 --json
  resemblance evaluate out/reviews/ --truth known.csv
  resemblance evaluate out/reviews/ --audit 400 --to audit/
  resemblance evaluate out/reviews/ --labels labels.csv";

/// Measure on a sample what a finished output missed, or whether what it found are true duplicates
///
/// Draws shingle sets, and compares every document of the source with them by its text, whatever the candidates of the run were.
/// What this exact search finds and the output has not was missed. The source is read twice, and nothing is written.
///
/// With --audit, pairs are drawn to be judged by people or programs instead: as a page to label with the keyboard, as CSV and as
/// Parquet. --labels reads the labels, and estimates the share of true duplicates among all pairs, and at each threshold.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Evaluate {
    /// The finished output: the folder or URL that a job names as output.url
    output: String,
    /// Shingle sets to draw, about; all of them if there are no more
    #[arg(long, value_name = "N", default_value = "1000", value_parser = arguments::one_to(arguments::MAX_EVALUATED))]
    sample: NonZeroUsize,
    /// The seed of the draw
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// A CSV or Parquet file of known pairs (id_a, id_b) or known clusters (id, cluster_id) to compare with
    #[arg(long, value_name = "FILE")]
    truth: Option<String>,
    /// Draw this many pairs to judge, from strata: near the threshold, chained, not contained, large clusters, groups, and the rest
    #[arg(long, value_name = "N", conflicts_with = "truth", value_parser = arguments::one_to(arguments::MAX_AUDITED))]
    audit: Option<NonZeroUsize>,
    /// The folder for the pairs to judge: audit.html, audit.csv and audit.parquet, which must not exist
    #[arg(long, value_name = "DIR", requires = "audit", default_value = "audit")]
    to: String,
    /// A CSV or Parquet file with labels of such pairs: yes, no or unsure in the column label
    #[arg(long, value_name = "FILE", conflicts_with_all = ["audit", "truth"])]
    labels: Option<String>,
    /// With --audit, where the source is now, if it was moved; name as many as the source has URLs, in their order
    #[arg(long, value_name = "URL", requires = "audit")]
    source: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
}

impl Evaluate {
    pub(in crate::cli) fn run(&self) -> Result<()> {
        if let Some(pairs) = self.audit {
            return self.draw(pairs);
        }
        if let Some(file) = &self.labels {
            let judged =
                on_session(self.memory, async |session, _| audit::judge(session, &self.output, file).await)?;
            return print::result(&if self.json {
                print::json(&judged)?
            } else {
                audited::judged_text(&judged)
            });
        }
        let (sample, truth) = (self.sample.get(), self.truth.clone());
        let settings = EvaluationSettings { sample, seed: self.seed, memory: self.memory, truth };
        let evaluation =
            on_session(self.memory, async |session, _| evaluate(session, &self.output, &settings).await)?;
        print::result(&if self.json { print::json(&evaluation)? } else { evaluated::text(&evaluation) })
    }

    /// Writes a pack of pairs to judge.
    fn draw(&self, pairs: NonZeroUsize) -> Result<()> {
        let paths = audited::free(&self.to)?;
        let settings =
            audit::AuditSettings { pairs: pairs.get(), seed: self.seed, places: self.source.clone() };
        let pack =
            on_session(self.memory, async |session, _| audit::audit(session, &self.output, &settings).await)?;
        audited::write(&pack, &paths)?;
        print::result(&match self.json {
            true => print::json(&audited::pack_json(&pack, &paths))?,
            false => audited::pack_text(&pack, &paths, &self.output),
        })
    }
}
