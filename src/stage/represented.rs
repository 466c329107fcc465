//! represented: the document that represents each group of copies of a component, and how well the two are connected.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, greatest, least};
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::ranks;
use crate::error::Result;
use crate::job::ClusterMethod;
use crate::operator::represent::Represent;
use crate::operator::{self, Operator};

/// (set, root, rank, ..) of documents, (a, b, shared, shingles_a, shingles_b, ..) -> (set: UInt64, root: UInt64, rank: UInt64,
/// representative: UInt64, jaccard: Float64, weakest: Float64), one row per group of copies.
///
/// `representative` is the rank of the document that represents the documents of the group. `jaccard` and `weakest` are those of the
/// documents that it represents besides itself: the similarity of the two, null where they are no pair; and the least similarity on
/// the best path between them. The latter is null where the method is not [`ClusterMethod::Components`], and where a component is
/// larger than one in which paths are looked for. `copies_are_pairs` tells of two documents of one group.
///
/// # Errors
/// When a frame lacks its columns.
pub fn represented(
    documents: DataFrame,
    scores: DataFrame,
    method: ClusterMethod,
    copies_are_pairs: bool,
) -> Result<DataFrame> {
    let sets = ranks::of_sets(documents)?;
    let operator = match method {
        ClusterMethod::Components => Represent::Components,
        ClusterMethod::Representative => Represent::Greedy,
    };
    let found = operator::apply(Operator::Represent(operator), vec![edges(&sets, scores)?])?;
    let found = found.select(vec![
        col("root").alias("found_root"),
        col("rank").alias("found_rank"),
        col("representative").alias("found"),
        col("jaccard"),
        col("weakest"),
    ])?;
    let itself = match method {
        ClusterMethod::Components => lit(1_u64),
        ClusterMethod::Representative => col("rank"),
    };
    let representative = coalesce(vec![col("found"), itself]);
    let (mut jaccard, mut weakest) = (col("jaccard"), col("weakest"));
    if copies_are_pairs {
        let is_copy = representative.clone().eq(col("rank"));
        jaccard = when(is_copy.clone(), lit(1.0_f64)).otherwise(jaccard)?;
        if method == ClusterMethod::Components {
            weakest = when(is_copy, lit(1.0_f64)).otherwise(weakest)?;
        }
    }
    Ok(found.join(sets, JoinType::Right, &["found_root", "found_rank"], &["root", "rank"], None)?.select(
        vec![
            col("set"),
            col("root"),
            col("rank"),
            representative.alias("representative"),
            jaccard.alias("jaccard"),
            weakest.alias("weakest"),
        ],
    )?)
}

/// The pairs of groups, by their ranks: (root, high, low: UInt64, jaccard: Float64).
fn edges(sets: &DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let float = |column: &str| cast(col(column), DataType::Float64);
    let union = cast(col("shingles_a") + col("shingles_b") - col("shared"), DataType::Float64);
    let scores = scores.select(vec![col("a"), col("b"), (float("shared") / union).alias("jaccard")])?;
    let of_a = sets.clone().select(vec![col("set").alias("set_a"), col("rank").alias("rank_a")])?;
    let of_b =
        sets.clone().select(vec![col("set").alias("set_b"), col("root"), col("rank").alias("rank_b")])?;
    // The sets are the side that is held: scores may be as many as their pairs. A column that changes its name keeps the optimizer from
    // putting the two joins into another order.
    let joined = of_a.join(scores, JoinType::Inner, &["set_a"], &["a"], None)?.select(vec![
        col("b").alias("other"),
        col("rank_a"),
        col("jaccard"),
    ])?;
    let ranks = || vec![col("rank_a"), col("rank_b")];
    Ok(of_b.join(joined, JoinType::Inner, &["set_b"], &["other"], None)?.select(vec![
        col("root"),
        greatest(ranks()).alias("high"),
        least(ranks()).alias("low"),
        col("jaccard"),
    ])?)
}
