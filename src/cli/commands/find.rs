//! `resemblance find`: finds similar files, or similar rows of data, without a job file.

use std::num::NonZeroUsize;

use crate::cli::support::arguments::CsvArguments;
use crate::cli::support::from_data::{DataJob, FromData, Noun};
use crate::cli::support::progress::Screen;
use crate::cli::support::run_job::{TopPairs, run_job};
use crate::cli::support::work::JobRuntime;
use crate::cli::support::{applied, arguments, print, side_by_side, temporary};
use crate::error::Result;
use crate::job;
use crate::lookup::show::{self, MemberTexts, PairOrder, PairRow};
use crate::lookup::{self, Finished, rows};
use crate::output::manifest::Run;
use crate::page::side_by_side::Extent;
use crate::pipeline::OnExisting;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance find essays/ --show 3
  resemblance find reviews.parquet --text body --threshold 0.7
  resemblance find reviews.parquet --where \"lang = 'en'\" --limit 10000";

/// Find similar documents, without a job file
///
/// Of Parquet, CSV and JSON lines files and of a Delta table the rows are compared, and of all other files each with the others.
/// What was found out about data, such as the delimiter and the column of texts, is printed to standard error.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Find {
    #[command(flatten)]
    data: FromData,
    /// Print one JSON object per pair
    #[arg(long, conflicts_with = "show")]
    json: bool,
    #[command(flatten)]
    csv: CsvArguments,
    /// Print the texts of the N most similar pairs side by side, with common passages marked; without N, 1 pair
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = pairs_to_show)]
    #[arg(conflicts_with_all = ["csv", "excel"])]
    show: Option<NonZeroUsize>,
}

fn pairs_to_show(text: &str) -> std::result::Result<NonZeroUsize, String> {
    arguments::one_to(arguments::MAX_TOP)(text)
        .map_err(|expected| format!("{expected}, or nothing; paths come before --show"))
}

/// The `most` most similar pairs of the finished job with their texts.
fn shown(job: &job::Job, most: usize) -> Result<String> {
    JobRuntime::begin(&job.engine)?.run(async {
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
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        // The tables are temporary: they are removed when the command ends.
        let folder = temporary::apart(&self.data.paths, temporary::folders())?;
        let DataJob { job, noun } =
            self.data.job(screen, "find", &folder.path().join("out").to_string_lossy(), &folder, |_| ())?;
        let (outcome, pairs) = run_job(&job, screen.progress(), OnExisting::Fail, None)?;
        screen.clear();
        self.csv.print(self.json, &COLUMNS, &pairs, || self.text(&job, noun, &outcome.manifest, &pairs))
    }

    /// The pairs, the counts, and the texts of the first pairs.
    fn text(&self, job: &job::Job, noun: Noun, manifest: &Run, pairs: &TopPairs) -> Result<String> {
        let cells = rows::cells(pairs)?;
        let counts = &manifest.counts;
        let notes: String = applied::short(counts, &job.shingle)
            .into_iter()
            .chain(applied::left_out(counts))
            .map(|(n, words)| format!("; {} {words}", print::count(n)))
            .collect();
        let rejected = match print::reasons(&manifest.rejects) {
            reasons if reasons.is_empty() => reasons,
            reasons => format!("; not compared: {reasons}"),
        };
        let summary = format!(
            "{} of similarity {} or more among {}{rejected}{notes}\n",
            print::counted(counts.pairs, "pair"),
            job.score.threshold,
            print::counted(counts.documents, noun.word()),
        );
        let table = match cells.is_empty() {
            true => String::new(),
            false => print::table(&header(noun), &cells),
        };
        let shown = match self.show {
            Some(most) => shown(job, most.get())?,
            None => String::new(),
        };
        Ok(format!("{table}{summary}{shown}"))
    }
}

/// The columns of CSV.
const COLUMNS: [&str; 5] = ["id_a", "id_b", "jaccard", "containment_a", "containment_b"];

fn header(noun: Noun) -> [&'static str; 5] {
    match noun {
        Noun::File => ["file", "similar to", "jaccard", "share of file", "share of other"],
        Noun::Document => ["document", "similar to", "jaccard", "share of document", "share of other"],
    }
}
