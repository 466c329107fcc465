//! `resemblance merge`: merges finished outputs into one.

use crate::cli::arguments::{self, EngineArguments, made_by};
use crate::cli::commands::run;
use crate::cli::process::run_job::run_job;
use crate::cli::process::{MANIFEST_MEMORY, on_session};
use crate::cli::screen::{Screen, print};
use crate::error::{Error, Result};
use crate::job::Job;
use crate::pipeline::first_day;

/// Merge finished outputs into one, as if one run had read all documents
///
/// Each output must come from a run that named all earlier outputs in [against]. Give the outputs in the order of their runs. No text is
/// read. Documents that a later run replaced are omitted. The outputs are not changed. On the first day, the output of earlier days, which
/// does not exist yet, is left out.
#[derive(clap::Args)]
#[command(after_help = "  resemblance merge out/monday/ out/tuesday/ --to out/until-tuesday/")]
pub(crate) struct Merge {
    /// The outputs, in the order of their runs
    #[arg(required = true, value_name = "OUTPUT")]
    outputs: Vec<String>,
    /// Folder or URL prefix of the new output
    #[arg(long, value_name = "URL")]
    to: String,
    /// Replace an existing result in the new output when the merged result is complete
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    engine: EngineArguments,
    /// Print the counts as one JSON object
    #[arg(long)]
    json: bool,
}

impl Merge {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let job = self.job()?;
        let existing = arguments::on_existing(self.overwrite);
        let ran = run_job(&job, screen.progress(), existing, Some(0))?;
        screen.clear();
        if self.json {
            return print::result(&print::json(&ran.outcome.manifest.counts)?);
        }
        print::result(&run::as_text(&job, &ran.outcome, &ran.pairs)?)
    }

    /// Returns the job that merges the outputs, with the settings of the last output and the engine of this command.
    fn job(&self) -> Result<Job> {
        let Some(last) = self.outputs.last() else { return Err(Error::job("no output was named")) };
        let engine = self.engine.settings()?;
        let made = made_by(last)?;
        let outputs = on_session(MANIFEST_MEMORY, async |session, _| {
            first_day::without_missing(session, &self.outputs).await
        })?;
        for missing in self.outputs.iter().take(self.outputs.len() - outputs.len()) {
            tracing::warn!(
                "{missing} is left out: it did not exist on the first day, whose output is {}",
                outputs[0]
            );
        }
        Ok(Job { engine, ..Job::merge(outputs, &made, &self.to) })
    }
}
