//! groups: documents with the same shingle set. One of each group goes on; the others come back at the end.

use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::prelude::{DataFrame, col, lit};

use crate::error::Result;

/// (doc, set_hash_0, set_hash_1) -> (rep: UInt64, doc: UInt64, size: UInt64), one row per document that shares its
/// shingle set with another: `rep` is the least key of the group, `size` the number of its documents.
///
/// # Errors
/// When the frame has other columns.
pub fn groups(keys: DataFrame) -> Result<DataFrame> {
    let reps = keys
        .clone()
        .aggregate(
            vec![col("set_hash_0"), col("set_hash_1")],
            vec![min(col("doc")).alias("rep"), count(lit(1)).alias("times")],
        )?
        .filter(col("times").gt(lit(1)))?
        .select(vec![
            col("set_hash_0").alias("rep_hash_0"),
            col("set_hash_1").alias("rep_hash_1"),
            col("rep"),
            datafusion::prelude::cast(col("times"), arrow::datatypes::DataType::UInt64).alias("size"),
        ])?;
    // The groups are the side that is held: they are few where documents are many.
    let joined =
        reps.join(keys, JoinType::Inner, &["rep_hash_0", "rep_hash_1"], &["set_hash_0", "set_hash_1"], None)?;
    Ok(joined.select(vec![col("rep"), col("doc"), col("size")])?)
}

/// The rows of `frame` whose column `doc` is not a document that another one of its group stands for.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn without_copies(frame: DataFrame, groups: DataFrame) -> Result<DataFrame> {
    let copies = groups.filter(col("doc").not_eq(col("rep")))?.select(vec![col("doc").alias("copy")])?;
    Ok(copies.join(frame, JoinType::RightAnti, &["copy"], &["doc"], None)?)
}
