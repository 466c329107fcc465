//! copies: documents with the same shingle set, which are a group of copies. One of each group goes on; the others come back at the
//! end.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::prelude::{DataFrame, col, lit, when};

use super::scores::needed;
use crate::error::Result;

/// (doc, set_hash_0, set_hash_1) -> (rep: UInt64, doc: UInt64, size: UInt64), one row per document that shares its
/// shingle set with another: `rep` is the least key of the group, `size` the number of its documents.
///
/// Where there is a column `group_key: UInt64`, only documents of one such key are copies of each other.
///
/// Where a column `known: Boolean` says which documents are known from earlier runs, `rep` is the least key of a new document,
/// if there is one: so the representative of a group is known where all of its documents are.
///
/// # Errors
/// When the frame has other columns.
pub fn copies(keys: DataFrame) -> Result<DataFrame> {
    let has = |name: &str| keys.schema().as_arrow().column_with_name(name).is_some();
    let (has_known, has_group) = (has("known"), has("group_key"));
    let mut found = vec![min(col("doc")).alias("least"), count(lit(1)).alias("times")];
    if has_known {
        found.push(min(when(col("known").is_not_true(), col("doc")).end()?).alias("least_new"));
    }
    let rep = if has_known { coalesce(vec![col("least_new"), col("least")]) } else { col("least") };
    let same: &[&str] = match has_group {
        true => &["set_hash_0", "set_hash_1", "group_key"],
        false => &["set_hash_0", "set_hash_1"],
    };
    let of_rep = |name: &&str| format!("rep_{name}");
    let mut columns: Vec<_> = same.iter().map(|name| col(*name).alias(of_rep(name))).collect();
    columns.extend([
        rep.alias("rep"),
        datafusion::prelude::cast(col("times"), arrow::datatypes::DataType::UInt64).alias("size"),
    ]);
    let reps = keys
        .clone()
        .aggregate(same.iter().map(|name| col(*name)).collect(), found)?
        .filter(col("times").gt(lit(1)))?
        .select(columns)?;
    // The groups are the side that is held: they are few where documents are many.
    let of_reps: Vec<String> = same.iter().map(of_rep).collect();
    let of_reps: Vec<&str> = of_reps.iter().map(String::as_str).collect();
    let joined = reps.join(keys, JoinType::Inner, &of_reps, same, None)?;
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

/// Of (rep, doc, size), the groups whose representative has a score (a, b, ..).
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn scored(groups: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let scored = needed(scores.select(vec![col("a"), col("b")])?)?;
    Ok(scored.join(groups, JoinType::RightSemi, &["needed"], &["rep"], None)?)
}
