//! groups: documents with the same shingle set. One of each group goes on; the others come back at the end.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::prelude::{DataFrame, col, lit, when};

use crate::error::Result;

/// (doc, set_hash_0, set_hash_1) -> (rep: UInt64, doc: UInt64, size: UInt64), one row per document that shares its
/// shingle set with another: `rep` is the least key of the group, `size` the number of its documents.
///
/// Where a column `known: Boolean` says which documents are known from earlier runs, `rep` is the least key of a new document,
/// if there is one: so the representative of a group is known where all of its documents are.
///
/// # Errors
/// When the frame has other columns.
pub fn groups(keys: DataFrame) -> Result<DataFrame> {
    let has_known = keys.schema().as_arrow().column_with_name("known").is_some();
    let mut found = vec![min(col("doc")).alias("least"), count(lit(1)).alias("times")];
    if has_known {
        found.push(min(when(col("known").is_not_true(), col("doc")).end()?).alias("least_new"));
    }
    let rep = if has_known { coalesce(vec![col("least_new"), col("least")]) } else { col("least") };
    let reps = keys
        .clone()
        .aggregate(vec![col("set_hash_0"), col("set_hash_1")], found)?
        .filter(col("times").gt(lit(1)))?
        .select(vec![
            col("set_hash_0").alias("rep_hash_0"),
            col("set_hash_1").alias("rep_hash_1"),
            rep.alias("rep"),
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
