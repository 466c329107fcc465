//! `resemblance forget`: rewrites finished outputs without some documents.

use std::fmt::Write;

use crate::cli::arguments::EngineArguments;
use crate::cli::process::on_session;
use crate::cli::process::run_job::run_job;
use crate::cli::screen::{Screen, print};
use crate::error::Result;
use crate::forget::{Erasure, RECEIPT, Receipt};
use crate::job::Job;
use crate::pipeline::OnExisting;

/// Write outputs again as if some documents had never been read, for an erasure request
///
/// Each output is written to a folder of its name below --to, with a receipt beside them. Give the outputs that were made from one another
/// together, in the order of their runs. Nothing that exists is changed: the receipt lists what still holds the documents.
#[derive(clap::Args)]
#[command(after_help = "  resemblance forget out/reviews/ --ids ids.txt --to erased/
  resemblance forget out/monday/ out/tuesday/ --ids request-17.csv --to erased/")]
pub(crate) struct Forget {
    /// The outputs, in the order of their runs
    #[arg(required = true, value_name = "OUTPUT")]
    outputs: Vec<String>,
    /// The ids to forget: a CSV or Parquet file with the column id, or a text file with one id in each line. A column source limits an id to
    /// a file
    #[arg(long, value_name = "FILE")]
    ids: String,
    /// Empty folder or URL prefix of the new outputs and the receipt
    #[arg(long, value_name = "URL")]
    to: String,
    #[command(flatten)]
    engine: EngineArguments,
    /// Print the receipt as JSON
    #[arg(long)]
    json: bool,
}

impl Forget {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let engine = self.engine.settings()?;
        let erasure = on_session(self.engine.memory, async |session, _| {
            Erasure::plan(session, &self.outputs, &self.ids, &self.to).await
        })?;
        for output in &erasure.outputs {
            let job = Job { engine: engine.clone(), ..output.job.clone() };
            run_job(&job, screen.progress(), OnExisting::Fail, Some(0))?;
        }
        screen.clear();
        let receipt =
            on_session(self.engine.memory, async |session, _| Receipt::write(session, &erasure).await)?;
        print::json_or(self.json, &receipt, || self.as_text(&receipt))
    }

    fn as_text(&self, receipt: &Receipt) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        for output in &receipt.outputs {
            let forgotten = print::counted(output.forgotten.len() as u64, "document");
            let promoted = output.promoted.len() as u64;
            let kept = print::either(promoted, "is kept", "are kept");
            _ = writeln!(text, "{} forgotten in {}", forgotten, output.after);
            if promoted > 0 {
                _ = writeln!(
                    text,
                    "  {} {kept} now that another one represented",
                    print::counted(promoted, "document")
                );
            }
        }
        let unknown = &receipt.unknown_ids;
        if !unknown.is_empty() {
            let first =
                unknown.iter().take(NAMED_IDS).map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ");
            let more = if unknown.len() > NAMED_IDS { ", and others in the receipt" } else { "" };
            let ids = print::counted(unknown.len() as u64, "id");
            _ = writeln!(text, "No document has {ids}: {first}{more}");
        }
        text.push_str("These still hold the documents:\n");
        for place in &receipt.still_held {
            _ = writeln!(text, "  {} ({})", place.url, place.what);
        }
        _ = writeln!(text, "The receipt is {}/{RECEIPT}", self.to.trim_end_matches('/'));
        text
    }
}

/// The number of unknown ids in the summary.
const NAMED_IDS: usize = 10;
