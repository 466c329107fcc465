//! `resemblance find`: finds similar files or rows without a job file.

use crate::cli::arguments::data::FromData;
use crate::cli::arguments::{self, CsvArguments};
use crate::cli::commands::apply::{left_out, short_texts};
use crate::cli::process::run_job::{TopPairs, run_job};
use crate::cli::process::{JobRuntime, not_resumable};
use crate::cli::screen::{Screen, print, side_by_side};
use crate::error::Result;
use crate::job::{Job, ParsedArgument, whole};
use crate::lookup::show::{self, MemberTexts, PairOrder, PairRow};
use crate::lookup::{self, Finished, rows};
use crate::output::manifest::Run;
use crate::page::side_by_side::Extent;
use crate::pipeline::OnExisting;

/// Find similar documents, without a job file
///
/// Compares the rows of Parquet, CSV and JSON files and of Delta tables. Other files are compared as whole texts. The detected
/// settings, such as the delimiter and the text column, are printed to standard error.
#[derive(clap::Args)]
#[command(after_help = "  resemblance find essays/ --show 3
  resemblance find reviews.parquet --text body --threshold 0.7
  resemblance find reviews.parquet --where \"lang = 'en'\" --limit 10000")]
pub(crate) struct Find {
    #[command(flatten)]
    data: FromData,
    /// Print one JSON object per pair
    #[arg(long, conflicts_with = "show")]
    json: bool,
    #[command(flatten)]
    csv: CsvArguments,
    /// Print the texts of the N most similar pairs side by side, with common passages marked; N defaults to 1
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = pairs_to_show)]
    #[arg(conflicts_with_all = ["csv", "excel"])]
    show: Option<usize>,
}

fn pairs_to_show(text: &str) -> ParsedArgument<usize> {
    whole(1..=arguments::MAX_TOP)(text)
        .map_err(|expected| format!("{expected}, or nothing; paths come before --show"))
}

/// Returns the texts of at most `most` pairs of the finished job, the pairs with the highest similarities first.
fn texts_of_pairs(job: &Job, most: usize) -> Result<String> {
    JobRuntime::start(&job.engine)?.run(async {
        let session = lookup::session(&job.engine)?;
        let finished = Finished::open(&session, &job.output.url).await?;
        let found = show::pairs(&finished, PairOrder::MostSimilar, None, most).await?;
        if found.first.is_empty() {
            return Ok(String::new());
        }
        let texts = MemberTexts::open(&finished, found.first.iter().flat_map(PairRow::documents)).await?;
        let sides = side_by_side::pairs(&found.first, &texts, &job.shingle, Extent::Compared)?;
        Ok(format!("{sides}{}", side_by_side::left_out(found.all, found.first.len(), "pair", "--show")))
    })
}

impl Find {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let (job, noun, _folder) = self.data.job(screen, "find", None, |_| ())?;
        // The tables are in a temporary folder, so a stopped run cannot be continued.
        let ran = run_job(&job, screen.progress(), OnExisting::Fail, None).map_err(not_resumable)?;
        ran.raise_alarms(&job)?;
        let (run, pairs) = (&ran.outcome.manifest, &ran.pairs);
        screen.clear();
        self.csv.print(self.json, &COLUMNS, pairs, || self.text(&job, noun, run, pairs))
    }

    /// Formats the pairs, the counts, and the texts of the first pairs.
    fn text(&self, job: &Job, noun: &str, manifest: &Run, pairs: &TopPairs) -> Result<String> {
        let cells = rows::cells(pairs)?;
        let counts = &manifest.counts;
        let notes: String = short_texts(counts, &job.shingle)
            .into_iter()
            .chain(left_out(counts))
            .map(|(n, words)| format!("; {} {words}", print::count(n)))
            .collect();
        let rejected = print::reasons(&manifest.rejects, ["; not compared: ", ""]);
        let summary = format!(
            "{} of similarity {} or more among {}{rejected}{notes}\n",
            print::counted(counts.pairs, "pair"),
            job.score.threshold,
            print::counted(counts.documents, noun),
        );
        let share = format!("share of {noun}");
        let header = [noun, "similar to", "jaccard", &share, "share of other"];
        let table = if cells.is_empty() { String::new() } else { print::table(&header, &cells) };
        let shown = match self.show {
            Some(most) => texts_of_pairs(job, most)?,
            None => String::new(),
        };
        Ok(format!("{table}{summary}{shown}"))
    }
}

/// The columns of the CSV output.
const COLUMNS: [&str; 5] = ["id_a", "id_b", "jaccard", "containment_a", "containment_b"];
