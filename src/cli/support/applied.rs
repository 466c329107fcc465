//! What an application kept, removed and wrote, in lines.

use serde_json::{Value, json};

use crate::apply::{self, Counts, Losses, Opened, Outcome, Rejects};
use crate::cli::support::full_disk::{self, Place};
use crate::cli::support::{print, telemetry};
use crate::engine::{Engine, RunControl};
use crate::error::Result;

/// The place of documents that cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum Where {
    /// They stay
    Keep,
    /// They are left out
    Drop,
    /// They are written to _resemblance/rejected/
    Separate,
}

impl Where {
    pub(in crate::cli) fn rejects(self) -> Rejects {
        match self {
            Where::Keep => Rejects::Keep,
            Where::Drop => Rejects::Drop,
            Where::Separate => Rejects::Separate,
        }
    }

    /// The place in a sentence.
    pub(in crate::cli) fn in_words(self) -> &'static str {
        match self {
            Where::Keep => "which stay",
            Where::Drop => "which are left out",
            Where::Separate => "which are in _resemblance/rejected/",
        }
    }
}

/// Writes the dataset without its duplicates to `to`. The error of a full disk says how much is needed there.
///
/// # Errors
/// As [`apply::apply`].
pub(in crate::cli) async fn apply(
    engine: &dyn Engine,
    opened: Opened,
    to: &str,
    control: &RunControl,
) -> Result<Outcome> {
    let needed = opened.bytes();
    let applied = apply::apply(engine, opened, to, control).await;
    if let Ok(outcome) = &applied {
        telemetry::applied(to, outcome);
    }
    let places: Vec<Place> = Place::of_url("--to", to).into_iter().collect();
    applied.map_err(|error| full_disk::explain(error, &places, Some(needed)))
}

/// The counts, each on a line; the words of two of them are `kept` and `of_rejects`.
pub(in crate::cli) fn counts(counts: Counts, kept: &str, of_rejects: &str) -> String {
    let lines = [
        (counts.read, "documents read"),
        (counts.kept, kept),
        (counts.removed, "removed as near-duplicates"),
        (counts.rejected, of_rejects),
    ];
    lines.into_iter().map(|(number, line)| format!("{:>12} {line}\n", print::count(number))).collect()
}

/// What is lost by removing `removed` documents, each number on a line. `shingles` says what a shingle is.
pub(in crate::cli) fn losses(losses: &Losses, removed: u64, shingles: &str) -> String {
    let lossy = format!(
        "of the {} removed have text that is lost: more than 2 % of their shingles ({shingles}) are not in the document that stays",
        print::count(removed)
    );
    let lines = [
        (
            Some(losses.spared).filter(|&spared| spared > 0),
            "kept: the document that represents their cluster does not contain them",
        ),
        (losses.lossy_removals.filter(|_| removed > 0), lossy.as_str()),
        (losses.lost_shingles, "shingles lost in all: no document that stays of the same cluster has them"),
    ];
    let known = lines.into_iter().filter_map(|(number, line)| Some((number?, line)));
    known.map(|(number, line)| format!("{:>12} {line}\n", print::count(number))).collect()
}

/// The line for the files that were written to the folder `to`.
pub(in crate::cli) fn written(outcome: &Outcome, to: &str) -> String {
    if outcome.already_finished {
        return format!("{to} is finished already; nothing was written\n");
    }
    let files = files(outcome);
    let reused = match outcome.files_reused {
        0 => String::new(),
        files => format!("; an earlier run had done {} of the source", print::counted(files, "file")),
    };
    format!("{} in {to}{reused}\n", print::counted(files as u64, "file"))
}

/// The counts for programs, and what was written; nothing was where there is no `outcome`.
pub(in crate::cli) fn record(counts: Counts, outcome: Option<&Outcome>) -> Value {
    json!({
        "read": counts.read,
        "kept": counts.kept,
        "removed": counts.removed,
        "rejected": counts.rejected,
        "files": outcome.map(files),
        "already_finished": outcome.is_some_and(|outcome| outcome.already_finished),
        "dry_run": outcome.is_none(),
    })
}

/// The number of files that were written.
fn files(outcome: &Outcome) -> usize {
    outcome.manifest.files.iter().map(|file| file.written.len()).sum()
}
