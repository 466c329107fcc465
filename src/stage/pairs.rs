//! pairs: scored representatives, expanded to the documents that they stand for.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{first_value, max, min, sum};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use crate::error::Result;
use crate::job::{Expand, NewPairs, Output};

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

/// (id, doc, shingle_count, rep, size, known), (a, b, shared, ..) -> the columns of `schemas/pairs.toml`.
///
/// A score between two groups becomes a pair of every two of their documents, and within a group every two
/// documents are a pair of similarity 1. Of a group that is written as a star, only the smallest id takes part in
/// scores, and each other document is paired with it alone: as many rows as documents, and the same clusters.
/// `bands` is what two identical signatures share. Of known documents, those pairs are written that `rule` has. Unless
/// `within_copies` says that two documents of a group may be a pair, there are only pairs of two groups, and all of them.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn pairs(
    members: DataFrame,
    scores: DataFrame,
    output: &Output,
    bands: usize,
    rule: Option<NewPairs>,
    within_copies: bool,
) -> Result<DataFrame> {
    let visible = || vec![col("rep"), col("id"), col("known")];
    if !within_copies {
        return between(members.select(visible())?, scores, rule);
    }
    let star = is_star(col("size"), output);
    let full = members.clone().filter(star.clone().is_not_true())?;
    let starred = members.filter(star)?;
    let centers = starred.clone().aggregate(
        vec![col("rep")],
        vec![
            min(col("id")).alias("id"),
            min(col("shingle_count")).alias("shingle_count"),
            first_value(col("known"), vec![col("id").sort(true, false), col("known").sort(true, false)])
                .alias("known"),
        ],
    )?;
    let shown = full.clone().select(visible())?.union(centers.clone().select(visible())?)?;

    let within_full = full.filter(col("size").gt(lit(1_u64)))?;
    let within = within(within_full.clone(), within_full, rule)?.union(within(centers, starred, rule)?)?;
    Ok(between(shown, scores, rule)?.union(identical(within, bands)?)?)
}

/// The columns (id, known) of a document, as those of the left or the right one of a pair.
fn side(name: &str) -> [Expr; 2] {
    [col("id").alias(format!("{name}_id")), col("known").alias(format!("{name}_known"))]
}

/// Of (left_id, left_known, right_id, right_known, ..), the rows that are pairs.
fn wanted(rows: DataFrame, rule: Option<NewPairs>) -> Result<DataFrame> {
    let (left, right) = (col("left_known"), col("right_known"));
    Ok(match rule {
        None => rows,
        Some(NewPairs::WithEachOther) => rows.filter(left.and(right).is_not_true())?,
        Some(NewPairs::WithKnown) => rows.filter(left.not_eq(right))?,
    })
}

/// Whether the left document of a pair is a: the smaller id is, and beside a known document the new one.
fn left_is_a(rule: Option<NewPairs>) -> Result<Expr> {
    let smaller = col("left_id").lt(col("right_id"));
    Ok(match rule {
        None => smaller,
        Some(_) => {
            let one_is_known = col("left_known").not_eq(col("right_known"));
            when(one_is_known, col("right_known")).otherwise(smaller)?
        }
    })
}

/// Whether b is known, as one of the two is.
fn known_b(rule: Option<NewPairs>) -> Expr {
    match rule {
        None => lit(false),
        Some(_) => col("left_known").or(col("right_known")),
    }
}

/// Each document on the left with those of the right in its group whose ids are larger: (id_a, id_b, shingle_count, known_b).
fn within(left: DataFrame, right: DataFrame, rule: Option<NewPairs>) -> Result<DataFrame> {
    let [left_id, left_known] = side("left");
    let [right_id, right_known] = side("right");
    let smaller = col("left_id").lt(col("right_id"));
    // An id of the source may also be one of a second source.
    let same_id = || col("left_id").eq(col("right_id")).and(col("right_known")).and(!col("left_known"));
    let is_before = match rule {
        None => smaller,
        Some(_) => smaller.or(same_id()),
    };
    let rows = left.select(vec![col("rep").alias("left_rep"), left_id, left_known])?.join_on(
        right.select(vec![col("rep"), right_id, right_known, col("shingle_count")])?,
        JoinType::Inner,
        [col("left_rep").eq(col("rep")), is_before],
    )?;
    let (a, b) = match rule {
        None => (col("left_id"), col("right_id")),
        Some(_) => (
            when(left_is_a(rule)?, col("left_id")).otherwise(col("right_id"))?,
            when(left_is_a(rule)?, col("right_id")).otherwise(col("left_id"))?,
        ),
    };
    let columns =
        vec![a.alias("id_a"), b.alias("id_b"), col("shingle_count"), known_b(rule).alias("known_b")];
    Ok(wanted(rows, rule)?.select(columns)?)
}

/// A score between two groups, for every two of their visible documents (rep, id, known).
fn between(visible: DataFrame, scores: DataFrame, rule: Option<NewPairs>) -> Result<DataFrame> {
    let of = |name: &str| {
        let [id, known] = side(name);
        visible.clone().select(vec![col("rep").alias(format!("{name}_rep")), id, known])
    };
    // The documents are the side that is held: scores may be as many as their pairs.
    // A column that changes its name keeps the optimizer from putting the two joins into another order.
    let joined = of("left")?.join(scores, JoinType::Inner, &["left_rep"], &["a"], None)?.select(vec![
        col("left_id"),
        col("left_known"),
        col("b").alias("other_rep"),
        col("shared"),
        col("shingles_a"),
        col("shingles_b"),
        col("estimate"),
        col("shared_bands"),
    ])?;
    let joined = of("right")?.join(joined, JoinType::Inner, &["right_rep"], &["other_rep"], None)?;
    let in_order = left_is_a(rule)?;
    let ordered = |first: &str, second: &str| when(in_order.clone(), col(first)).otherwise(col(second));
    let joined = wanted(joined, rule)?.select(vec![
        ordered("left_id", "right_id")?.alias("id_a"),
        ordered("right_id", "left_id")?.alias("id_b"),
        col("estimate"),
        col("shared"),
        ordered("shingles_a", "shingles_b")?.alias("shingles_a"),
        ordered("shingles_b", "shingles_a")?.alias("shingles_b"),
        col("shared_bands"),
        known_b(rule).alias("known_b"),
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
        col("known_b"),
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
        col("known_b"),
    ])?)
}

/// How many similar pairs the stars leave out: one row (left_out: UInt64, null where there is no group).
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn left_out(
    members: DataFrame,
    scores: DataFrame,
    output: &Output,
    rule: Option<NewPairs>,
) -> Result<DataFrame> {
    let known = when(col("known"), lit(1_u64)).otherwise(lit(0_u64))?;
    let first = first_value(col("known"), vec![col("id").sort(true, false), col("known").sort(true, false)]);
    let groups = members.aggregate(
        vec![col("rep")],
        vec![max(col("size")).alias("size"), sum(known).alias("known"), first.alias("center")],
    )?;
    let (size, known) = (|| col("size"), || col("known"));
    let star = || is_star(size(), output);
    let center = when(col("center"), lit(1_u64)).otherwise(lit(0_u64))?;
    let groups = groups
        .with_column("shown", when(star(), lit(1_u64)).otherwise(size())?)?
        .with_column("shown_known", when(star(), center).otherwise(known())?)?;
    // All pairs of the group, but for those of the star.
    let all = pairs_within(size(), rule, known());
    let of_new_center = match rule {
        Some(NewPairs::WithKnown) => known(),
        None | Some(NewPairs::WithEachOther) => size() - lit(1_u64),
    };
    let of_star = when(col("center"), size() - known()).otherwise(of_new_center)?;
    let within = groups.clone().filter(star())?.select(vec![(all - of_star).alias("out")])?;
    let side = |name: &str| {
        let columns = ["rep", "size", "known", "shown", "shown_known"];
        groups.clone().select(columns.map(|column| col(column).alias(format!("{name}_{column}"))).to_vec())
    };
    let scores = scores.select(vec![col("a"), col("b")])?;
    // As in `between`.
    let between = side("left")?.join(scores, JoinType::Inner, &["left_rep"], &["a"], None)?.select(vec![
        col("left_size"),
        col("left_known"),
        col("left_shown"),
        col("left_shown_known"),
        col("b").alias("other_rep"),
    ])?;
    let there = pairs_between("size", "known", rule) - pairs_between("shown", "shown_known", rule);
    let between = side("right")?
        .join(between, JoinType::Inner, &["right_rep"], &["other_rep"], None)?
        .select(vec![there.alias("out")])?;
    Ok(within.union(between)?.aggregate(vec![], vec![sum(col("out")).alias("left_out")])?)
}

/// How many pairs there are in a group of `size`, of which so many are known.
fn pairs_within(size: Expr, rule: Option<NewPairs>, known: Expr) -> Expr {
    let two_of = |count: Expr| count.clone() * (count - lit(1_u64)) / lit(2_u64);
    match rule {
        None => two_of(size),
        Some(NewPairs::WithEachOther) => {
            let new = size - known.clone();
            new.clone() * (new + lit(2_u64) * known - lit(1_u64)) / lit(2_u64)
        }
        Some(NewPairs::WithKnown) => (size - known.clone()) * known,
    }
}

/// How many pairs there are between two groups, by the names of the columns of their sizes and of their known documents.
fn pairs_between(size: &str, known: &str, rule: Option<NewPairs>) -> Expr {
    let of = |side: &str, name: &str| col(format!("{side}_{name}"));
    let all = of("left", size) * of("right", size);
    let both_known = || of("left", known) * of("right", known);
    match rule {
        None => all,
        Some(NewPairs::WithEachOther) => all - both_known(),
        Some(NewPairs::WithKnown) => {
            of("left", size) * of("right", known) + of("left", known) * of("right", size)
                - lit(2_u64) * both_known()
        }
    }
}
