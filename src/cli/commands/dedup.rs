//! `resemblance dedup`: writes data without their near-duplicates, without a job file.

use serde::{Deserialize, Serialize};

use crate::apply::{self, ApplyOutcome, ApplySettings, DocumentCounts, Opened, Rejects, RemovalLosses};
use crate::cli::support::applied::WrittenRecord;
use crate::cli::support::arguments::KeepArguments;
use crate::cli::support::from_data::{DataJob, FromData};
use crate::cli::support::print::{self, NumberColumn};
use crate::cli::support::progress::Screen;
use crate::cli::support::run_job::run_job;
use crate::cli::support::work::{JobRuntime, MANIFEST_MEMORY, on_session};
use crate::cli::support::{applied, side_by_side, temporary};
use crate::engine::{Engine, Local, RunControl};
use crate::error::{Error, Result};
use crate::job;
use crate::lookup::show::MemberTexts;
use crate::lookup::{self, Finished, Id, rows};
use crate::output::manifest::Run;
use crate::page::side_by_side::Extent;
use crate::pipeline::OnExisting;

/// Documents that --dry-run shows.
const SHOWN: usize = 20;

/// The removed documents whose texts it shows.
const EXAMPLES_SHOWN: usize = 3;

/// The characters that it shows of a text.
const BEGINNING: usize = 300;

/// Examples of the command.
const EXAMPLES: &str = "\
Examples:
  resemblance dedup reviews.csv --text body --to clean/
  resemblance dedup reviews.parquet --to clean/ --dry-run";

/// Write a copy of data without their near-duplicates, without a job file
///
/// Finds the similar documents as find does, and writes the others as apply does: the files are in the folder that --to names,
/// with their names, formats, columns and order, and its folder _resemblance/removed/ has the documents that were removed. Each
/// of those is similar to the document that stays instead of it. The data themselves are not changed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Dedup {
    #[command(flatten)]
    data: FromData,
    #[command(flatten)]
    keep: KeepArguments,
    /// What to do with documents that cannot be compared, such as empty texts
    #[arg(long, value_enum, value_name = "WHERE", default_value_t)]
    rejects: Rejects,
    /// The folder or URL to write to, which must be empty
    #[arg(long, value_name = "URL", required_unless_present = "dry_run")]
    to: Option<String>,
    /// Keep the tables of the run in this folder or URL, for show, sql and apply
    #[arg(long, value_name = "URL", conflicts_with = "dry_run")]
    output: Option<String>,
    /// Print the first 20 documents that would be removed, each with the one that stays, show the texts of 3 of them, and write
    /// nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A document that would be removed, and the one that stays instead.
#[derive(Serialize, Deserialize)]
struct FirstRemoved {
    id: Id,
    kept_id: Id,
    jaccard: Option<f64>,
}

/// The result of the command.
struct DedupResult {
    counts: DocumentCounts,
    losses: RemovalLosses,
    /// The application; `None` where nothing was to be written.
    outcome: Option<ApplyOutcome>,
    /// The first documents that would be removed; empty if they were removed.
    removed: Vec<FirstRemoved>,
    /// The beginnings of the texts of some of them, each beside the text that stays.
    texts: String,
}

impl Dedup {
    pub(in crate::cli) fn run(&self, screen: &Screen) -> Result<()> {
        let folder = temporary::apart(&self.data.paths, temporary::folders())?;
        let output = match &self.output {
            Some(output) => output.clone(),
            None => folder.path().join("out").to_string_lossy().into_owned(),
        };
        let DataJob { job, .. } =
            self.data.job(screen, "dedup", &output, &folder, |file| self.keep.set(file))?;
        let to = self.to.as_deref().filter(|_| !self.dry_run);
        if let Some(to) = to {
            on_session(MANIFEST_MEMORY, async |session, _| {
                apply::refuse_target(session, to, &job.source).await
            })?;
        }
        let ran = run_job(&job, screen.progress(), OnExisting::Fail, Some(0));
        screen.clear();
        let (run, _) = ran?;
        refuse_few(&run.manifest, &self.data.paths)?;
        let settings = ApplySettings { rejects: self.rejects, ..ApplySettings::default() };
        let ended = apply_to(&job, settings, to, screen);
        screen.clear();
        let ended = ended?;
        if self.json {
            return print::result(&record(&ended)?);
        }
        let of_rejects = match print::reasons(&run.manifest.rejects) {
            reasons if reasons.is_empty() => "not compared".to_owned(),
            reasons => format!("not compared ({reasons}), {}", applied::rejects_in_words(self.rejects)),
        };
        let kept = format!("kept; of similar ones {}", self.keep.in_words());
        let mut numbers = NumberColumn(applied::counts(ended.counts, &kept, &of_rejects));
        let shingle = applied::shingle(&job.shingle);
        numbers.0.push_str(&applied::losses(&ended.losses, ended.counts.removed, &shingle));
        if let Some((n, words)) = applied::short(&run.manifest.counts, &job.shingle) {
            numbers.line(n, "", &words);
        }
        for (n, words) in applied::left_out(&run.manifest.counts) {
            numbers.line(n, "", &format!("{words}, kept as they are"));
        }
        let mut text = numbers.0 + "\n";
        text.push_str(&match (&ended.outcome, to) {
            (Some(outcome), Some(to)) => applied::written(outcome, to),
            _ => preview(&ended),
        });
        print::result(&text)
    }
}

/// Refuses data if nothing or less than half was compared: they were probably read in another way than they are written.
fn refuse_few(run: &Run, paths: &[String]) -> Result<()> {
    let compared = run.counts.documents;
    let rejected: u64 = run.rejects.values().sum();
    if compared > 1 && compared >= rejected {
        return Ok(());
    }
    let reasons = match print::reasons(&run.rejects) {
        reasons if reasons.is_empty() => String::new(),
        reasons => format!(" ({reasons})"),
    };
    Err(Error::input(format!(
        "{} of {} in {} can be compared{reasons}, and dedup needs two, and half of all: nothing was written; correct the data or \
         --text, or leave rows out by --where",
        print::count(compared),
        print::counted(compared + rejected, "document"),
        paths.join(", ")
    )))
}

/// Applies the output of `job` to the folder `to`, or says what that would do.
fn apply_to(
    job: &job::Job,
    settings: ApplySettings,
    to: Option<&str>,
    screen: &Screen,
) -> Result<DedupResult> {
    let work = JobRuntime::begin(&job.engine)?;
    let control = RunControl { stop: work.stop.clone(), progress: screen.progress() };
    work.run(async {
        let engine = Local::new(lookup::session(&job.engine)?);
        let url = &job.output.url;
        let opened = Opened::open(engine.session(), url, Vec::new(), settings).await?;
        let losses = opened.losses().await?;
        match to {
            Some(to) => {
                let outcome = applied::apply(&engine, opened, to, &control).await?;
                let counts = outcome.manifest.counts;
                Ok(DedupResult {
                    counts,
                    losses,
                    outcome: Some(outcome),
                    removed: Vec::new(),
                    texts: String::new(),
                })
            }
            None => {
                let counts = apply::forecast(&opened).await?.counts;
                let removed: Vec<FirstRemoved> = rows::read(opened.first_removed(SHOWN)?).await?;
                let finished = Finished::open(engine.session(), url).await?;
                let texts = examples(&finished, &removed).await?;
                Ok(DedupResult { counts, losses, outcome: None, removed, texts })
            }
        }
    })
}

/// The beginnings of the texts of some removed documents, each beside the text that stays.
async fn examples(finished: &Finished, removed: &[FirstRemoved]) -> Result<String> {
    let example = |of: &FirstRemoved| Some(([of.id.own(), of.kept_id.own()], of.jaccard?));
    let examples: Vec<_> = removed.iter().take(EXAMPLES_SHOWN).filter_map(example).collect();
    let texts = MemberTexts::open(finished, examples.iter().flat_map(|(members, _)| members.clone())).await?;
    let mut shown = String::new();
    for ([gone, stays], jaccard) in &examples {
        let names = [format!("would be removed: {}", gone.id), format!("stays: {}", stays.id)];
        let texts = [beginning(texts.of(gone)?), beginning(texts.of(stays)?)];
        let names = names.each_ref().map(String::as_str);
        let texts = texts.each_ref().map(String::as_str);
        shown += &side_by_side::two(*jaccard, names, texts, &finished.job().shingle, Extent::Compared);
    }
    Ok(shown)
}

fn beginning(text: &str) -> String {
    match text.char_indices().nth(BEGINNING) {
        Some((end, _)) => format!("{} ...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The first documents that would be removed.
fn preview(ended: &DedupResult) -> String {
    let row = |of: &FirstRemoved| {
        let jaccard = of.jaccard.map(|jaccard| format!("{jaccard:.6}")).unwrap_or_default();
        vec![rows::shorten(of.id.to_string()), rows::shorten(of.kept_id.to_string()), jaccard]
    };
    let rows: Vec<Vec<String>> = ended.removed.iter().map(row).collect();
    let mut text = String::new();
    if !rows.is_empty() {
        text.push_str(&print::table(&["would be removed", "duplicate of", "jaccard"], &rows));
        let left = ended.counts.removed.saturating_sub(rows.len() as u64);
        if left > 0 {
            text.push_str(&format!("and {} more\n", print::count(left)));
        }
        text.push_str(&ended.texts);
        text.push('\n');
    }
    text + "nothing was written\n"
}

/// The result for programs.
#[derive(Serialize)]
struct DedupRecord<'a> {
    #[serde(flatten)]
    counts: DocumentCounts,
    losses: RemovalLosses,
    first_removed: Option<&'a [FirstRemoved]>,
    #[serde(flatten)]
    written: WrittenRecord,
}

fn record(ended: &DedupResult) -> Result<String> {
    let DedupResult { counts, losses, outcome, removed, .. } = ended;
    print::json_line(&DedupRecord {
        counts: *counts,
        losses: *losses,
        first_removed: outcome.is_none().then_some(removed),
        written: WrittenRecord::new(outcome.as_ref()),
    })
}
