//! The stages removals, losses and spared, which find the shingles that are lost with removed documents, and the spared documents.

use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, col, lit};

use super::clusters::{copies_are_pairs, scores_of_components};
use super::interface::{
    AllSketches, BYTES_OF_EDGE, BYTES_OF_MEMBER, Job, Planned, Result, Stage, StageContext, Table, WorkTable,
    boxed, not_null, null,
};
use crate::frames::losses::{
    Basis, SpareRules, counted_losses, known_losses, removals, roles, spared, total_losses, with_lossy,
};
use crate::frames::{columns, renamed};
use crate::job::Compare;
use crate::operator;
use crate::pipeline::sketches::{BoundedRows, average_bytes, clustered_reference, sketches};
use crate::pipeline::tables::POSITION_COLUMNS;
use crate::pipeline::tables::WorkColumns::{Nullable, Numbers, Operator};

impl WorkTable {
    /// Shingle sets that differ from the set of their representative.
    pub(crate) const REMOVALS: Self = Self::new(
        "removals",
        &[
            Numbers(&["set", "of_set", "root", "place", "documents"]),
            Nullable(&Numbers(&["shared", "shingles", "of_shingles", "lossy"])),
        ],
    );
    const REMOVAL_POSITIONS: Self = Self::new("removal_positions", POSITION_COLUMNS);
    /// The number of lost shingles for each shingle set that differs from its representative's set.
    pub(crate) const LOSSES: Self = Self::new("losses", &[Operator(operator::clusters::losses_schema)]);
}

/// The number of bytes in memory per shingle set: four nested joins keep its row at the same time.
const BYTES_OF_SET: u64 = 160;

/// Finds the shingle sets that differ from the set of their representative. Their removal can lose shingles.
pub(super) static REMOVALS: Stage = Stage::work(
    WorkTable::REMOVALS,
    |_| "find what removals may lose".into(),
    |_| true,
    boxed!(|cx| {
        let (ranks, represented) = (cx.table(WorkTable::RANKS)?, cx.table(WorkTable::REPRESENTED)?);
        let (scores, count) = scores_of_components(cx).await?;
        let mut frame = removals(ranks, represented, scores)?;
        if cx.reference.is_some() {
            frame = frame.distinct()?;
        }
        frame = cx.kept_removals(frame)?;
        let bytes = cx.rows(WorkTable::RANKS) * BYTES_OF_SET + 2 * count * BYTES_OF_EDGE;
        Ok(Planned::short(bytes, vec![with_lossy(frame, cx.job)?]))
    }),
);

/// The data from which the losses of a job are counted.
fn basis(job: &Job) -> Basis {
    let has_shingles = job.compares() || AllSketches::new(job) == AllSketches::InDocuments;
    if has_shingles { Basis::Shingles } else { Basis::Scores }
}

pub(super) static LOSSES: Stage = Stage::work(
    WorkTable::LOSSES,
    |_| "count the shingles that removals lose".into(),
    |_| true,
    boxed!(|cx| {
        let (removals, contained) = (cx.table(WorkTable::REMOVALS)?, cx.job.clusters.contained);
        let basis = basis(cx.job);
        let mut frames = vec![known_losses(removals.clone(), basis, contained)?];
        let mut bytes = 0;
        if basis == Basis::Shingles && cx.rows(WorkTable::REMOVALS) > 0 {
            let roles = roles(cx.kept_removals(removals)?, cx.job)?;
            let frame = roles.clone().select(renamed([("doc", "needed")]))?;
            let needed = BoundedRows { frame, count: 2 * cx.rows(WorkTable::REMOVALS) };
            let (at, known) = (WorkTable::REMOVAL_POSITIONS, clustered_reference(cx)?);
            let sketches = sketches(cx, at, needed, known, &["doc", "shingles"]).await?;
            frames.push(counted_losses(roles, sketches, contained)?);
            bytes = 2 * cx.rows(WorkTable::REMOVALS) * average_bytes(cx).await?;
        }
        Ok(Planned::new(bytes, frames))
    }),
);

/// Returns the losses of the run in one row, if they were counted from shingles: see [`total_losses`].
pub(super) fn total(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    match basis(cx.job) {
        Basis::Scores => Ok(None),
        Basis::Shingles => total_losses(cx.table(WorkTable::LOSSES)?, cx.job.clusters.contained).map(Some),
    }
}

pub(super) static SPARED: Stage = Stage::public(
    Table::Spared,
    |_| "write which documents stay besides the representatives, and which are copies of those".into(),
    |job| job.clusters.spares(),
    |cx| Box::pin(plan_spared(cx)),
)
.with_tables(|_| vec![null(Table::Spared, "kept_id"), not_null(Table::SparedCopies, "kept_id")]);

async fn plan_spared<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    let job = cx.job;
    let documents = cx.table(WorkTable::RANKS)?;
    let (sets, losses) = (cx.table(WorkTable::REPRESENTED)?, cx.table(WorkTable::LOSSES)?);
    let mut bytes = 2 * cx.rows(WorkTable::RANKS) * BYTES_OF_MEMBER + cx.bytes(WorkTable::LOSSES);
    // In all other jobs, documents with the same shingles form one group of copies, so no pairs between groups need to be added.
    let split = job.candidates.compare == Compare::Across || job.clusters.decisions.is_some();
    let same = if cx.reference.is_some() || split {
        let (scores, count) = scores_of_components(cx).await?;
        bytes += count * BYTES_OF_EDGE;
        let same = |name: &str| col("shared").eq(col(name));
        let scores = scores.filter(same("shingles_a").and(same("shingles_b")))?;
        Some(scores.select(columns(["a", "b"]))?)
    } else {
        None
    };
    // A run does not remove documents of a second source.
    let always_stays = if job.second_source().is_some() { col("reference") } else { lit(false) };
    let rules = SpareRules {
        method: job.clusters.method,
        copies_are_pairs: copies_are_pairs(job),
        contained: job.clusters.contained,
        apart: cx.apart()?,
        always_stays: always_stays.clone(),
    };
    let mut frame = spared(documents, sets, losses, same, rules)?;
    if cx.reference.is_some() {
        // The table `spared` may only name documents that the table `clusters` contains.
        let clusters =
            cx.table(Table::Clusters)?.select(renamed([("id", "of"), ("reference", "of_reference")]))?;
        let keys = (&["of", "of_reference"], &["id", "reference"]);
        frame = clusters.join(frame, JoinType::RightSemi, keys.0, keys.1, None)?;
    }
    Ok(Planned::new(bytes, vec![frame.filter(!always_stays)?]))
}
