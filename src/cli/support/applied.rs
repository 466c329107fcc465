//! Lines about an application (kept, removed, written) and about rows that a run left out.

use serde::Serialize;

use crate::apply::{self, ApplyOutcome, DocumentCounts, Opened, Rejects, RemovalLosses};
use crate::cli::support::print::{self, NumberColumn};
use crate::cli::support::telemetry;
use crate::cli::support::temporary::{self, WriteFolder};
use crate::engine::{Engine, RunControl};
use crate::error::Result;
use crate::job::Shingle;
use crate::output::counts::Counts as RunCounts;

/// The place of documents that cannot be compared, in a sentence.
pub(in crate::cli) fn rejects_in_words(rejects: Rejects) -> &'static str {
    match rejects {
        Rejects::Keep => "which stay",
        Rejects::Drop => "which are left out",
        Rejects::Separate => "which are in _resemblance/rejected/",
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
) -> Result<ApplyOutcome> {
    let needed = opened.bytes();
    let applied = apply::apply(engine, opened, to, control).await;
    if let Ok(outcome) = &applied {
        telemetry::applied(to, outcome);
    }
    let places: Vec<WriteFolder> = WriteFolder::of_url("--to", to).into_iter().collect();
    applied.map_err(|error| temporary::explain(error, &places, Some(needed)))
}

/// The counts, each on a line; the words of two of them are `kept` and `of_rejects`.
pub(in crate::cli) fn counts(counts: DocumentCounts, kept: &str, of_rejects: &str) -> String {
    let mut numbers = NumberColumn::default();
    numbers.line(counts.read, "", "documents read");
    numbers.line(counts.kept, "", kept);
    numbers.line(counts.removed, "", "removed as near-duplicates");
    numbers.line(counts.rejected, "", of_rejects);
    numbers.0
}

/// What is lost by removing `removed` documents, each number on a line. `shingles` says what a shingle is.
pub(in crate::cli) fn losses(losses: &RemovalLosses, removed: u64, shingles: &str) -> String {
    let mut numbers = NumberColumn::default();
    let rest = "kept: the document that represents their cluster does not contain them";
    numbers.line(Some(losses.spared).filter(|&spared| spared > 0), "", rest);
    let lossy = losses.lossy_removals.filter(|_| removed > 0);
    let either = |one, other| print::either(lossy.unwrap_or_default(), one, other);
    let rest = format!(
        "of the {} removed {} text that is lost: more than 2 % of {} shingles ({shingles}) are not in the document that stays",
        print::count(removed),
        either("has", "have"),
        either("its", "their")
    );
    numbers.line(lossy, "", &rest);
    let rest = "shingles lost in all: no document that stays of the same cluster has them";
    numbers.line(losses.lost_shingles, "", rest);
    numbers.0
}

/// The line for the files that were written to the folder `to`.
pub(in crate::cli) fn written(outcome: &ApplyOutcome, to: &str) -> String {
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

/// The fields of the JSON result besides the counts.
#[derive(Serialize)]
pub(in crate::cli) struct WrittenRecord {
    files: Option<usize>,
    already_finished: bool,
    dry_run: bool,
}

impl WrittenRecord {
    pub(in crate::cli) fn new(outcome: Option<&ApplyOutcome>) -> Self {
        Self {
            files: outcome.map(files),
            already_finished: outcome.is_some_and(|outcome| outcome.already_finished),
            dry_run: outcome.is_none(),
        }
    }
}

/// The number of files that were written.
fn files(outcome: &ApplyOutcome) -> usize {
    outcome.manifest.files.iter().map(|file| file.written.len()).sum()
}

/// The numbers of rows and files that a run leaves out, each with the words after it; none that is 0.
pub(in crate::cli) fn left_out(counts: &RunCounts) -> Vec<(u64, String)> {
    let all = [
        (counts.files_left_out, "file", "by source.where"),
        (counts.rows_left_out_by_where, "row", "by source.where"),
        (counts.rows_left_out_by_limit, "row", "by source.limit"),
        (counts.reference_files_left_out, "file", "of the second source"),
        (counts.reference_rows_left_out, "row", "of the second source"),
    ];
    let words = |(n, noun, rest): (Option<u64>, &str, &str)| {
        let n = n.filter(|n| *n > 0)?;
        Some((n, format!("{} left out {rest}", print::plural(n, noun))))
    };
    all.into_iter().filter_map(words).collect()
}

/// A shingle in words, as `5 words in a row`.
pub(in crate::cli) fn shingle(shingle: &Shingle) -> String {
    match shingle.size {
        1 => format!("one {}", shingle.unit.noun()),
        size => format!("{} {} in a row", print::count(size as u64), shingle.unit.plural()),
    }
}

/// The number of texts that are no longer than a shingle, with the words after it; `None` if it is 0.
pub(in crate::cli) fn short(counts: &RunCounts, shingle: &Shingle) -> Option<(u64, String)> {
    let n = counts.single_shingle_documents.filter(|n| *n > 0)?;
    let has = print::either(n, "has", "have");
    let (size, units) = (shingle.size, shingle.unit.plural());
    let rule = "texts of fewer match only equal ones";
    Some((n, format!("{} {has} {size} {units} or fewer: {rule}", print::plural(n, "text"))))
}
