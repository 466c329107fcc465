//! `resemblance merge`: merges finished outputs into one.

use crate::cli::support::arguments;
use crate::cli::support::arguments::made_by;
use crate::cli::support::print::{self, NumberColumn};
use crate::cli::support::progress::Screen;
use crate::cli::support::run_job::{finished_already, run_job};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::output::counts::Counts;
use crate::pipeline::Outcome;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance merge out/monday/ out/tuesday/ --to out/until-tuesday/";

/// Merge finished outputs into one, as if one run had read all of their documents
///
/// Each output must come from a run that named all earlier ones in [against], and they are named in the order in
/// which they were made. No text is read. Documents that a later run replaced are left out. The outputs stay as they are.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Merge {
    /// The outputs, in the order in which they were made
    #[arg(required = true, value_name = "OUTPUT")]
    outputs: Vec<String>,
    /// Folder or URL prefix of the new output
    #[arg(long, value_name = "URL")]
    to: String,
    /// Replace the result that the new output holds as soon as the new one is complete
    #[arg(long)]
    overwrite: bool,
    /// Let the executors of a cluster merge, such as df://host:50050; they must reach the outputs and --to
    #[arg(long, value_name = "URL", value_parser = arguments::scheduler)]
    scheduler: Option<String>,
    /// Memory to use, such as 4GiB, or a share of the machine's
    #[arg(long, value_name = "SIZE", default_value = "50%", value_parser = arguments::memory)]
    memory: u64,
    /// Print the counts as one JSON object
    #[arg(long)]
    json: bool,
}

impl Merge {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        let job = self.job()?;
        let existing = arguments::on_existing(self.overwrite);
        let ran = run_job(&job, screen.progress(), existing, Some(0));
        screen.clear();
        let (outcome, _) = ran?;
        print::result(&match self.json {
            true => print::json(&outcome.manifest.counts)?,
            false => as_text(&job, &outcome),
        })
    }

    /// The job that merges: the settings of the last output, on the engine of this command.
    fn job(&self) -> Result<Job> {
        let Some(last) = self.outputs.last() else { return Err(Error::job("no output was named")) };
        let engine = arguments::engine(self.scheduler.as_deref(), self.memory)?;
        let made = made_by(last)?;
        Ok(Job { engine, ..Job::of_merge(self.outputs.clone(), &made, &self.to) })
    }
}

fn as_text(job: &Job, outcome: &Outcome) -> String {
    let Counts { documents, pairs, clusters, rejects, .. } = outcome.manifest.counts;
    let mut numbers = NumberColumn(finished_already(job, outcome));
    for (count, noun) in
        [(documents, "document"), (pairs, "pair"), (clusters, "cluster"), (rejects, "reject")]
    {
        numbers.line(count, noun, "");
    }
    let tables: Vec<&str> = outcome.manifest.tables.keys().map(String::as_str).collect();
    format!("{}\ntables in {}: {}\n", numbers.0, job.output.url, tables.join(", "))
}
