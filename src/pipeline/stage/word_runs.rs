//! fingerprints, fingerprint_hits, hit_positions, windows, repeated_windows: the windows of words that occur more than once.

use arrow::datatypes::Field;
use datafusion::prelude::{DataFrame, col};
use futures::future::BoxFuture;

use super::interface::{OneTable, Stage};
use super::units::{BYTES_OF_UNIT, compared, in_order};
use crate::error::{Error, Result};
use crate::job::{Job, Passages};
use crate::pipeline::context::StageContext;
use crate::pipeline::frames;
use crate::pipeline::tables::{AnyTable, WorkTable, numbers, position_columns};
use crate::schema::{SourceTypes, Table};

/// Cuts all texts, and keeps few of the hashes of their runs of words.
pub(crate) struct Fingerprints;

/// Finds the fingerprints that occur more than once.
pub(crate) struct FingerprintHits;

/// Finds the texts that have them.
pub(crate) struct HitPositions;

/// Hashes the windows around them.
pub(crate) struct Windows;

/// Finds the windows that occur more than once.
pub(crate) struct RepeatedWindows;

impl WorkTable {
    /// The fingerprints of all documents.
    pub(crate) const FINGERPRINTS: Self = Self::new("fingerprints", fingerprint_columns);
    /// Those that occur more than once.
    pub(crate) const FINGERPRINT_HITS: Self = Self::new("fingerprint_hits", fingerprint_columns);
    /// The positions of the texts with such fingerprints.
    pub(crate) const HIT_POSITIONS: Self = Self::new("hit_positions", position_columns);
    /// The windows around such fingerprints: their hashes and places.
    pub(crate) const WINDOWS: Self = Self::new("windows", window_columns);
    /// The windows that occur more than once, and where each occurs first.
    pub(crate) const REPEATED_WINDOWS: Self = Self::new("repeated_windows", repeated_columns);
}

fn fingerprint_columns(_source: &SourceTypes) -> Vec<Field> {
    numbers(["doc", "fingerprint"])
}

fn window_columns(_source: &SourceTypes) -> Vec<Field> {
    numbers(["doc", "hash_0", "hash_1", "at", "char_start"])
}

fn repeated_columns(_source: &SourceTypes) -> Vec<Field> {
    numbers(["doc", "at", "is_first", "occurrences", "kept_doc", "kept_char_start"])
}

/// Bytes of a row (document, fingerprint).
const BYTES_OF_FINGERPRINT: u64 = 32;

/// The words of a window, if the job finds runs of words.
fn length(job: &Job) -> Option<usize> {
    match job.passages? {
        Passages::Words { length, .. } => Some(length),
        Passages::Units { .. } => None,
    }
}

fn length_of(cx: &StageContext<'_>) -> Result<usize> {
    length(cx.job).ok_or_else(|| Error::bug("the job finds no runs of words"))
}

/// The columns of the table spans.
pub(super) async fn spans(cx: &StageContext<'_>, length: usize, gap: usize) -> Result<DataFrame> {
    let (texts, repeated) =
        (cx.texts_at(WorkTable::HIT_POSITIONS).await?, cx.table(WorkTable::REPEATED_WINDOWS)?);
    frames::word_runs::spans(texts, repeated, cx.table(Table::Documents)?, (length, gap), &cx.job.shingle)
}

impl OneTable for Fingerprints {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::FINGERPRINTS);
    const WHAT: &'static str = "read the texts again and choose hashes of runs of words";
}

impl Stage for Fingerprints {
    fn is_in(&self, job: &Job) -> bool {
        length(job).is_some()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if cx.is_done(self).await? {
                return cx.take_over(self).await;
            }
            let fingerprints =
                frames::word_runs::fingerprints(compared(cx).await?, length_of(cx)?, &cx.job.shingle)?;
            cx.run_in_parts(self, 0, cx.parts_of_source(), fingerprints).await
        })
    }
}

impl OneTable for FingerprintHits {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::FINGERPRINT_HITS);
    const WHAT: &'static str = "find those hashes that occur more than once";
}

impl Stage for FingerprintHits {
    fn is_in(&self, job: &Job) -> bool {
        length(job).is_some()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let hits = frames::word_runs::hits(cx.table(WorkTable::FINGERPRINTS)?)?;
            cx.run(self, 2 * cx.rows(WorkTable::FINGERPRINTS) * BYTES_OF_FINGERPRINT, vec![hits]).await
        })
    }
}

impl OneTable for HitPositions {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::HIT_POSITIONS);
    const WHAT: &'static str = "find the texts that have them";
}

impl Stage for HitPositions {
    fn is_in(&self, job: &Job) -> bool {
        length(job).is_some()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let needed = cx.table(WorkTable::FINGERPRINT_HITS)?.select(vec![col("doc").alias("needed")])?;
            let bytes = cx.rows(WorkTable::FINGERPRINT_HITS) * BYTES_OF_FINGERPRINT;
            cx.find_own_texts(self, needed.distinct()?, bytes).await
        })
    }
}

impl OneTable for Windows {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::WINDOWS);
    const WHAT: &'static str = "read these texts again and hash the windows of words around the hashes";
}

impl Stage for Windows {
    fn is_in(&self, job: &Job) -> bool {
        length(job).is_some()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            if cx.is_done(self).await? {
                return cx.take_over(self).await;
            }
            let texts = cx.texts_at(WorkTable::HIT_POSITIONS).await?;
            let hits = cx.table(WorkTable::FINGERPRINT_HITS)?;
            let windows = frames::word_runs::windows(texts, hits, length_of(cx)?, &cx.job.shingle)?;
            let bytes = cx.rows(WorkTable::FINGERPRINT_HITS) * BYTES_OF_FINGERPRINT + cx.bytes_of_files();
            cx.run(self, bytes, vec![windows]).await
        })
    }
}

impl OneTable for RepeatedWindows {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::REPEATED_WINDOWS);
    const WHAT: &'static str = "find the windows that occur more than once";
}

impl Stage for RepeatedWindows {
    fn is_in(&self, job: &Job) -> bool {
        length(job).is_some()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let order = cx.job.clusters.order();
            let ranked = frames::word_runs::ranked(cx.table(WorkTable::WINDOWS)?, in_order(cx)?, &order)?;
            cx.run(self, cx.rows(WorkTable::WINDOWS) * BYTES_OF_UNIT, vec![ranked]).await
        })
    }
}
