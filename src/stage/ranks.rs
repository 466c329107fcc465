//! ranks: the documents of each component, in the order in which they are wanted.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{DataFrame, col};

use super::keep;
use crate::error::Result;
use crate::job::Preference;

/// (id, shingle_count, rep, ..), (doc, root) -> (id, set: UInt64, root: UInt64, rank: UInt64), one row per document: the
/// representative of its shingle set, the root of its component, and its place there in the order of `keep`, counted from 1.
///
/// `components` gives the root of each shingle set that has a score. One without is a component by itself.
///
/// # Errors
/// When a frame lacks its columns.
pub fn ranks(members: DataFrame, components: DataFrame, keep: &[Preference]) -> Result<DataFrame> {
    let components =
        components.select(vec![col("doc").alias("component_doc"), col("root").alias("found")])?;
    let mut columns = vec![
        col("id"),
        col("shingle_count"),
        col("rep").alias("set"),
        coalesce(vec![col("found"), col("rep")]).alias("root"),
    ];
    columns.extend((0..keep.len()).map(|at| col(keep::name(at))));
    let rooted =
        components.join(members, JoinType::Right, &["component_doc"], &["rep"], None)?.select(columns)?;
    let rank = row_number().partition_by(vec![col("root")]).order_by(keep::order(keep)).build()?;
    Ok(rooted.window(vec![rank.alias("rank")])?.select(vec![
        col("id"),
        col("set"),
        col("root"),
        col("rank"),
    ])?)
}

/// (set, root, rank, ..) of documents -> (set, root, rank) of shingle sets: that of the document which is wanted most.
///
/// # Errors
/// When the frame lacks its columns.
pub(crate) fn of_sets(ranks: DataFrame) -> Result<DataFrame> {
    let found = vec![min(col("root")).alias("root"), min(col("rank")).alias("rank")];
    Ok(ranks.aggregate(vec![col("set")], found)?)
}
