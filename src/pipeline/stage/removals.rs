//! removals: the shingle sets that removals take from the dataset.

use arrow::datatypes::{DataType, Field};
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{bool_or, count};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::interface::{
    AnyTable, BYTES_OF_EDGE, Job, Planned, Result, SourceTypes, Stage, StagePlan, WorkTable,
};
use super::represented::scores_of_components;
use crate::operator::losses::{CHAINED, PAIRED, REPRESENTATIVE, STAYS};
use crate::pipeline::tables::numbers;

/// (set, reference, ..) of documents, (set, root, rank, representative, ..) of groups of copies, (a, b, shared, shingles_a,
/// shingles_b, ..) -> (set, of_set, root, place, documents, shared, shingles, of_shingles: UInt64), one row per shingle set whose
/// representative has another one: `of_set`. `root` and `place` name the cluster, and `documents` counts the run's own documents
/// that have the set. What the two share and have is null where they are not a pair.
pub(crate) fn removals(ranks: DataFrame, represented: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let own = ranks
        .filter(!col("reference"))?
        .aggregate(vec![col("set")], vec![count(lit(1)).alias("times")])?
        .select(vec![col("set").alias("own_set"), col("times")])?;
    let represents_itself = || col("rank").eq(col("representative"));
    let kept = represented.clone().filter(represents_itself())?.select(vec![
        col("set").alias("of_set"),
        col("root").alias("of_root"),
        col("rank").alias("of_rank"),
    ])?;
    let others = represented.filter(!represents_itself())?.select(vec![
        col("set"),
        col("root"),
        col("representative").alias("place"),
    ])?;
    let removed = kept.join(others, JoinType::Inner, &["of_root", "of_rank"], &["root", "place"], None)?;
    let removed = own.join(removed, JoinType::Right, &["own_set"], &["set"], None)?;
    let documents = cast(coalesce(vec![col("times"), lit(0_i64)]), DataType::UInt64);
    let removed = removed.select(vec![
        col("set"),
        col("of_set"),
        col("root"),
        col("place"),
        documents.alias("documents"),
    ])?;
    let of = |member: &str, other: &str| {
        scores.clone().select(vec![
            col(member).alias("member"),
            col(other).alias("other"),
            col("shared"),
            col(format!("shingles_{member}")).alias("shingles"),
            col(format!("shingles_{other}")).alias("of_shingles"),
        ])
    };
    let both = of("a", "b")?.union(of("b", "a")?)?;
    let columns = ["set", "of_set", "root", "place", "documents", "shared", "shingles", "of_shingles"];
    let removed = removed.join(both, JoinType::Left, &["set", "of_set"], &["member", "other"], None)?;
    Ok(removed.select(columns.map(col).to_vec())?)
}

/// [`removals`] -> the same and lossy: UInt64, the sets of the cluster that may lose something or stay with more shingles than the
/// representative has; null if none may lose something.
pub(crate) fn with_lossy(removed: DataFrame, job: &Job) -> Result<DataFrame> {
    let sets = vec![count(lit(1)).alias("sets"), bool_or(may_lose()).alias("loses")];
    let lossy = removed
        .clone()
        .filter(may_lose().or(stays(job)?))?
        .aggregate(vec![col("root"), col("place")], sets)?
        .filter(col("loses"))?
        .select(vec![
            col("root").alias("lossy_root"),
            col("place").alias("lossy_place"),
            cast(col("sets"), DataType::UInt64).alias("lossy"),
        ])?;
    let removed =
        removed.join(lossy, JoinType::Left, &["root", "place"], &["lossy_root", "lossy_place"], None)?;
    let columns =
        ["set", "of_set", "root", "place", "documents", "shared", "shingles", "of_shingles", "lossy"];
    Ok(removed.select(columns.map(col).to_vec())?)
}

/// Whether a set belongs to documents of the run and is not known to be contained in its representative.
fn may_lose() -> Expr {
    col("documents").gt(lit(0_u64)).and(may_lack())
}

/// Whether the representative may lack a shingle of a set.
fn may_lack() -> Expr {
    col("shared").is_null().or(col("shared").lt(col("shingles")))
}

/// Whether a set belongs to reference documents alone that stay, and whose shingles are not lost then. Nothing of a second source is
/// removed.
fn stays(job: &Job) -> Result<Expr> {
    let always = lit(job.second_source().is_some());
    let stays = always.or(is_spared(job.clusters.contained, col("shared").is_not_null())?);
    Ok(col("documents").eq(lit(0_u64)).and(may_lack()).and(stays))
}

/// Whether what is lost with a set of [`with_lossy`] follows from its score: it is paired with its representative, and no other
/// set of the cluster loses anything, so no shingle is lost twice.
pub(super) fn loses_alone() -> Expr {
    may_lose().and(col("shared").is_not_null()).and(col("lossy").eq(lit(1_u64)))
}

/// [`with_lossy`] -> (doc, root, place, role, documents: UInt64), one row per shingle set whose shingles are needed to count what
/// is lost: those that their representatives may not contain, unless their scores say it, these representatives, and sets that
/// stay in the same cluster. `doc` is a document that has the set.
pub(crate) fn roles(removals: DataFrame, job: &Job) -> Result<DataFrame> {
    let needed = may_lose().and(!loses_alone()).or(stays(job)?);
    let removals = removals.filter(col("lossy").is_not_null().and(needed))?;
    let role = when(col("documents").eq(lit(0_u64)), lit(STAYS))
        .when(col("shared").is_null(), lit(CHAINED))
        .otherwise(lit(PAIRED))?;
    let removed = removals.clone().select(vec![
        col("set").alias("doc"),
        col("root"),
        col("place"),
        role.alias("role"),
        col("documents"),
    ])?;
    let kept = removals.select(vec![col("of_set"), col("root"), col("place")])?.distinct()?.select(vec![
        col("of_set").alias("doc"),
        col("root"),
        col("place"),
        lit(REPRESENTATIVE).alias("role"),
        lit(0_u64).alias("documents"),
    ])?;
    Ok(removed.union(kept)?)
}

/// Whether a document stays that does not represent its cluster: [`crate::clusters::is_spared`] of the columns (shared, shingles).
pub(super) fn is_spared(contained: Option<f64>, paired: Expr) -> Result<Expr> {
    let Some(least) = contained else { return Ok(lit(false)) };
    Ok(when(paired, containment().lt(lit(least))).otherwise(lit(true))?)
}

/// The share of the shingles of a document that its representative has, from the columns (shared, shingles).
pub(super) fn containment() -> Expr {
    cast(col("shared"), DataType::Float64) / cast(col("shingles"), DataType::Float64)
}

/// Bytes of a shingle set: four joins, one above the other, hold its row at the same time.
const BYTES_OF_SET: u64 = 160;

impl WorkTable {
    /// Shingle sets whose representative has another one.
    pub(crate) const REMOVALS: Self = Self::new("removals", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = numbers(["set", "of_set", "root", "place", "documents"]);
    columns.extend(
        ["shared", "shingles", "of_shingles", "lossy"].map(|name| Field::new(name, DataType::UInt64, true)),
    );
    columns
}

/// Finds the shingle sets that removals take from the dataset.
pub(super) static REMOVALS: Stage = Stage::new(
    AnyTable::Work(WorkTable::REMOVALS),
    |_| "find what removals may lose".into(),
    |_| true,
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let (ranks, represented) = (cx.table(WorkTable::RANKS)?, cx.table(WorkTable::REPRESENTED)?);
            let (scores, count) = scores_of_components(cx).await?;
            let mut frame = removals(ranks, represented, scores)?;
            if cx.reference.is_some() {
                frame = frame.distinct()?;
            }
            let bytes = cx.rows(WorkTable::RANKS) * BYTES_OF_SET + 2 * count * BYTES_OF_EDGE;
            Ok(Planned::new(bytes, vec![with_lossy(frame, cx.job)?]))
        })
    }),
);
