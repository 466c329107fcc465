//! `resemblance sweep`: measures a job with many combinations of settings.

use std::fmt::Write;

use crate::cli::commands::compare::MeasureArguments;
use crate::cli::screen::{Screen, print};
use crate::error::Result;
use crate::lab::sweep::{COLUMNS, Grid, sweep};

/// Try shingle sizes, thresholds and numbers of documents
///
/// Runs every shingle size on every sample, and finds the pairs that a run with each threshold would find. If the job has a rule that
/// chooses bands, bands are chosen for each threshold. A time has two parts: from texts in memory to signatures (sketches), and from
/// signatures to scored pairs (search). Reading the source is not counted. Nothing is written to the job's output.
#[derive(clap::Args)]
#[command(after_help = "  resemblance sweep my.toml --thresholds 0.5,0.7,0.9 --sizes 3,5 --plots plots/")]
pub(crate) struct SweepCommand {
    #[command(flatten)]
    grid: Grid,
    #[command(flatten)]
    measure: MeasureArguments,
}

impl SweepCommand {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let measured = self
            .measure
            .run(screen, async |session, job, control| sweep(session, job, &self.grid, control).await);
        let (found, added) = measured?;
        let mut text = print::table(&COLUMNS, found.rows());
        let _ = writeln!(text, "\n{}", found.coverage());
        if let Some(note) = &found.note {
            let _ = writeln!(text, "{note}");
        }
        let (page, charts) = (found.page(&added), found.charts(&added));
        self.measure.publish(&found, ("sweep", &page), &charts, &text)
    }
}
