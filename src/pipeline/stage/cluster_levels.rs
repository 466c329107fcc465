//! cluster_levels: the clusters of the pairs that reach a higher threshold, for each threshold of a list.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, least};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit};

use super::clusters::{cluster_ids, clusters};
use super::interface::{
    AnyTable, BYTES_OF_EDGE, BYTES_OF_KEY, BYTES_OF_MEMBER, Planned, Result, Stage, StagePlan, Table,
    WorkTable,
};
use super::ranks;
use super::represented::{copies_are_pairs, edges, found, scores_of_components};
use crate::clusters::Division;
use crate::frames::cluster_id::ClusterId;
use crate::job::{Clusters, Measure};

/// (id, set, root, rank, reference) of documents, (a, b, shared, shingles_a, shingles_b) -> (threshold: Float64, id, cluster_id,
/// size, representative, reference): the clusters of the pairs whose similarity by `measure` is at least `threshold`, one row for
/// each document of such a pair.
///
/// `copies_are_pairs` says by `reference` whether documents with the same shingles are pairs.
///
/// # Errors
/// When a frame lacks its columns.
pub fn level(
    documents: DataFrame,
    scores: DataFrame,
    (measure, threshold): (Measure, f64),
    method: crate::job::ClusterMethod,
    copies_are_pairs: Expr,
    ids: ClusterId,
) -> Result<DataFrame> {
    let scores = scores.filter(similarity(measure).gt_eq(lit(threshold)))?;
    let sets = ranks::of_sets(documents.clone())?;
    let edges = edges(&sets, scores)?;
    let found = found(edges.clone(), Division::Part(method))?;
    // The sets that have a pair: of two sets, or of copies.
    let end =
        |rank: &str| edges.clone().select(vec![col("root").alias("edge_root"), col(rank).alias("edge_rank")]);
    let ends = end("high")?.union(end("low")?)?.distinct()?;
    let keys = (&["edge_root", "edge_rank"], &["root", "rank"]);
    let connected = ends.join(sets.clone(), JoinType::RightSemi, keys.0, keys.1, None)?;
    let copied = documents.clone().filter(copies_are_pairs.clone())?;
    let copied = copied.aggregate(vec![col("set").alias("copied")], vec![count(lit(1)).alias("copies")])?;
    let copied = copied.filter(col("copies").gt(lit(1)))?;
    let copied = copied.join(sets.clone(), JoinType::RightSemi, &["copied"], &["set"], None)?;
    let paired = connected.union(copied)?.select(vec![col("set").alias("paired")])?.distinct()?;
    let documents = paired.join(documents, JoinType::RightSemi, &["paired"], &["set"], None)?;
    let sets = found
        .join(sets, JoinType::Right, &["found_root", "found_rank"], &["root", "rank"], None)?
        .select(vec![
            col("set"),
            col("root"),
            col("rank"),
            coalesce(vec![col("found"), col("rank")]).alias("representative"),
            col("jaccard"),
            col("weakest_link"),
        ])?;
    let clusters = clusters(documents, sets, method, copies_are_pairs, ids)?;
    Ok(clusters.select(vec![
        lit(threshold).alias("threshold"),
        col("id"),
        col("cluster_id"),
        col("size"),
        col("representative"),
        col("reference"),
    ])?)
}

/// The similarity of a score.
fn similarity(measure: Measure) -> Expr {
    let all = match measure {
        Measure::Jaccard => col("shingles_a") + col("shingles_b") - col("shared"),
        Measure::Containment => least(vec![col("shingles_a"), col("shingles_b")]),
    };
    cast(col("shared"), DataType::Float64) / cast(all, DataType::Float64)
}

/// Writes the clusters of each threshold.
pub(super) static CLUSTER_LEVELS: Stage = Stage::new(
    AnyTable::Public(Table::ClusterLevels),
    |_| "write the clusters of more similar pairs, for each of clusters.thresholds".into(),
    |job| !job.clusters.thresholds.is_empty(),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let (job, (scores, edges), ids) = (cx.job, scores_of_components(cx).await?, cluster_ids(cx)?);
            let Clusters { method, thresholds, .. } = &job.clusters;
            let of = |threshold: &f64| {
                let (documents, measured) = (cx.table(WorkTable::RANKS)?, (job.score.measure, *threshold));
                level(documents, scores.clone(), measured, *method, copies_are_pairs(job), ids.clone())
            };
            let frames = thresholds.iter().map(of).collect::<Result<Vec<_>>>()?;
            let bytes = cx.rows(WorkTable::RANKS) * (BYTES_OF_KEY + BYTES_OF_MEMBER) + edges * BYTES_OF_EDGE;
            Ok(Planned::new(bytes, frames))
        })
    }),
);
