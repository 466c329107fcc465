//! Finds connected components in rounds of two operations on edges, for any number of nodes.
//!
//! Both operations are from Kiveris, Lattanzi, Mirrokni, Rastogi and Vassilvitskii, *Connected components in MapReduce and beyond* (SoCC
//! 2014). An edge is a row (high: UInt64, low: UInt64) that joins a node with a smaller node. Large-star and small-star alternate until a
//! round changes nothing. Then every edge joins a node with the smallest node in its component:
//!
//! ```text
//! a path       2-1 3-2 4-3 5-4
//! large-star   2-1 3-1 4-2 5-3
//! small-star   2-1 3-1 4-2 5-3
//! large-star   2-1 3-1 4-1 5-1
//! small-star   2-1 3-1 4-1 5-1   nothing changes any more
//! ```
//!
//! An aggregation finds the smallest neighbour of every node, and a sort-merge join adds it to the edges. Both sides of the join can
//! spill, so a node can have any number of neighbours.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, greatest, least};
use datafusion::functions_aggregate::expr_fn::{min, sum};
use datafusion::prelude::{DataFrame, col, lit, when};

use super::{columns, joined_by_sorting, renamed};
use crate::error::Result;

/// (a, b, ..) -> (high, low). Each pair of two different nodes becomes an edge.
pub(crate) fn edges(pairs: DataFrame) -> Result<DataFrame> {
    let ends = || columns(["a", "b"]);
    Ok(pairs
        .filter(col("a").not_eq(col("b")))?
        .select(vec![greatest(ends()).alias("high"), least(ends()).alias("low")])?)
}

/// (high, low) -> (high, low). Joins each node's larger neighbours with its smallest neighbour, or with the node if it has no smaller
/// one.
///
/// As a row, an edge keeps its high end. If the low end has a smaller neighbour, its smallest neighbour becomes the new low end. The
/// number of edges does not grow.
///
/// ```text
/// edges   least neighbour of the low end   result
/// 3-1     1 has no smaller neighbour       3-1
/// 5-3     1                                5-1
/// 9-3     1                                9-1
/// ```
///
/// # Errors
/// If a column is missing.
pub fn large_star(edges: DataFrame) -> Result<DataFrame> {
    let moved = least_below(&edges)?
        .join(edges, JoinType::Right, &["node"], &["low"], None)?
        .select(vec![col("high"), coalesce(columns(["least", "low"])).alias("low")])?
        .distinct()?;
    Ok(joined_by_sorting(moved))
}

/// (high, low) -> (high, low). Joins each node and its smaller neighbours with the smallest of these neighbours.
///
/// As a row, an edge to the smallest neighbour is kept. Any other edge becomes an edge from its low end to the smallest neighbour of its
/// high end. The number of edges does not grow.
///
/// ```text
/// edges   least neighbour of the high end   result
/// 9-2     2                                 9-2
/// 9-5     2                                 5-2
/// 9-7     2                                 7-2
/// ```
///
/// # Errors
/// If a column is missing.
pub fn small_star(edges: DataFrame) -> Result<DataFrame> {
    // Every high end has a smallest neighbour, so an inner join would return the same rows, but keep the edges in memory.
    let joined = least_below(&edges)?.join(edges, JoinType::Right, &["node"], &["high"], None)?;
    let high = when(col("low").eq(col("least")), col("high")).otherwise(col("low"))?;
    let low = coalesce(columns(["least", "low"]));
    Ok(joined_by_sorting(joined.select(vec![high.alias("high"), low.alias("low")])?.distinct()?))
}

/// (high, low) -> (node, least), one row per node with a smaller neighbour. `least` is its smallest neighbour.
fn least_below(edges: &DataFrame) -> Result<DataFrame> {
    Ok(edges.clone().aggregate(renamed([("high", "node")]), vec![min(col("low")).alias("least")])?)
}

/// [`low_ends`] divides each number into parts of this many bits and adds up each part.
const PART_BITS: u32 = 22;

/// (high, low) -> one row with the sums of the upper 20 bits, the next 22 bits and the lower 22 bits of all low ends. With fewer than
/// 2^42 edges, no sum overflows.
///
/// The sums and the number of edges show whether a round changed anything. Both operations keep each edge or replace it by an edge with a
/// smaller low end, and then drop repeated edges. If the number of edges stays the same, no edge was dropped. If the sums stay the same
/// too, no low end decreased, so no edge changed.
///
/// The components are then found. Large-star changed no edge, so no low end has a smaller neighbour. Small-star changed no edge, so every
/// high end has one smaller neighbour. The edges of a low end therefore reach its whole component. Neither operation divides a component,
/// so the low end is the smallest node in it.
pub(crate) fn low_ends(edges: DataFrame) -> Result<DataFrame> {
    let part = lit(1_u64 << PART_BITS);
    let upper = col("low") / lit(1_u64 << (2 * PART_BITS));
    let middle = col("low") / part.clone() % part.clone();
    let lower = col("low") % part;
    Ok(edges.aggregate(vec![], [upper, middle, lower].map(sum).to_vec())?)
}

/// (high, low) of the last round -> (doc, root), one row per node. A root is also a node.
pub(crate) fn components(edges: DataFrame) -> Result<DataFrame> {
    let roots = edges.clone().aggregate(renamed([("low", "doc")]), vec![])?;
    let roots = roots.select(renamed([("doc", "doc"), ("doc", "root")]))?;
    Ok(edges.select(renamed([("high", "doc"), ("low", "root")]))?.union(roots)?)
}
