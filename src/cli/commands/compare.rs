//! `resemblance compare`: three methods for the same pairs, and which is fast when.

use std::fmt::Write;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use crate::cli::support::arguments;
use crate::cli::support::job_arguments::JobArguments;
use crate::cli::support::progress::Screen;
use crate::cli::support::{measure, print};
use crate::error::{Error, Result};
use crate::experiment::compare::{Comparison, compare};
use crate::report;

/// Time three methods that find the same pairs, on growing samples
///
/// The methods are exact Jaccard of all pairs, signature agreement of all pairs, and LSH (scored as the job says). Each
/// runs on the first documents of the job's source. Samples and everything computed from them stay in memory. A total
/// is the time from texts to pairs: shingle sets, signatures if the method needs them, and the search. Reading the
/// source is not counted. Nothing is written to the job's output.
#[derive(clap::Args)]
pub(in crate::cli) struct Compare {
    #[command(flatten)]
    job: JobArguments,
    /// Sizes of the samples: each has the first N documents that can be compared, by file and position
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        default_value = "100,500,1000,2000,5000",
        value_parser = arguments::one_to(arguments::MAX_SAMPLE)
    )]
    documents: Vec<NonZeroUsize>,
    /// Measure this many times, and report the shortest time
    #[arg(long, value_name = "N", default_value = "1", value_parser = arguments::one_to(arguments::MAX_REPEAT))]
    repeat: NonZeroUsize,
    /// Print everything that was measured as one JSON object
    #[arg(long)]
    json: bool,
    /// Write compare.svg, compare-search.svg and compare.html into this folder
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
    /// Add lines of other programs to the chart of totals: a CSV file with the columns name, documents and seconds
    #[arg(long, value_name = "FILE", requires = "plots")]
    add_series: Option<PathBuf>,
}

impl Compare {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        let job = self.job.load()?;
        let added = measure::added(self.add_series.as_deref())?;
        measure::make_folder(self.plots.as_deref())?;
        let comparison = measure::run(&job, screen, async |session, control| {
            compare(session, &job, &self.documents, self.repeat, control).await
        })?;
        let written = match &self.plots {
            Some(folder) => {
                let page = report::compare::page(&comparison, &added);
                let charts = report::compare::charts(&comparison, &added);
                let written = measure::write_plots(folder, ("compare", &page), &charts)?;
                measure::said(folder, &written)
            }
            None => String::new(),
        };
        if self.json {
            let record = serde_json::to_value(&comparison)
                .map_err(|e| Error::bug("the comparison cannot be written").because(e))?;
            return print::result(&format!("{record:#}\n"));
        }
        print::result(&format!("{}{written}", as_text(&comparison)))
    }
}

fn as_text(comparison: &Comparison) -> String {
    let mut text = print::table(&report::compare::COLUMNS, &report::compare::rows(comparison));
    let _ = writeln!(
        text,
        "\npairs of similarity {} or more; each time is the shortest of {}",
        comparison.job.score.threshold, comparison.repeat
    );
    if let Some(note) = &comparison.note {
        let _ = writeln!(text, "{note}");
    }
    for (of, sentences) in report::compare::verdicts(comparison) {
        let _ = writeln!(text, "{of}:");
        for sentence in sentences {
            let _ = writeln!(text, "  {sentence}");
        }
    }
    text
}
