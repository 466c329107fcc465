//! clusters: documents that are connected by pairs.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, first_value, min};
use datafusion::prelude::{DataFrame, cast, col, lit};

use crate::error::Result;

/// (id, shingle_count, rep, ..), (doc, root) -> (id, cluster_id, size, representative).
///
/// `components` gives the root of each representative that has a score; a group without one is a cluster by
/// itself. The cluster's representative is the document with the most shingles, of those the smallest id.
///
/// # Errors
/// When a frame lacks its columns.
pub fn clusters(members: DataFrame, components: DataFrame) -> Result<DataFrame> {
    let components =
        components.select(vec![col("doc").alias("component_doc"), col("root").alias("found")])?;
    let rooted =
        components.join(members, JoinType::Right, &["component_doc"], &["rep"], None)?.select(vec![
            col("id"),
            col("shingle_count"),
            coalesce(vec![col("found"), col("rep")]).alias("root"),
        ])?;
    // The aggregation holds one document for each cluster, the best so far: it does not sort.
    let longest = vec![col("shingle_count").sort(false, false), col("id").sort(true, false)];
    let of_root = rooted.clone().aggregate(
        vec![col("root").alias("cluster_root")],
        vec![
            min(col("id")).alias("cluster_id"),
            count(lit(1)).alias("documents"),
            first_value(col("id"), longest).alias("longest"),
        ],
    )?;
    // Every document has its cluster. The join is not an inner one all the same: so the documents are the side of which
    // nothing is held, however many a cluster has, both where the engine joins by hash and where it sorts.
    Ok(of_root.join(rooted, JoinType::Right, &["cluster_root"], &["root"], None)?.select(vec![
        col("id"),
        col("cluster_id"),
        cast(col("documents"), DataType::UInt64).alias("size"),
        col("id").eq(col("longest")).alias("representative"),
    ])?)
}
