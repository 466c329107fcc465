//! The stages uncompared, units, run_fingerprints, windows, spans and passages, which find the passages that repeat inside documents.
//!
//! For reference documents, a stage writes only rows that new documents may share. These are few, even if the stage reads many documents.

use datafusion::prelude::{DataFrame, Expr, col, lit};

use super::interface::{
    BYTES_OF_MEMBER, Error, Job, Planned, Result, Stage, StageContext, Table, WorkColumns, WorkTable, boxed,
    needed,
};
use super::searched;
use crate::frames::candidates::may_match_by_token;
use crate::frames::passages::{self, PassageRows};
use crate::frames::reference::second_source_key;
use crate::frames::{self, columns, no_number};
use crate::job::{Passages, TextUnit};
use crate::pipeline::groups;
use crate::pipeline::reference::ReferenceDocuments;
use crate::pipeline::sketches::{BoundedRows, find_texts};
use crate::pipeline::tables::POSITION_COLUMNS;
use crate::pipeline::tables::WorkColumns::{Nullable, Numbers, Text};
use crate::udf::expr_fn::document_key;

const UNIT_COLUMNS: &[WorkColumns] =
    &[Numbers(&["doc", "hash_0", "hash_1", "char_start", "char_end", "byte_start", "byte_end", "words"])];

const FINGERPRINT_COLUMNS: &[WorkColumns] = &[Numbers(&["doc", "fingerprint"])];

impl WorkTable {
    /// The keys and positions of rejected documents that are still searched for passages.
    pub(crate) const UNCOMPARED: Self = Self::new(
        "uncompared",
        &[Numbers(&["doc"]), Text("source"), Numbers(&["position"]), Nullable(&Numbers(&["origin"]))],
    );
    /// The lines, sentences or paragraphs in new documents, with their hashes and offsets.
    const UNITS: Self = Self::new("units", UNIT_COLUMNS);
    /// The lines, sentences or paragraphs in reference documents that new documents may share.
    const REFERENCE_UNITS: Self = Self::new("reference_units", UNIT_COLUMNS);
    /// The hashes of word sequences in new documents, of which a small share is kept.
    const FINGERPRINTS: Self = Self::new("run_fingerprints", FINGERPRINT_COLUMNS);
    /// The fingerprints in reference documents that new documents may share.
    const REFERENCE_FINGERPRINTS: Self = Self::new("reference_run_fingerprints", FINGERPRINT_COLUMNS);
    const FINGERPRINT_HITS: Self = Self::new("run_fingerprint_hits", FINGERPRINT_COLUMNS);
    const HIT_POSITIONS: Self = Self::new("hit_positions", POSITION_COLUMNS);
    /// The windows of words around [`Self::FINGERPRINT_HITS`], with their hashes and offsets.
    const WINDOWS: Self =
        Self::new("windows", &[Numbers(&["doc", "hash_0", "hash_1", "at", "char_start", "of_reference"])]);
    /// The windows that occur more than once, and the first occurrence of each window.
    const REPEATED_WINDOWS: Self = Self::new(
        "repeated_windows",
        &[Numbers(&[
            "doc",
            "at",
            "is_first",
            "occurrences",
            "reference_documents",
            "kept_doc",
            "kept_at",
            "kept_char_start",
        ])],
    );
    const PASSAGE_POSITIONS: Self = Self::new("passage_positions", POSITION_COLUMNS);
}

/// The bytes that a row of units or windows takes in memory, including the columns that rank the row.
const BYTES_OF_UNIT: u64 = 128;

const BYTES_OF_FINGERPRINT: u64 = 32;

const BYTES_OF_SPAN: u64 = 128;

/// The unit of passages, and the minimum number of words in a passage. `None` if passages are sequences of words.
fn unit(job: &Job) -> Option<(TextUnit, usize)> {
    job.passages?.units()
}

/// The number of words in a window, if passages are sequences of words.
fn length(job: &Job) -> Option<usize> {
    job.passages?.words().map(|(length, _)| length)
}

fn length_of_window(job: &Job) -> Result<usize> {
    length(job).ok_or_else(|| Error::bug("the job finds no runs of words"))
}

pub(super) static UNCOMPARED: Stage = Stage::work(
    WorkTable::UNCOMPARED,
    |_| "find the documents that are not compared and may have passages".into(),
    |job| job.passages.is_some(),
    boxed!(|cx| {
        let key = || document_key(col("id"));
        let place = |doc: Expr, origin: Expr| {
            let own = vec![doc.alias("doc"), origin.alias("origin")];
            [columns(["source", "position", "reason"]), own].concat()
        };
        let mut rejects = vec![Ok(cx.table(Table::Rejects)?.select(place(key(), no_number()))?)];
        let mut compared = vec![Ok(cx.table(WorkTable::KEYS)?.select(columns(["doc"]))?)];
        match cx.reference {
            Some(ReferenceDocuments::Source(_)) => {
                let of_source = cx.table(Table::ReferenceRejects)?;
                rejects.push(Ok(of_source.select(place(second_source_key(key()), lit(0_u64)))?));
                compared.push(Ok(cx.table(WorkTable::REFERENCE_KEYS)?.select(columns(["doc"]))?));
            }
            Some(ReferenceDocuments::Outputs(outputs)) => {
                for (origin, stored) in outputs.with_rejects() {
                    rejects.push(Ok(stored.table(Table::Rejects)?.select(place(key(), origin))?));
                }
                compared.push(Ok(outputs.ids(cx)?.select(columns(["doc"]))?));
            }
            None => {}
        }
        let (rejects, compared) = (frames::union(rejects)?, frames::union(compared)?);
        let both = rejects.zip(compared).ok_or_else(|| Error::bug("the run has no table of rejects"))?;
        let frame = passages::uncompared(both.0, both.1)?;
        Ok(Planned::new(cx.rows(WorkTable::KEYS) * BYTES_OF_MEMBER, vec![frame]))
    }),
);

pub(super) static UNITS: Stage = Stage::work(
    WorkTable::UNITS,
    |job| {
        let units = unit(job).map(|(unit, _)| format!("{}s", unit.name())).unwrap_or_default();
        format!("read the texts again and cut them into {units}")
    },
    |job| unit(job).is_some(),
    boxed!(|cx| {
        let by = unit(cx.job).ok_or_else(|| Error::bug("the job has no unit of passages"))?;
        let units = passages::units(searched::own_texts(cx).await?, by, &cx.job.shingle)?;
        Ok(Planned { parts: cx.source_parts(), ..Planned::new(0, vec![units]) })
    }),
);

pub(super) static REFERENCE_UNITS: Stage = Stage::work(
    WorkTable::REFERENCE_UNITS,
    |_| "read the reference documents and find the same parts in them".into(),
    |job| job.against.is_some() && unit(job).is_some(),
    boxed!(|cx| {
        let by = unit(cx.job).ok_or_else(|| Error::bug("the job has no unit of passages"))?;
        let units = passages::units(searched::reference_texts(cx).await?, by, &cx.job.shingle)?;
        let (new, count) = (cx.table(WorkTable::UNITS)?, cx.rows(WorkTable::UNITS));
        Ok(Planned::new(0, vec![may_match_by_token(units, new, count, "hash_0")?]))
    }),
);

pub(super) static FINGERPRINTS: Stage = Stage::work(
    WorkTable::FINGERPRINTS,
    |_| "read the texts again and choose hashes of runs of words".into(),
    |job| length(job).is_some(),
    boxed!(|cx| {
        let (texts, length) = (searched::own_texts(cx).await?, length_of_window(cx.job)?);
        let fingerprints = passages::fingerprints(texts, length, &cx.job.shingle)?;
        Ok(Planned { parts: cx.source_parts(), ..Planned::new(0, vec![fingerprints]) })
    }),
);

pub(super) static REFERENCE_FINGERPRINTS: Stage = Stage::work(
    WorkTable::REFERENCE_FINGERPRINTS,
    |_| "read the reference documents and choose the same hashes of them".into(),
    |job| job.against.is_some() && length(job).is_some(),
    boxed!(|cx| {
        let (texts, length) = (searched::reference_texts(cx).await?, length_of_window(cx.job)?);
        let fingerprints = passages::fingerprints(texts, length, &cx.job.shingle)?;
        let (new, count) = (cx.table(WorkTable::FINGERPRINTS)?, cx.rows(WorkTable::FINGERPRINTS));
        Ok(Planned::new(0, vec![may_match_by_token(fingerprints, new, count, "fingerprint")?]))
    }),
);

/// The rows in the table `new`, and the rows in the table `of_reference` if the job has reference documents.
fn searched_rows(cx: &StageContext<'_>, new: WorkTable, of_reference: WorkTable) -> Result<PassageRows> {
    let reference = cx.job.new_pairs().map(|pairs| Ok::<_, Error>((cx.table(of_reference)?, pairs)));
    Ok(PassageRows::new(cx.table(new)?, reference.transpose()?))
}

pub(super) static FINGERPRINT_HITS: Stage = Stage::work(
    WorkTable::FINGERPRINT_HITS,
    |_| "find those hashes that occur more than once".into(),
    |job| length(job).is_some(),
    boxed!(|cx| {
        let (new, of_reference) = (WorkTable::FINGERPRINTS, WorkTable::REFERENCE_FINGERPRINTS);
        let hits = passages::fingerprint_hits(searched_rows(cx, new, of_reference)?)?;
        let rows = cx.rows(new) + cx.rows(of_reference);
        Ok(Planned::new(2 * rows * BYTES_OF_FINGERPRINT, vec![hits]))
    }),
);

async fn hit_positions(cx: &StageContext<'_>) -> Result<DataFrame> {
    let hits = needed(cx, WorkTable::FINGERPRINT_HITS, "doc")?;
    let hits = BoundedRows { frame: hits.frame.distinct()?, ..hits };
    find_texts(cx, WorkTable::HIT_POSITIONS, hits, Some(searched::places(cx)?)).await
}

pub(super) static WINDOWS: Stage = Stage::work(
    WorkTable::WINDOWS,
    |_| "read the texts with these hashes again and hash the windows of words around the hashes".into(),
    |job| length(job).is_some(),
    boxed!(|cx| {
        let hits = cx.table(WorkTable::FINGERPRINT_HITS)?;
        let windows = |texts, of_reference| {
            let length = length_of_window(cx.job)?;
            passages::windows(texts, hits.clone(), length, &cx.job.shingle, of_reference)
        };
        let places = hit_positions(cx).await?;
        let mut all = windows(searched::own_texts_at(cx, places.clone()).await?, false)?;
        if cx.reference.is_some() {
            let texts = searched::reference_texts_at(cx, places).await?;
            all = all.union(windows(texts, true)?)?;
        }
        let bytes = cx.rows(WorkTable::FINGERPRINT_HITS) * BYTES_OF_FINGERPRINT + cx.source_bytes();
        Ok(Planned::new(bytes, vec![all]))
    }),
);

pub(super) static REPEATED_WINDOWS: Stage = Stage::work(
    WorkTable::REPEATED_WINDOWS,
    |_| "find the windows that occur more than once".into(),
    |job| length(job).is_some(),
    boxed!(|cx| {
        let windows = cx.table(WorkTable::WINDOWS)?;
        let rows = match cx.job.new_pairs() {
            None => PassageRows::new(windows, None),
            Some(pairs) => {
                let is_of_reference = || col("of_reference").eq(lit(1_u64));
                let reference = windows.clone().filter(is_of_reference())?;
                PassageRows::new(windows.filter(!is_of_reference())?, Some((reference, pairs)))
            }
        };
        let documents = searched::in_turn(cx, Some(WorkTable::FINGERPRINT_HITS)).await?;
        let repeated = passages::repeated_windows(rows, documents, &cx.job.clusters.order())?;
        Ok(Planned::new(cx.rows(WorkTable::WINDOWS) * BYTES_OF_UNIT, vec![repeated]))
    }),
);

pub(super) static SPANS: Stage = Stage::public(
    Table::Spans,
    |_| "find the passages that repeat".into(),
    |job| job.passages.is_some(),
    boxed!(|cx| {
        let spans = match cx.job.passages.and_then(Passages::words) {
            Some(words) => {
                let texts = searched::own_texts_at(cx, hit_positions(cx).await?).await?;
                let windows = cx.table(WorkTable::REPEATED_WINDOWS)?;
                let documents = searched::in_turn(cx, Some(WorkTable::FINGERPRINT_HITS)).await?;
                passages::spans_of_words(texts, windows, documents, words, &cx.job.shingle)?
            }
            None => {
                let rows = searched_rows(cx, WorkTable::UNITS, WorkTable::REFERENCE_UNITS)?;
                passages::spans_of_units(rows, searched::in_turn(cx, None).await?, &cx.job.clusters.order())?
            }
        };
        let tables = [WorkTable::UNITS, WorkTable::REFERENCE_UNITS, WorkTable::REPEATED_WINDOWS];
        let rows: u64 = tables.into_iter().map(|table| cx.rows(table)).sum();
        Ok(Planned::new(rows * BYTES_OF_UNIT, vec![spans]))
    }),
);

pub(super) static PASSAGES: Stage = Stage::public(
    Table::Passages,
    |_| "count the passages, and read the samples".into(),
    |job| job.passages.is_some(),
    boxed!(|cx| {
        let mut groups = None;
        if cx.job.has_groups() {
            let group = || columns(["id", "group"]);
            let mut all = groups::own(cx)?.select(group())?;
            if let Some(others) = searched::own_uncompared(cx).await? {
                all = all.union(others.select(group())?)?;
            }
            groups = Some(all);
        }
        let positions = passages::sample_positions(passages::samples(cx.table(Table::Spans)?)?)?;
        let bytes = cx.rows(Table::Spans) * BYTES_OF_SPAN;
        cx.run_further(WorkTable::PASSAGE_POSITIONS, Planned::new(bytes, vec![positions])).await?;
        let texts = searched::own_texts_at(cx, cx.table(WorkTable::PASSAGE_POSITIONS)?).await?;
        let passages = passages::passages(cx.table(Table::Spans)?, texts, groups)?;
        let bytes = cx.rows(Table::Spans) * BYTES_OF_SPAN + cx.source_bytes();
        Ok(Planned::new(bytes, vec![passages]))
    }),
);
