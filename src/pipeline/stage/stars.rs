//! large_star, small_star: rounds of two operations on edges that together find connected components, however many nodes there are.
//!
//! Both are of Kiveris, Lattanzi, Mirrokni, Rastogi and Vassilvitskii, *Connected components in MapReduce and beyond*
//! (SoCC 2014). An edge is a row (high: UInt64, low: UInt64): it joins a node with a lesser one. Large-star and small-star
//! take turns until a round changes nothing. Then every edge leads from a node to the least node of its component:
//!
//! ```text
//! a path       2-1 3-2 4-3 5-4
//! large-star   2-1 3-1 4-2 5-3
//! small-star   2-1 3-1 4-2 5-3
//! large-star   2-1 3-1 4-1 5-1
//! small-star   2-1 3-1 4-1 5-1   and so it stays
//! ```
//!
//! Each operation needs the least neighbour of every node, which one aggregation finds, joined back to the edges. The
//! join is by sorting: both sides may spill, and it holds one row of the aggregation's side at a time. A node may have
//! any number of neighbours.

use arrow::array::RecordBatch;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, greatest, least};
use datafusion::functions_aggregate::expr_fn::{min, sum};
use datafusion::prelude::{DataFrame, col, lit, when};

use super::interface::{Planned, Result, StageContext, WorkTable};
use crate::frames::joined_by_sorting;
use crate::pipeline::tables::numbers;

/// (a, b, ..) -> (high, low): an edge for each pair of two nodes.
///
/// # Errors
/// When the frame lacks its columns.
pub fn edges(pairs: DataFrame) -> Result<DataFrame> {
    let ends = || vec![col("a"), col("b")];
    Ok(pairs
        .filter(col("a").not_eq(col("b")))?
        .select(vec![greatest(ends()).alias("high"), least(ends()).alias("low")])?)
}

/// (high, low) -> (high, low): each node's greater neighbours are joined with the least one among the node and its neighbours.
///
/// In terms of rows: an edge keeps its high end, and its low end is replaced by that end's own least neighbour, if it
/// has a lesser one. There are at most as many edges as before.
///
/// ```text
/// edges   least neighbour of the low end   result
/// 3-1     1 has none below it              3-1
/// 5-3     1                                5-1
/// 9-3     1                                9-1
/// ```
///
/// # Errors
/// When the frame lacks its columns.
pub fn large_star(edges: DataFrame) -> Result<DataFrame> {
    let moved = least_below(&edges)?
        .join(edges, JoinType::Right, &["node"], &["low"], None)?
        .select(vec![col("high"), coalesce(vec![col("least"), col("low")]).alias("low")])?
        .distinct()?;
    Ok(joined_by_sorting(moved))
}

/// (high, low) -> (high, low): each node and its lesser neighbours are joined with the least one among these.
///
/// In terms of rows: an edge to the least neighbour stays. Any other is replaced by an edge from its low end to the
/// least neighbour of its high end. There are at most as many edges as before.
///
/// ```text
/// edges   least neighbour of the high end   result
/// 9-2     2                                 9-2
/// 9-5     2                                 5-2
/// 9-7     2                                 7-2
/// ```
///
/// # Errors
/// When the frame lacks its columns.
pub fn small_star(edges: DataFrame) -> Result<DataFrame> {
    // Every high end has a least neighbour. The join is not an inner one, so that the edges are the side that is not
    // held.
    let joined = least_below(&edges)?.join(edges, JoinType::Right, &["node"], &["high"], None)?;
    let is_least = col("low").eq(col("least"));
    let moved = joined
        .select(vec![
            when(is_least, col("high")).otherwise(col("low"))?.alias("high"),
            coalesce(vec![col("least"), col("low")]).alias("low"),
        ])?
        .distinct()?;
    Ok(joined_by_sorting(moved))
}

/// (node, least): the least neighbour of every node that has a lesser one.
fn least_below(edges: &DataFrame) -> Result<DataFrame> {
    let least = min(col("low")).alias("least");
    Ok(edges.clone().aggregate(vec![col("high").alias("node")], vec![least])?)
}

/// Bits in each of the numbers that [`low_ends`] adds up.
const PART_BITS: u32 = 22;

/// (high, low) -> one row of three numbers that add up to the sum of all low ends: of their upper 20, their next 22 and
/// their lower 22 bits, so that none overflows below 2^42 edges.
///
/// With the number of edges they show whether rounds changed anything. Both operations replace each edge by itself or
/// by one with a lesser low end, and then drop repeats. If there are as many edges as before, none was dropped; if the
/// sum is the same too, no low end decreased, and so every edge is the same.
///
/// If neither operation changes an edge, the components are found: large-star keeps an edge only if its low end has no
/// lesser neighbour, and small-star keeps the edges of a node only if there is one. So every node has one edge, to a
/// node without a lesser neighbour: the least one in its component, since neither operation divides a component.
///
/// # Errors
/// When the frame lacks its columns.
pub fn low_ends(edges: DataFrame) -> Result<DataFrame> {
    let part = lit(1_u64 << PART_BITS);
    let upper = col("low") / lit(1_u64 << (2 * PART_BITS));
    let middle = col("low") / part.clone() % part.clone();
    let lower = col("low") % part;
    Ok(edges.aggregate(vec![], [upper, middle, lower].map(sum).to_vec())?)
}

/// (high, low) of the last round -> (doc, root) for every node, the roots among them.
///
/// # Errors
/// When the frame lacks its columns.
pub fn components(edges: DataFrame) -> Result<DataFrame> {
    let roots = edges.clone().aggregate(vec![col("low").alias("doc")], vec![])?;
    let roots = roots.select(vec![col("doc"), col("doc").alias("root")])?;
    Ok(edges.select(vec![col("high").alias("doc"), col("low").alias("root")])?.union(roots)?)
}

const LARGE: &str = "large_star";
const SMALL: &str = "small_star";

impl WorkTable {
    /// A half of a round: every node's higher neighbours are joined with its least one.
    const LARGE_STAR: Self = Self::new(LARGE, |_| numbers(["high", "low"]));
    /// The other half: every node's lower neighbours are joined with its least one.
    const SMALL_STAR: Self = Self::new(SMALL, |_| numbers(["high", "low"]));
}

/// Runs rounds until one changes nothing. Returns the edges (high, low) of the last one, and their bytes.
///
/// Only the last round is kept, so a run that resumes begins with the last round that it finds.
pub(super) async fn rounds(cx: &StageContext<'_>, connected: DataFrame) -> Result<(DataFrame, u64)> {
    let finished = cx.runner.finished_earlier().await?;
    let mut round = finished.iter().filter_map(|stage| round_of(stage)).max().unwrap_or(1).max(1);
    // Whether the table that it starts from exists.
    let mut has_before = take_over(cx, WorkTable::SMALL_STAR.of_round(round - 1)).await?;
    loop {
        let [before, small] = [round - 1, round].map(|round| WorkTable::SMALL_STAR.of_round(round));
        let large = WorkTable::LARGE_STAR.of_round(round);
        if !take_over(cx, small).await? {
            if !take_over(cx, large).await? {
                if round > 1 && !has_before {
                    // The last round of an earlier run is damaged, and the table that it started from is gone.
                    round = 1;
                    continue;
                }
                let of = match has_before {
                    true => cx.table(before)?,
                    false => edges(connected.clone())?,
                };
                cx.run_further(large, Planned::new(0, vec![large_star(of)?])).await?;
            }
            let of = cx.table(large)?;
            cx.run_further(small, Planned::new(0, vec![small_star(of)?])).await?;
        }
        let done = has_before && is_same(cx, before, small).await?;
        cx.runner.remove(&large.name()).await;
        cx.runner.remove(&before.name()).await;
        if done {
            tracing::info!(rounds = round, "connected components were found");
            return Ok((cx.table(small)?, cx.bytes(small)));
        }
        (has_before, round) = (true, round + 1);
    }
}

/// The round of a half of this name; `None` if it is another stage.
fn round_of(stage: &str) -> Option<u32> {
    let (half, round) = stage.rsplit_once('_')?;
    [LARGE, SMALL].contains(&half).then(|| round.parse().ok())?
}

/// Takes over a half of a round of an earlier run. Returns whether it exists.
async fn take_over(cx: &StageContext<'_>, half: WorkTable) -> Result<bool> {
    if !cx.is_done(half).await? {
        return Ok(false);
    }
    cx.run_further(half, Planned::new(0, Vec::new())).await?;
    Ok(true)
}

/// Whether the rounds between two tables changed nothing: see [`low_ends`].
async fn is_same(cx: &StageContext<'_>, before: WorkTable, after: WorkTable) -> Result<bool> {
    if cx.rows(before) != cx.rows(after) {
        return Ok(false);
    }
    let sums = async |table| -> Result<Vec<RecordBatch>> { Ok(low_ends(cx.table(table)?)?.collect().await?) };
    Ok(sums(before).await? == sums(after).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_rounds_are_recognised_by_their_names() {
        assert_eq!(round_of(&WorkTable::LARGE_STAR.of_round(12).name()), Some(12));
        assert_eq!(round_of(&WorkTable::SMALL_STAR.of_round(1).name()), Some(1));
        for other in ["components", "set_hash_1", "large_star", "small_star_"] {
            assert_eq!(round_of(other), None, "{other}");
        }
    }
}
