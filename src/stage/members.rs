//! members: the documents that are similar to another, with the group that each belongs to.

use datafusion::common::JoinType;
use datafusion::prelude::{DataFrame, col, lit};

use super::scores::needed;
use crate::error::Result;

/// (id, doc, shingle_count, ..), (rep, doc, size), (a, b, ..) -> (id, doc, shingle_count, rep: UInt64,
/// size: UInt64), one row per document that is in a group or whose representative has a score. A document without
/// copies is its own representative, in a group of size 1.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn members(documents: DataFrame, groups: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let groups = groups.select(vec![col("rep"), col("doc").alias("grouped"), col("size")])?;
    let scored = needed(scores.select(vec![col("a"), col("b")])?)?;
    let documents = documents.select(vec![col("id"), col("doc"), col("shingle_count")])?;
    let grouped = groups
        .clone()
        .join(documents.clone(), JoinType::Inner, &["grouped"], &["doc"], None)?
        .select(vec![col("id"), col("doc"), col("shingle_count"), col("rep"), col("size")])?;
    // What has a score and is in no group: representatives of groups are among `grouped` already.
    let singles = groups.select(vec![col("grouped")])?.join(
        scored,
        JoinType::RightAnti,
        &["grouped"],
        &["needed"],
        None,
    )?;
    let single = singles.join(documents, JoinType::Inner, &["needed"], &["doc"], None)?.select(vec![
        col("id"),
        col("doc"),
        col("shingle_count"),
        col("doc").alias("rep"),
        lit(1_u64).alias("size"),
    ])?;
    Ok(grouped.union(single)?)
}
