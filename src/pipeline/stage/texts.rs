//! The stages that find texts in the sources and read them again.

use arrow::datatypes::{DataType, Field};
use datafusion::prelude::{DataFrame, col};

use super::frequent::counts_shingles;
use super::interface::{
    AnyTable, BYTES_OF_KEY, Job, Planned, Result, SourceTypes, Stage, StageContext, StagePlan, Table,
    WorkTable, frames,
};
use super::passages::BYTES_OF_SPAN;
use super::removals::roles;
use super::word_runs::{self, BYTES_OF_FINGERPRINT};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::candidate_pairs::CandidatePairs;
use crate::pipeline::sketches::SKETCH;
use crate::pipeline::tables::{numbers, sketch_columns};
use crate::pipeline::texts::BYTES_OF_POSITION;

impl WorkTable {
    /// The positions of the texts of candidates.
    pub(crate) const POSITIONS: Self = Self::new("positions", position_columns);
    /// The positions of the texts of hot buckets.
    pub(crate) const HOT_POSITIONS: Self = Self::new("hot_positions", position_columns);
    /// The sketches of documents in hot buckets, which are read several times.
    pub(crate) const HOT_SKETCHES: Self = Self::new("hot_sketches", sketch_columns);
    /// The positions of the texts of a sample.
    pub(crate) const SAMPLE_POSITIONS: Self = Self::new("sample_positions", position_columns);
    /// The positions of the texts of documents in pairs.
    pub(crate) const TEXT_POSITIONS: Self = Self::new("text_positions", position_columns);
    /// Those texts.
    pub(crate) const TEXTS: Self = Self::new("texts", columns);
    /// The positions of the texts of removals that have to be looked at.
    pub(crate) const REMOVAL_POSITIONS: Self = Self::new("removal_positions", position_columns);
    /// The positions of the texts with fingerprints that occur more than once.
    pub(crate) const HIT_POSITIONS: Self = Self::new("hit_positions", position_columns);
    /// The positions of the texts that have a sample of a passage.
    pub(crate) const PASSAGE_POSITIONS: Self = Self::new("passage_positions", position_columns);
    /// The positions of the texts that show the frequent shingles.
    pub(crate) const FREQUENT_POSITIONS: Self = Self::new("frequent_positions", position_columns);
}

pub(super) fn position_columns(_source: &SourceTypes) -> Vec<Field> {
    vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::UInt64, false),
        // The number of the source of a reference document; null for a document of the run's own.
        Field::new("origin", DataType::UInt64, true),
    ]
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = numbers(["doc", "bytes"]);
    columns.insert(1, Field::new("text", DataType::LargeUtf8, false));
    columns
}

/// Bytes of a row of a frequent shingle in memory, with its words.
pub(super) const BYTES_OF_SHINGLE: u64 = 256;

/// Whether the texts of candidates are read again for their shingles.
fn cuts_again(job: &Job) -> bool {
    job.compares() && AllSketches::of(job) == AllSketches::Nowhere
}

/// The documents (needed) that the column `name` of a table has.
fn needed(cx: &StageContext<'_>, table: WorkTable, name: &str) -> Result<DataFrame> {
    Ok(cx.table(table)?.select(vec![col(name).alias("needed")])?)
}

/// Finds the texts of candidates.
pub(super) static POSITIONS: Stage = Stage::new(
    AnyTable::Work(WorkTable::POSITIONS),
    |_| "find the texts of candidates".into(),
    cuts_again,
    StagePlan::Now(|cx| {
        let CandidatePairs { pairs, rows } = CandidatePairs::to_compare(cx)?;
        cx.find_uncut(frames::scores::needed(pairs)?, rows * BYTES_OF_POSITION, cx.reference_documents()?)
    }),
);

/// Finds the texts of hot buckets.
pub(super) static HOT_POSITIONS: Stage = Stage::new(
    AnyTable::Work(WorkTable::HOT_POSITIONS),
    |_| "find the texts of hot buckets".into(),
    |_| true,
    StagePlan::Now(|cx| {
        let (table, known) = (WorkTable::HOT, cx.reference_documents()?);
        cx.find_uncut(needed(cx, table, "a")?, cx.rows(table) * BYTES_OF_POSITION, known)
    }),
);

/// Cuts the texts of hot buckets again.
pub(super) static HOT_SKETCHES: Stage = Stage::new(
    AnyTable::Work(WorkTable::HOT_SKETCHES),
    |_| "cut the shingles of those texts again".into(),
    |_| true,
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let (needed, known) = (needed(cx, WorkTable::HOT, "a")?, cx.reference_documents()?);
            let sketches = cx.sketches(WorkTable::HOT_POSITIONS, needed, known, &SKETCH).await?;
            Ok(Planned::new(0, vec![sketches]))
        })
    }),
);

/// Finds the texts of documents in pairs.
pub(super) static TEXT_POSITIONS: Stage = Stage::new(
    AnyTable::Work(WorkTable::TEXT_POSITIONS),
    |_| "find the texts of pairs".into(),
    |job| job.output.pair_passages,
    StagePlan::Now(|cx| {
        let (table, known) = (WorkTable::MEMBERS, cx.reference_documents()?);
        cx.find(needed(cx, table, "doc")?, cx.rows(table) * BYTES_OF_POSITION, known)
    }),
);

/// Reads them.
pub(super) static TEXTS: Stage = Stage::new(
    AnyTable::Work(WorkTable::TEXTS),
    |_| "read them again".into(),
    |job| job.output.pair_passages,
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let places = cx.table(WorkTable::TEXT_POSITIONS)?;
            Ok(Planned::new(0, vec![cx.texts(places, None, frames::passages::texts).await?]))
        })
    }),
);

/// Finds the texts of removals whose shingles are needed.
pub(super) static REMOVAL_POSITIONS: Stage = Stage::new(
    AnyTable::Work(WorkTable::REMOVAL_POSITIONS),
    |_| "find the texts of those".into(),
    cuts_again,
    StagePlan::Now(|cx| {
        let needed =
            roles(cx.table(WorkTable::REMOVALS)?, cx.job)?.select(vec![col("doc").alias("needed")])?;
        cx.find_uncut(needed, 2 * cx.rows(WorkTable::REMOVALS) * BYTES_OF_KEY, cx.clustered_reference()?)
    }),
);

/// Finds the texts with fingerprints that occur more than once.
pub(super) static HIT_POSITIONS: Stage = Stage::new(
    AnyTable::Work(WorkTable::HIT_POSITIONS),
    |_| "find the texts that have them".into(),
    |job| word_runs::length(job).is_some(),
    StagePlan::Now(|cx| {
        let (table, known) = (WorkTable::FINGERPRINT_HITS, cx.searched_places()?);
        let bytes = cx.rows(table) * BYTES_OF_FINGERPRINT;
        cx.find(needed(cx, table, "doc")?.distinct()?, bytes, Some(known))
    }),
);

/// Finds the texts that have the samples of passages.
pub(super) static PASSAGE_POSITIONS: Stage = Stage::new(
    AnyTable::Work(WorkTable::PASSAGE_POSITIONS),
    |_| "find the texts with a sample of each passage".into(),
    |job| job.passages.is_some(),
    StagePlan::Now(|cx| {
        let samples = frames::spans::samples(cx.table(Table::Spans)?)?;
        let bytes = cx.rows(Table::Spans) * BYTES_OF_SPAN;
        Ok(Planned::new(bytes, vec![frames::spans::positions(samples)?]))
    }),
);

/// Finds the texts that show the frequent shingles.
pub(super) static FREQUENT_POSITIONS: Stage = Stage::new(
    AnyTable::Work(WorkTable::FREQUENT_POSITIONS),
    |_| "find a text with each frequent shingle".into(),
    counts_shingles,
    StagePlan::Now(|cx| {
        let (documents, rejects) = (cx.table(Table::Documents)?, cx.table(Table::Rejects)?);
        let positions = frames::frequent::positions(cx.table(WorkTable::FREQUENT)?, documents, rejects)?;
        Ok(Planned::new(cx.rows(WorkTable::FREQUENT) * BYTES_OF_SHINGLE, vec![positions]))
    }),
);
