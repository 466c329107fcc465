//! losses: how much of each removed document its representative lacks, and what is gone with all that are removed.

use arrow::datatypes::Field;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::prelude::{DataFrame, col, lit, when};

use super::interface::{
    AnyTable, Job, Planned, Result, SourceTypes, Stage, StageContext, StagePlan, WorkTable,
};
use super::removals::{is_spared, loses_alone, roles};
use crate::operator::losses::CountLosses;
use crate::operator::{self, Operator};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::tables::columns_of;

/// The removals that need no text: those of sets that their representatives contain, those that lose alone in their clusters, and
/// those of reference documents. (set, documents, shared, shingles, ..) -> the columns of [`operator::losses::schema`].
pub(crate) fn known(removals: DataFrame, basis: Basis, contained: Option<f64>) -> Result<DataFrame> {
    let is_contained = col("shared").is_not_null().and(col("shared").eq(col("shingles")));
    let removals = match basis {
        Basis::Shingles => {
            let no_document = col("documents").eq(lit(0_u64));
            removals.filter(is_contained.or(no_document).or(loses_alone()))?
        }
        Basis::Scores => removals,
    };
    let goes_alone = loses_alone().and(!is_spared(contained, lit(true))?);
    let gone = coalesce(vec![when(goes_alone, col("shingles") - col("shared")).end()?, lit(0_u64)]);
    Ok(removals.select(vec![
        col("set"),
        col("documents"),
        col("shared").is_not_null().alias("paired"),
        col("shared"),
        col("shingles"),
        col("of_shingles"),
        gone.alias("gone"),
    ])?)
}

/// The others: [`roles`], (doc, shingles, ..) of their documents -> the columns of [`operator::losses::schema`].
pub(crate) fn counted(roles: DataFrame, sketches: DataFrame, contained: Option<f64>) -> Result<DataFrame> {
    let sketches = sketches.select(vec![col("doc").alias("set"), col("shingles")])?;
    let sets = roles.join(sketches, JoinType::Inner, &["doc"], &["set"], None)?;
    let sets = sets.select(["root", "place", "role", "set", "documents", "shingles"].map(col).to_vec())?;
    operator::apply(Operator::Losses(CountLosses { contained }), vec![sets])
}

/// What losses are counted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    /// The shingles of documents.
    Shingles,
    /// The scores of pairs alone: a merge without shingles.
    Scores,
}

impl Basis {
    /// That of a job.
    pub(super) fn of(job: &Job) -> Self {
        let are_there = job.compares() || AllSketches::of(job) == AllSketches::InDocuments;
        if are_there { Self::Shingles } else { Self::Scores }
    }
}

impl WorkTable {
    /// What is lost with each shingle set whose representative has another one.
    pub(crate) const LOSSES: Self = Self::new("losses", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    columns_of(&operator::losses::schema())
}

/// Counts what removals lose.
pub(super) static LOSSES: Stage = Stage::new(
    AnyTable::Work(WorkTable::LOSSES),
    |_| "count the shingles that removals lose".into(),
    |_| true,
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let removals = cx.table(WorkTable::REMOVALS)?;
            let basis = Basis::of(cx.job);
            let mut frames = vec![known(removals.clone(), basis, cx.job.clusters.contained)?];
            let mut bytes = 0;
            if basis == Basis::Shingles && cx.rows(WorkTable::REMOVALS) > 0 {
                let roles = roles(removals, cx.job)?;
                let needed = roles.clone().select(vec![col("doc").alias("needed")])?;
                let (at, known) = (WorkTable::REMOVAL_POSITIONS, cx.clustered_reference()?);
                let sketches = cx.sketches(at, needed, known, &["doc", "shingles"]).await?;
                frames.push(counted(roles, sketches, cx.job.clusters.contained)?);
                bytes = 2 * cx.rows(WorkTable::REMOVALS) * cx.bytes_of_one().await?;
            }
            Ok(Planned::new(bytes, frames))
        })
    }),
);

/// A removal that loses more than one in this many shingles is lossy: more than 2 %.
const LOSSY: u64 = 50;

/// What the removals of the run lose, in one row: the documents that lose more than the [`LOSSY`] share of their shingles, and the
/// shingles that only removed documents have, null if nothing is removed. `None` if the shingles were not counted.
pub(super) fn lost(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    if Basis::of(cx.job) == Basis::Scores {
        return Ok(None);
    }
    let losses = cx.table(WorkTable::LOSSES)?;
    let is_lossy = ((col("shingles") - col("shared")) * lit(LOSSY)).gt(col("shingles"));
    let is_lossy = is_lossy.and(!is_spared(cx.job.clusters.contained, col("paired"))?);
    let lossy = sum(when(is_lossy, col("documents")).end()?).alias("lossy_removals");
    Ok(Some(losses.aggregate(vec![], vec![lossy, sum(col("gone")).alias("shingles")])?))
}
