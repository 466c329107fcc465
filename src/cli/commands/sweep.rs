//! `resemblance sweep`: measures a job with many combinations of settings.

use std::fmt::Write;
use std::num::NonZeroUsize;

use crate::cli::arguments;
use crate::cli::commands::compare::MeasureArguments;
use crate::cli::screen::{Screen, print};
use crate::error::Result;
use crate::job::MAX_SHINGLE_SIZE;
use crate::lab::sweep::{COLUMNS, Grid, sweep};

/// Try shingle sizes, thresholds and numbers of documents
///
/// Runs every shingle size on every sample, and finds the pairs that a run with each threshold would find. If the job has a rule that
/// chooses bands, bands are chosen for each threshold. A time has two parts: from texts in memory to signatures (sketches), and from
/// signatures to scored pairs (search). Reading the source is not counted. Nothing is written to the job's output.
#[derive(clap::Args)]
#[command(after_help = "  resemblance sweep my.toml --thresholds 0.5,0.7,0.9 --sizes 3,5 --plots plots/")]
pub(crate) struct SweepCommand {
    /// Thresholds to try: the minimum similarity of a pair; each is greater than 0 and at most 1
    #[arg(
        long,
        value_name = "T,..",
        value_delimiter = ',',
        default_value = "0.3,0.5,0.7,0.9",
        value_parser = arguments::similarity
    )]
    thresholds: Vec<f64>,
    /// Shingle sizes to try, in the unit of the job (words or characters)
    #[arg(
        long,
        value_name = "K,..",
        value_delimiter = ',',
        default_value = "3,5,7",
        value_parser = arguments::one_to(MAX_SHINGLE_SIZE)
    )]
    sizes: Vec<NonZeroUsize>,
    /// Sample sizes: each sample contains the first N documents that can be compared at every shingle size, by file and position
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "100,500,1000",
        value_parser = arguments::one_to(arguments::MAX_SAMPLE)
    )]
    documents: Vec<NonZeroUsize>,
    /// Number of runs for each shingle size and sample
    #[arg(long, value_name = "N", default_value = "3", value_parser = arguments::one_to(arguments::MAX_REPEAT))]
    repeat: NonZeroUsize,
    #[command(flatten)]
    measure: MeasureArguments,
}

impl SweepCommand {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let grid = Grid {
            thresholds: self.thresholds.clone(),
            sizes: self.sizes.clone(),
            documents: self.documents.clone(),
            repeat: self.repeat,
        };
        let measured =
            self.measure.run(screen, async |session, job, control| sweep(session, job, &grid, control).await);
        let (found, added) = measured?;
        let mut text = print::table(&COLUMNS, &found.rows());
        let _ = writeln!(text, "\n{}", found.coverage());
        if let Some(note) = &found.note {
            let _ = writeln!(text, "{note}");
        }
        let (page, charts) = (found.page(&added), found.charts(&added));
        self.measure.publish(&found, ("sweep", &page), &charts, &text)
    }
}
