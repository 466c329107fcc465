//! `resemblance dedup`: writes a copy of data without near-duplicates. The command needs no job file.

use serde::{Deserialize, Serialize};

use crate::apply::{self, ApplySettings, Opened, Rejects};
use crate::cli::arguments::KeepArguments;
use crate::cli::arguments::data::{DataJob, FromData};
use crate::cli::commands::apply::{
    ApplyRecord, count_lines, finish, left_out, rejects_in_words, short_texts,
};
use crate::cli::process::run_job::run_job;
use crate::cli::process::{JobRuntime, MANIFEST_MEMORY, not_resumable, on_session};
use crate::cli::screen::Screen;
use crate::cli::screen::print::{self, NumberColumn};
use crate::cli::screen::side_by_side::{self, FIRST_LINES};
use crate::engine::{Engine, Local, RunControl};
use crate::error::{Error, Result};
use crate::job;
use crate::lookup::show::MemberTexts;
use crate::lookup::{self, Finished, Id, rows};
use crate::output::manifest::Run;
use crate::pipeline::OnExisting;

/// The maximum number of removed documents that --dry-run lists.
const SHOWN: usize = 20;

/// The maximum number of removed documents that --dry-run shows with their texts.
const EXAMPLES_SHOWN: usize = 3;

/// The maximum number of characters of each text in --dry-run.
const BEGINNING: usize = 300;

/// Write a copy of data without near-duplicates, without a job file
///
/// Finds similar documents like find, and writes the data without the duplicates like apply. The folder --to gets the files with the same
/// names, formats, columns and order. In this folder, _resemblance/removed/ contains the removed documents. Each removed document is
/// similar to the document that is kept instead. The original data are not changed.
#[derive(clap::Args)]
#[command(after_help = "  resemblance dedup reviews.csv --text body --to clean/
  resemblance dedup reviews.parquet --to clean/ --dry-run")]
pub(crate) struct Dedup {
    #[command(flatten)]
    data: FromData,
    #[command(flatten)]
    keep: KeepArguments,
    /// Treatment of documents that cannot be compared, such as empty texts
    #[arg(long, value_enum, value_name = "WHERE", default_value_t)]
    rejects: Rejects,
    /// The folder or URL to write to; it must be empty
    #[arg(long, value_name = "URL", required_unless_present = "dry_run")]
    to: Option<String>,
    /// Keep the tables of the run in this folder or URL, for show, sql and apply
    #[arg(long, value_name = "URL", conflicts_with = "dry_run")]
    output: Option<String>,
    /// Print the first 20 documents that would be removed, with the documents that are kept instead and the texts of 3 of them; write
    /// nothing
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A document that would be removed, and the document that is kept instead.
#[derive(Serialize, Deserialize)]
struct FirstRemoved {
    id: Id,
    kept_id: Id,
    jaccard: Option<f64>,
}

#[derive(Serialize)]
struct DedupRecord {
    #[serde(flatten)]
    applied: ApplyRecord,
    /// The documents that --dry-run lists.
    first_removed: Option<Vec<FirstRemoved>>,
    /// The table of [`Self::first_removed`], and some of their texts.
    #[serde(skip)]
    preview: String,
}

impl Dedup {
    pub(crate) fn run(&self, screen: &Screen) -> Result<()> {
        let DataJob { job, folder: _folder, .. } =
            self.data.job(screen, "dedup", self.output.as_deref(), |file| self.keep.set(file))?;
        let to = self.to.as_deref().filter(|_| !self.dry_run);
        if let Some(to) = to {
            on_session(MANIFEST_MEMORY, async |session, _| {
                apply::refuse_target(session, to, &job.source).await
            })?;
        }
        let ran = run_job(&job, screen.progress(), OnExisting::Fail, Some(0));
        // Without --output, the tables are in a temporary folder, so a stopped run cannot be continued.
        let ran = if self.output.is_some() { ran } else { ran.map_err(not_resumable) }?;
        ran.raise_alarms(&job)?;
        let run = &ran.outcome.manifest;
        screen.clear();
        check_compared(run, &self.data.files.paths)?;
        let settings = ApplySettings { rejects: self.rejects, ..ApplySettings::default() };
        let ended = apply_to(&job, settings, to, screen)?;
        screen.clear();
        if self.json {
            return print::result(&print::json_line(&ended)?);
        }
        let reasons = print::reasons(&run.rejects, [" (", "), "]);
        let rejected = match reasons.as_str() {
            "" => "not compared".to_owned(),
            reasons => format!("not compared{reasons}{}", rejects_in_words(self.rejects)),
        };
        let kept = format!("kept; of similar ones: {}", self.keep.rules().join(", if equal "));
        let mut numbers = NumberColumn::default();
        count_lines(&mut numbers, ended.applied.counts, &kept, &rejected);
        ended.applied.loss_lines(&mut numbers);
        let counts = &run.counts;
        short_texts(counts, &job.shingle).iter().for_each(|(n, words)| numbers.line(*n, "", words));
        for (n, words) in left_out(counts) {
            numbers.line(n, "", &format!("{words}, kept as they are"));
        }
        print::result(&format!("{}\n{}{}", numbers.0, ended.preview, ended.applied.written))
    }
}

/// Refuses data of which fewer than half of the documents, or fewer than two, could be compared. They were probably read with wrong
/// settings.
fn check_compared(run: &Run, paths: &[String]) -> Result<()> {
    let compared = run.counts.documents;
    let rejected: u64 = run.rejects.values().sum();
    if compared > 1 && compared >= rejected {
        return Ok(());
    }
    let reasons = print::reasons(&run.rejects, [" (", ")"]);
    Err(Error::input(format!(
        "{} of {} in {} can be compared{reasons}, but dedup needs at least two, and half of all: nothing was written; correct the data or \
         --text, or leave rows out by --where",
        print::count(compared),
        print::counted(compared + rejected, "document"),
        paths.join(", ")
    )))
}

/// Writes the data without duplicates to the folder `to`. Without `to`, only determines the removed documents.
fn apply_to(
    job: &job::Job,
    settings: ApplySettings,
    to: Option<&str>,
    screen: &Screen,
) -> Result<DedupRecord> {
    let runtime = JobRuntime::start(&job.engine)?;
    let control = RunControl { stop: runtime.stop.clone(), progress: screen.progress() };
    runtime.run_resumable(async {
        let engine = Local::new(lookup::session(&job.engine)?);
        let url = &job.output.url;
        let opened = Opened::open(engine.session(), url, Vec::new(), settings).await?;
        let removed: Option<Vec<FirstRemoved>> = match to {
            Some(_) => None,
            None => Some(rows::read(opened.first_removed(SHOWN)?).await?),
        };
        let applied = finish(&engine, opened, to, &control).await?;
        let preview = match &removed {
            Some(removed) => {
                preview(&Finished::open(engine.session(), url).await?, removed, &applied).await?
            }
            None => String::new(),
        };
        Ok(DedupRecord { applied, first_removed: removed, preview })
    })
}

/// Returns the beginnings of some removed texts, each side by side with the text that is kept instead.
async fn examples(finished: &Finished, removed: &[FirstRemoved]) -> Result<String> {
    let example = |first: &FirstRemoved| Some(([first.id.own(), first.kept_id.own()], first.jaccard?));
    let examples: Vec<_> = removed.iter().take(EXAMPLES_SHOWN).filter_map(example).collect();
    let texts = MemberTexts::open(finished, examples.iter().flat_map(|(members, _)| members.clone())).await?;
    let mut shown = String::new();
    for ([gone, stays], jaccard) in &examples {
        let names = [format!("would be removed: {}", gone.id), format!("stays: {}", stays.id)];
        let texts = [beginning(texts.text(gone)?), beginning(texts.text(stays)?)];
        let texts = texts.each_ref().map(String::as_str);
        shown += &side_by_side::two(*jaccard, names, texts, &finished.job().shingle, FIRST_LINES)?;
    }
    Ok(shown)
}

fn beginning(text: &str) -> String {
    match text.char_indices().nth(BEGINNING) {
        Some((end, _)) => format!("{} ...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

async fn preview(finished: &Finished, removed: &[FirstRemoved], applied: &ApplyRecord) -> Result<String> {
    if removed.is_empty() {
        return Ok(String::new());
    }
    let row = |FirstRemoved { id, kept_id, jaccard }: &FirstRemoved| {
        let jaccard = jaccard.map(|jaccard| format!("{jaccard:.6}")).unwrap_or_default();
        vec![rows::shorten(id.to_string()), rows::shorten(kept_id.to_string()), jaccard]
    };
    let header = ["would be removed", "duplicate of", "jaccard"];
    let mut text = print::table(&header, removed.iter().map(row));
    let left = applied.counts.removed.saturating_sub(removed.len() as u64);
    if left > 0 {
        text.push_str(&format!("and {} more\n", print::count(left)));
    }
    Ok(text + &examples(finished, removed).await? + "\n")
}
