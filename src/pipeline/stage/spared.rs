//! spared: the documents that stay although another one represents their cluster.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::interface::{
    AnyTable, BYTES_OF_MEMBER, BoxFuture, Job, OneTable, Result, Stage, StageContext, Table, WorkTable,
};
use super::losses::{containment, is_spared};
use super::represented::copies_are_pairs;
use crate::job::ClusterMethod;

/// (id, set, root, rank, reference) of documents, (set, root, rank, representative, jaccard, ..) of groups of copies, (set, shared,
/// shingles, of_shingles, ..) of what is lost -> the columns of `schemas/spared.toml`.
///
/// A document that does not represent its cluster is spared if it is not paired with the representative, or if that has a share of
/// its shingles less than `contained`. `copies_are_pairs` is that of [`super::clusters::clusters`].
pub(crate) fn spared(
    documents: DataFrame,
    sets: DataFrame,
    losses: DataFrame,
    method: ClusterMethod,
    copies_are_pairs: Expr,
    contained: f64,
) -> Result<DataFrame> {
    let kept = documents.clone().select(vec![
        col("root").alias("of_root"),
        col("rank").alias("of_rank"),
        col("id").alias("of_id"),
    ])?;
    let sets = sets.select(vec![
        col("set").alias("of_set"),
        col("rank").alias("first"),
        col("representative").alias("of"),
        col("jaccard").is_not_null().alias("paired"),
    ])?;
    let losses = losses.select(vec![
        col("set").alias("lost_set"),
        col("shared"),
        col("shingles"),
        col("of_shingles"),
    ])?;
    // As in the table clusters: copies of a representative that are not paired with it represent themselves.
    let copies_stay = if method.keeps_chains() { lit(false) } else { !copies_are_pairs };
    let is_copy = || col("first").eq(col("of"));
    let represents_itself = col("rank").eq(col("of")).or(is_copy().and(copies_stay));
    let others =
        sets.join(documents, JoinType::Right, &["of_set"], &["set"], None)?.filter(!represents_itself)?;
    let others = losses.join(others, JoinType::Right, &["lost_set"], &["of_set"], None)?.select(vec![
        col("id"),
        col("reference"),
        col("root"),
        col("of"),
        col("paired"),
        is_copy().alias("is_copy"),
        col("shared"),
        col("shingles"),
        col("of_shingles"),
    ])?;
    let share = |expr: Expr| -> Result<Expr> { Ok(when(col("is_copy"), lit(1.0_f64)).otherwise(expr)?) };
    let float = |expr: Expr| cast(expr, DataType::Float64);
    let jaccard = float(col("shared")) / float(col("shingles") + col("of_shingles") - col("shared"));
    let reason = when(col("paired"), lit("not_contained")).otherwise(lit("chain"))?;
    let lost = when(col("is_copy"), lit(0_u64)).otherwise(col("shingles") - col("shared"))?;
    // A copy that is paired with the representative goes, and one that is not stays.
    let goes = col("is_copy").and(col("paired"));
    let others = others.filter((!goes).and(is_spared(Some(contained), col("paired"))?))?;
    Ok(kept.join(others, JoinType::Inner, &["of_root", "of_rank"], &["root", "of"], None)?.select(vec![
        col("id"),
        col("reference"),
        col("of_id").alias("representative"),
        share(jaccard)?.alias("jaccard"),
        share(containment())?.alias("containment"),
        reason.alias("reason"),
        lost.alias("lost_shingles"),
    ])?)
}

/// Writes which documents stay although another one represents their cluster.
pub(crate) struct Spared;

impl OneTable for Spared {
    const TABLE: AnyTable = AnyTable::Public(Table::Spared);
    const WHAT: &'static str = "write which documents stay besides the representatives";
}

impl Stage for Spared {
    fn is_in(&self, job: &Job) -> bool {
        job.clusters.contained.is_some()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let job = cx.job;
            let documents = cx.table(WorkTable::RANKS)?;
            let (sets, losses) = (cx.table(WorkTable::REPRESENTED)?, cx.table(WorkTable::LOSSES)?);
            let contained = job.clusters.contained.unwrap_or_default();
            let mut frame =
                spared(documents, sets, losses, job.clusters.method, copies_are_pairs(job), contained)?;
            if cx.reference.is_some() {
                // Of the other clusters, no row is written.
                let clusters = cx.table(Table::Clusters)?;
                let clusters =
                    clusters.select(vec![col("id").alias("of"), col("reference").alias("of_reference")])?;
                let keys = (&["of", "of_reference"], &["id", "reference"]);
                frame = clusters.join(frame, JoinType::RightSemi, keys.0, keys.1, None)?;
            }
            if job.second_source().is_some() {
                // Nothing of a second source is removed.
                frame = frame.filter(!col("reference"))?;
            }
            let bytes = 2 * cx.rows(WorkTable::RANKS) * BYTES_OF_MEMBER + cx.bytes(WorkTable::LOSSES);
            cx.run(self, bytes, vec![frame]).await
        })
    }
}
