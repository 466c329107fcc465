//! pairs: scored representatives, expanded to the documents that they stand for.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{min, sum};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use crate::error::Result;
use crate::job::{Expand, Output};

/// Whether a group of this size is written as a star: its smallest id stands for all the others.
fn is_star(size: Expr, output: &Output) -> Expr {
    match output.expand {
        Expand::All => size.gt(lit(output.most_expanded().unwrap_or(u64::MAX))),
        Expand::Star => size.gt(lit(1_u64)),
    }
}

/// How many pairs of identical documents are written: (rep, doc, size) -> one row (pairs: UInt64, null where there is no
/// group).
///
/// # Errors
/// When the frame lacks its columns.
pub(crate) fn of_copies(groups: DataFrame, output: &Output) -> Result<DataFrame> {
    let size = || col("size");
    let star = size() - lit(1_u64);
    let all = size() * star.clone() / lit(2_u64);
    let pairs = when(is_star(size(), output), star).otherwise(all)?;
    let groups = groups.filter(col("doc").eq(col("rep")))?.select(vec![pairs.alias("pairs")])?;
    Ok(groups.aggregate(vec![], vec![sum(col("pairs")).alias("pairs")])?)
}

/// (id, doc, shingle_count, rep, size), (a, b, shared, ..) -> the columns of `schemas/pairs.toml`.
///
/// A score between two groups becomes a pair of every two of their documents, and within a group every two
/// documents are a pair of similarity 1. Of a group that is written as a star, only the smallest id takes part in
/// scores, and each other document is paired with it alone: as many rows as documents, and the same clusters.
/// `bands` is what two identical signatures share.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn pairs(
    members: DataFrame,
    scores: DataFrame,
    output: &Output,
    bands: usize,
) -> Result<DataFrame> {
    let star = is_star(col("size"), output);
    let full = members.clone().filter(star.clone().is_not_true())?;
    let starred = members.filter(star)?;
    let centers = starred.clone().aggregate(
        vec![col("rep")],
        vec![min(col("id")).alias("id"), min(col("shingle_count")).alias("shingle_count")],
    )?;
    let visible = full
        .clone()
        .select(vec![col("rep"), col("id")])?
        .union(centers.clone().select(vec![col("rep"), col("id")])?)?;

    let within_full = full.clone().filter(col("size").gt(lit(1_u64)))?;
    let within_full = within_full
        .clone()
        .select(vec![col("rep").alias("left_rep"), col("id").alias("id_a")])?
        .join_on(
            within_full.select(vec![col("rep"), col("id").alias("id_b"), col("shingle_count")])?,
            JoinType::Inner,
            [col("left_rep").eq(col("rep")), col("id_a").lt(col("id_b"))],
        )?
        .select(vec![col("id_a"), col("id_b"), col("shingle_count")])?;
    let within_star = centers
        .select(vec![col("rep").alias("left_rep"), col("id").alias("id_a")])?
        .join_on(
            starred.select(vec![col("rep"), col("id").alias("id_b"), col("shingle_count")])?,
            JoinType::Inner,
            [col("left_rep").eq(col("rep")), col("id_a").lt(col("id_b"))],
        )?
        .select(vec![col("id_a"), col("id_b"), col("shingle_count")])?;
    Ok(between(visible, scores)?.union(identical(within_full.union(within_star)?, bands)?)?)
}

/// A score between two groups, for every two of their visible documents, the smaller id first.
fn between(visible: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let left = visible.clone().select(vec![col("rep").alias("left_rep"), col("id").alias("left_id")])?;
    let right = visible.select(vec![col("rep").alias("right_rep"), col("id").alias("right_id")])?;
    // The documents are the side that is held: scores may be as many as their pairs.
    // A column that changes its name keeps the optimizer from putting the two joins into another order.
    let joined = left.join(scores, JoinType::Inner, &["left_rep"], &["a"], None)?.select(vec![
        col("left_id"),
        col("b").alias("other_rep"),
        col("shared"),
        col("shingles_a"),
        col("shingles_b"),
        col("estimate"),
        col("shared_bands"),
    ])?;
    let joined = right.join(joined, JoinType::Inner, &["right_rep"], &["other_rep"], None)?;
    let in_order = || col("left_id").lt(col("right_id"));
    let ordered = |first: &str, second: &str| when(in_order(), col(first)).otherwise(col(second));
    let joined = joined.select(vec![
        ordered("left_id", "right_id")?.alias("id_a"),
        ordered("right_id", "left_id")?.alias("id_b"),
        col("estimate"),
        col("shared"),
        ordered("shingles_a", "shingles_b")?.alias("shingles_a"),
        ordered("shingles_b", "shingles_a")?.alias("shingles_b"),
        col("shared_bands"),
    ])?;
    let float = |e: Expr| cast(e, DataType::Float64);
    let union = col("shingles_a") + col("shingles_b") - col("shared");
    Ok(joined.select(vec![
        col("id_a"),
        col("id_b"),
        (float(col("shared")) / float(union)).alias("jaccard"),
        col("estimate"),
        (float(col("shared")) / float(col("shingles_a"))).alias("containment_a"),
        (float(col("shared")) / float(col("shingles_b"))).alias("containment_b"),
        col("shared"),
        col("shingles_a"),
        col("shingles_b"),
        col("shared_bands"),
    ])?)
}

/// Pairs of documents with the same shingle set.
fn identical(within: DataFrame, bands: usize) -> Result<DataFrame> {
    let bands = u16::try_from(bands).unwrap_or(u16::MAX);
    Ok(within.select(vec![
        col("id_a"),
        col("id_b"),
        lit(1.0_f64).alias("jaccard"),
        lit(1.0_f64).alias("estimate"),
        lit(1.0_f64).alias("containment_a"),
        lit(1.0_f64).alias("containment_b"),
        col("shingle_count").alias("shared"),
        col("shingle_count").alias("shingles_a"),
        col("shingle_count").alias("shingles_b"),
        lit(bands).alias("shared_bands"),
    ])?)
}

/// How many similar pairs the stars leave out: one row (left_out: UInt64, null where there is no group).
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn left_out(members: DataFrame, scores: DataFrame, output: &Output) -> Result<DataFrame> {
    let groups = members
        .select(vec![col("rep"), col("size")])?
        .distinct()?
        .with_column("shown", when(is_star(col("size"), output), lit(1_u64)).otherwise(col("size"))?)?;
    let size = || col("size");
    // All pairs of the group, but for those of the star.
    let within = groups
        .clone()
        .filter(is_star(size(), output))?
        .select(vec![(size() * (size() - lit(1_u64)) / lit(2_u64) - (size() - lit(1_u64))).alias("out")])?;
    let side = |name: &str| {
        groups.clone().select(vec![
            col("rep").alias(format!("{name}_rep")),
            col("size").alias(format!("{name}_size")),
            col("shown").alias(format!("{name}_shown")),
        ])
    };
    let scores = scores.select(vec![col("a"), col("b")])?;
    // As in `between`.
    let between = side("left")?.join(scores, JoinType::Inner, &["left_rep"], &["a"], None)?.select(vec![
        col("left_size"),
        col("left_shown"),
        col("b").alias("other_rep"),
    ])?;
    let between =
        side("right")?.join(between, JoinType::Inner, &["right_rep"], &["other_rep"], None)?.select(vec![
            (col("left_size") * col("right_size") - col("left_shown") * col("right_shown")).alias("out"),
        ])?;
    Ok(within.union(between)?.aggregate(vec![], vec![sum(col("out")).alias("left_out")])?)
}
