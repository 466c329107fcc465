//! `resemblance find`: finds similar files or rows without a job file.

use std::collections::{BTreeSet, HashMap};

use crate::cli::arguments::data::{DataJob, FromData};
use crate::cli::arguments::{self, CsvArguments};
use crate::cli::commands::apply::{left_out, short_texts};
use crate::cli::process::pair_page::{page_file, write_page};
use crate::cli::process::rejects_file::{NOT_TEXT, RejectsFile};
use crate::cli::process::run_job::{TopPairs, run_job};
use crate::cli::process::{JobRuntime, not_resumable};
use crate::cli::screen::side_by_side::{self, FIRST_LINES};
use crate::cli::screen::{Screen, print};
use crate::error::Result;
use crate::error::visible::visible;
use crate::job::file::JobFile;
use crate::job::{Job, Measure, Method, ParsedArgument, SourceId, similarity, whole};
use crate::lookup::show::{self, MemberTexts, PairOrder, PairRow, PairsView};
use crate::lookup::{self, Finished, rows};
use crate::output::manifest::Run;
use crate::pipeline::OnExisting;

/// Find similar documents, without a job file
///
/// Compares the rows of data, such as Parquet, CSV and JSON files or Delta tables. Other files are compared as whole texts. The
/// detected settings, such as the delimiter and the text column, are printed to standard error.
#[derive(clap::Args)]
#[command(after_help = "  resemblance find essays/ --show 3
  resemblance find reviews.parquet --text body --threshold 0.7
  resemblance find reviews.parquet --where \"lang = 'en'\" --limit 10000
  resemblance find essays/ --contains 0.5 --top 20
  resemblance find titles.txt --lines --rejects rejects.csv")]
pub(crate) struct Find {
    #[command(flatten)]
    data: FromData,
    /// Find documents of which at least this share is contained in another one, whatever the length of the other; this search is exact
    #[arg(long, value_name = "SHARE", value_parser = similarity, conflicts_with = "threshold")]
    contains: Option<f64>,
    /// Print only the N most similar pairs
    #[arg(long, value_name = "N", value_parser = whole(1..=arguments::MAX_TOP))]
    top: Option<usize>,
    /// Write the documents that were not compared, with the reasons, to this new file, which ends in .csv, .jsonl or .parquet
    #[arg(long, value_name = "FILE", value_parser = RejectsFile::parse)]
    rejects: Option<RejectsFile>,
    /// Print one JSON object per pair
    #[arg(long, conflicts_with = "show")]
    json: bool,
    #[command(flatten)]
    csv: CsvArguments,
    /// Print the texts of the N most similar pairs side by side, with common passages marked; N defaults to 1
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "1", value_parser = pairs_to_show)]
    #[arg(conflicts_with_all = ["csv", "excel"])]
    show: Option<usize>,
    /// Also write the pairs side by side to this HTML file, to read, print or mail; an earlier page of pairs is replaced
    #[arg(long, value_name = "FILE")]
    html: Option<String>,
}

const PAIRS_ON_PAGE: usize = 1_000;

fn pairs_to_show(text: &str) -> ParsedArgument<usize> {
    whole(1..=arguments::MAX_TOP)(text)
        .map_err(|expected| format!("{expected}, or nothing; paths come before --show"))
}

/// Returns the `most` pairs of the finished job with the highest similarities, and their texts.
fn first_pairs(job: &Job, most: usize) -> Result<(PairsView, MemberTexts)> {
    JobRuntime::start(&job.engine)?.run(async {
        let session = lookup::session(&job.engine)?;
        let finished = Finished::open(&session, &job.output.url).await?;
        let found = show::pairs(&finished, PairOrder::MostSimilar, None, false, most).await?;
        let texts = MemberTexts::open(&finished, found.first.iter().flat_map(PairRow::documents)).await?;
        Ok((found, texts))
    })
}

impl Find {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let page = page_file(self.html.as_deref())?;
        if let Some(file) = &self.rejects {
            file.check()?;
        }
        let data = self.data.job(screen, "find", None, |file| self.set(file))?;
        let job = &data.job;
        // The tables are in a temporary folder, so a stopped run cannot be continued.
        let ran = run_job(job, screen.progress(), OnExisting::Fail, self.top).map_err(not_resumable)?;
        ran.raise_alarms(job)?;
        if let Some(file) = &self.rejects {
            file.write(job, &data.skipped)?;
        }
        let (run, pairs) = (&ran.outcome.manifest, &ran.pairs);
        if let Some(page) = &page {
            let (found, texts) = first_pairs(job, self.top.unwrap_or(PAIRS_ON_PAGE))?;
            let (shown, all) = (print::count(found.first.len() as u64), print::counted(found.all, "pair"));
            let intro = format!("{shown} of {all} of {} or more, the most similar first.", job.score.bound());
            write_page(page, (job, &self.data.files.paths), vec![intro], (&found.first, &texts), false)?;
        }
        screen.clear();
        self.csv.print(self.json, &COLUMNS, pairs, &job.source, || self.text(&data, run, pairs))
    }

    fn set(&self, file: &mut JobFile) {
        let Some(share) = self.contains else { return };
        (file.score.measure, file.score.threshold) = (Measure::Containment, share);
        if file.candidates.method.misses_contained().is_some() {
            file.candidates.method = Method::Prefix;
        }
    }

    /// Formats the pairs, the counts, and the texts of the first pairs.
    fn text(&self, data: &DataJob, manifest: &Run, pairs: &TopPairs) -> Result<String> {
        let DataJob { job, noun, skipped, .. } = data;
        let mut cells = rows::cells(pairs)?;
        shorten_paths(&mut cells, &job.source.id, pairs)?;
        let counts = &manifest.counts;
        let notes: String = short_texts(counts, &job.shingle)
            .into_iter()
            .chain(left_out(counts))
            .map(|(n, words)| format!("; {} {words}", print::count(n)))
            .collect();
        let mut rejects = manifest.rejects.clone();
        for file in skipped.iter().filter(|file| file.reason == NOT_TEXT) {
            *rejects.entry(file.reason.to_owned()).or_default() += 1;
        }
        let rejected = print::reasons(&rejects, ["; not compared: ", ""]);
        let summary = format!(
            "{} of {} or more among {}{rejected}{notes}\n{}",
            print::counted(counts.pairs, "pair"),
            job.score.bound(),
            print::counted(counts.documents, noun),
            side_by_side::left_out(counts.pairs, cells.len(), "pair", "--top"),
        );
        let share = format!("share of {noun}");
        let header = [*noun, "similar to", "jaccard", &share, "share of other"];
        let table = if cells.is_empty() { String::new() } else { print::table(&header, &cells) };
        let mut shown = String::new();
        if let Some(most) = self.show {
            let (found, texts) = first_pairs(job, most)?;
            shown += &side_by_side::pairs(&found.first, &texts, &job.shingle, FIRST_LINES)?;
            shown += &side_by_side::left_out(found.all, found.first.len(), "pair", "--show");
        }
        if let Some(file) = &self.html {
            shown += &format!("written to {}\n", visible(file));
        }
        let warning = counts.warning().map(|warning| format!("{warning}\n")).unwrap_or_default();
        Ok(format!("{warning}{table}{summary}{shown}"))
    }
}

/// Replaces ids that begin with absolute paths by the shortest ends of the paths that tell them apart.
fn shorten_paths(cells: &mut [Vec<String>], id: &SourceId, pairs: &TopPairs) -> Result<()> {
    let mut ids = Vec::new();
    rows::each_row(pairs, |values| {
        ids.extend(values.into_iter().take(2).map(|(id, _)| id));
        Ok(())
    })?;
    if matches!(id, SourceId::Columns(_)) || !ids.iter().all(|id| id.starts_with('/') || id.contains("://")) {
        return Ok(());
    }
    let ends = |id| str::rmatch_indices(id, '/').map(move |(at, _)| &id[at + 1..]).chain([id]);
    let mut counts = HashMap::<&str, usize>::new();
    let different: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
    different.into_iter().flat_map(ends).for_each(|end| *counts.entry(end).or_default() += 1);
    for (cell, id) in cells.iter_mut().flat_map(|row| row.iter_mut().take(2)).zip(&ids) {
        *cell = rows::shorten(ends(id).find(|end| counts[end] == 1).unwrap_or(id).to_owned());
    }
    Ok(())
}

/// The columns of the CSV output.
const COLUMNS: [&str; 5] = ["id_a", "id_b", "jaccard", "containment_a", "containment_b"];
