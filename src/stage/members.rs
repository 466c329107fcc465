//! members: the documents that are similar to another, with the group of copies that each belongs to.

use datafusion::common::JoinType;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};

use super::scores::needed;
use crate::error::Result;

/// (id, doc, shingle_count, known, group, ..), the groups of copies (rep, doc, size, ..) that are in pairs, (a, b, ..) -> (id, doc,
/// shingle_count, rep: UInt64, size: UInt64, known: Boolean, group: Utf8), one row per document of such a group, and one per
/// document without copies that has a score. The latter is its own representative, in a group of size 1.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn members(documents: DataFrame, copies: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let copies = copies.select(vec![col("rep"), col("doc").alias("grouped"), col("size")])?;
    let scored = needed(scores.select(vec![col("a"), col("b")])?)?;
    let documents =
        documents.select(vec![col("id"), col("doc"), col("shingle_count"), col("known"), col("group")])?;
    let of_group = |rep: Expr, size: Expr| {
        vec![col("id"), col("doc"), col("shingle_count"), rep, size, col("known"), col("group")]
    };
    let grouped = copies
        .clone()
        .join(documents.clone(), JoinType::Inner, &["grouped"], &["doc"], None)?
        .select(of_group(col("rep"), col("size")))?;
    // What has a score and is in no group: representatives of groups are among `grouped` already.
    let singles = copies.select(vec![col("grouped")])?.join(
        scored,
        JoinType::RightAnti,
        &["grouped"],
        &["needed"],
        None,
    )?;
    let single = singles
        .join(documents, JoinType::Inner, &["needed"], &["doc"], None)?
        .select(of_group(col("doc").alias("rep"), lit(1_u64).alias("size")))?;
    Ok(grouped.union(single)?)
}
