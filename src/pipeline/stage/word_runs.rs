//! run_fingerprints, run_fingerprint_hits, windows, repeated_windows: the windows of words that occur more than
//! once.

use arrow::datatypes::Field;
use datafusion::prelude::{DataFrame, col, lit};

use super::interface::{Planned, Stage, StagePlan};
use super::units::BYTES_OF_UNIT;
use crate::error::{Error, Result};
use crate::frames;
use crate::frames::repeats::PassageRows;
use crate::job::Job;
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{AnyTable, WorkTable, numbers};
use crate::schema::SourceTypes;

impl WorkTable {
    /// The fingerprints of all documents.
    pub(crate) const FINGERPRINTS: Self = Self::new("run_fingerprints", fingerprint_columns);
    /// Those that occur more than once.
    pub(crate) const FINGERPRINT_HITS: Self = Self::new("run_fingerprint_hits", fingerprint_columns);
    /// The windows around such fingerprints: their hashes and places.
    pub(crate) const WINDOWS: Self = Self::new("windows", window_columns);
    /// The windows that occur more than once, and where each occurs first.
    pub(crate) const REPEATED_WINDOWS: Self = Self::new("repeated_windows", repeated_columns);
}

pub(super) fn fingerprint_columns(_source: &SourceTypes) -> Vec<Field> {
    numbers(["doc", "fingerprint"])
}

fn window_columns(_source: &SourceTypes) -> Vec<Field> {
    numbers(["doc", "hash_0", "hash_1", "at", "char_start", "of_reference"])
}

fn repeated_columns(_source: &SourceTypes) -> Vec<Field> {
    numbers(["doc", "at", "is_first", "occurrences", "reference_documents", "kept_doc", "kept_char_start"])
}

/// Bytes of a row (document, fingerprint).
pub(super) const BYTES_OF_FINGERPRINT: u64 = 32;

/// The words of a window, if the job finds runs of words.
pub(super) fn length(job: &Job) -> Option<usize> {
    job.passages?.words().map(|(length, _)| length)
}

pub(super) fn length_of(cx: &StageContext<'_>) -> Result<usize> {
    length(cx.job).ok_or_else(|| Error::bug("the job finds no runs of words"))
}

/// The columns of the table spans.
pub(super) async fn spans(cx: &StageContext<'_>, length: usize, gap: usize) -> Result<DataFrame> {
    let texts = cx.own_texts_at(WorkTable::HIT_POSITIONS).await?;
    let repeated = cx.table(WorkTable::REPEATED_WINDOWS)?;
    let documents = cx.in_turn_of(WorkTable::FINGERPRINT_HITS).await?;
    frames::word_runs::spans(texts, repeated, documents, (length, gap), &cx.job.shingle)
}

/// Cuts all texts, and keeps few of the hashes of their runs of words.
pub(super) static FINGERPRINTS: Stage = Stage::new(
    AnyTable::Work(WorkTable::FINGERPRINTS),
    |_| "read the texts again and choose hashes of runs of words".into(),
    |job| length(job).is_some(),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let fingerprints =
                frames::word_runs::fingerprints(cx.searched_texts().await?, length_of(cx)?, &cx.job.shingle)?;
            Ok(Planned { parts: cx.parts_of_source(), ..Planned::new(0, vec![fingerprints]) })
        })
    }),
);

/// Finds the fingerprints that occur more than once.
pub(super) static FINGERPRINT_HITS: Stage = Stage::new(
    AnyTable::Work(WorkTable::FINGERPRINT_HITS),
    |_| "find those hashes that occur more than once".into(),
    |job| length(job).is_some(),
    StagePlan::Now(|cx| {
        let new = cx.table(WorkTable::FINGERPRINTS)?;
        let hits = frames::word_runs::hits(cx.searched(new, WorkTable::REFERENCE_FINGERPRINTS)?)?;
        let rows = cx.rows(WorkTable::FINGERPRINTS) + cx.rows(WorkTable::REFERENCE_FINGERPRINTS);
        Ok(Planned::new(2 * rows * BYTES_OF_FINGERPRINT, vec![hits]))
    }),
);

/// Hashes the windows around them.
pub(super) static WINDOWS: Stage = Stage::new(
    AnyTable::Work(WorkTable::WINDOWS),
    |_| "read these texts again and hash the windows of words around the hashes".into(),
    |job| length(job).is_some(),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let hits = cx.table(WorkTable::FINGERPRINT_HITS)?;
            let windows = |texts, of_reference| {
                frames::word_runs::windows(texts, hits.clone(), length_of(cx)?, &cx.job.shingle, of_reference)
            };
            let mut windows_of_all = windows(cx.own_texts_at(WorkTable::HIT_POSITIONS).await?, false)?;
            if cx.reference.is_some() {
                let texts = cx.reference_texts_at(cx.table(WorkTable::HIT_POSITIONS)?).await?;
                windows_of_all = windows_of_all.union(windows(texts, true)?)?;
            }
            let bytes = cx.rows(WorkTable::FINGERPRINT_HITS) * BYTES_OF_FINGERPRINT + cx.bytes_of_files();
            Ok(Planned::new(bytes, vec![windows_of_all]))
        })
    }),
);

/// Finds the windows that occur more than once.
pub(super) static REPEATED_WINDOWS: Stage = Stage::new(
    AnyTable::Work(WorkTable::REPEATED_WINDOWS),
    |_| "find the windows that occur more than once".into(),
    |job| length(job).is_some(),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let order = cx.job.clusters.order();
            let windows = cx.table(WorkTable::WINDOWS)?;
            let rows = match cx.job.new_pairs() {
                None => PassageRows::of_new(windows),
                Some(pairs) => {
                    let is_of_reference = || col("of_reference").eq(lit(1_u64));
                    let reference = windows.clone().filter(is_of_reference())?;
                    PassageRows::with_reference(windows.filter(!is_of_reference())?, reference, pairs)
                }
            };
            let ranked =
                frames::word_runs::ranked(rows, cx.in_turn_of(WorkTable::FINGERPRINT_HITS).await?, &order)?;
            Ok(Planned::new(cx.rows(WorkTable::WINDOWS) * BYTES_OF_UNIT, vec![ranked]))
        })
    }),
);
