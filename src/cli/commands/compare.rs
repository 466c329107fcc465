//! `resemblance compare`: times three methods that find the same pairs.

use std::fmt::Write;
use std::num::NonZeroUsize;

use crate::cli::support::arguments;
use crate::cli::support::measure::MeasureArguments;
use crate::cli::support::print;
use crate::cli::support::progress::Screen;
use crate::error::Result;
use crate::lab::compare::{Comparison, compare, page};

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance compare my.toml --documents 100,1000";

/// Time three methods that find the same pairs, on growing samples
///
/// The methods are exact Jaccard of all pairs, signature agreement of all pairs, and LSH (scored as the job says). Each
/// runs on the first documents of the job's source. Samples and everything computed from them stay in memory. A total
/// is the time from texts to pairs: shingle sets, signatures if the method needs them, and the search. Reading the
/// source is not counted. Nothing is written to the job's output.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct CompareCommand {
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
    #[command(flatten)]
    measure: MeasureArguments,
}

impl CompareCommand {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        let measured = self.measure.run(screen, async |session, job, control| {
            compare(session, job, &self.documents, self.repeat, control).await
        });
        let (comparison, added) = measured?;
        let page = page::page(&comparison, &added);
        let charts = page::charts(&comparison, &added);
        self.measure.publish(&comparison, ("compare", &page), &charts, &as_text(&comparison))
    }
}

fn as_text(comparison: &Comparison) -> String {
    let mut text = print::table(&page::COLUMNS, &page::rows(comparison));
    let _ = writeln!(
        text,
        "\npairs of similarity {} or more; each time is the shortest of {}",
        comparison.job.score.threshold, comparison.repeat
    );
    if let Some(note) = &comparison.note {
        let _ = writeln!(text, "{note}");
    }
    for (of, sentences) in page::verdicts(comparison) {
        let _ = writeln!(text, "{of}:");
        for sentence in sentences {
            let _ = writeln!(text, "  {sentence}");
        }
    }
    text
}
