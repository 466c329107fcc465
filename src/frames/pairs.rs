//! pairs: scored representatives, expanded to their copies.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::copies::{Paired, Rules};
use crate::error::Result;
use crate::job::{Compare, NewPairs};

/// The number of pairs between identical documents: (rep, doc, size, reference) -> one row (pairs: UInt64, null if
/// there is no group).
pub(crate) fn of_copies(groups: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let size = || col("size");
    let star = size() - lit(1_u64);
    let all = size() * star.clone() / lit(2_u64);
    let pairs = when(rules.is_star(size()), star).otherwise(all)?;
    let groups = rules.of_paired(groups.filter(col("doc").eq(col("rep")))?)?;
    let groups = groups.select(vec![pairs.alias("pairs")])?;
    Ok(groups.aggregate(vec![], vec![sum(col("pairs")).alias("pairs")])?)
}

/// (id, doc, shingle_count, rep, size, reference), (a, b, shared, ..) -> the columns of `schemas/pairs.toml`.
///
/// A score between two groups of copies becomes a pair of every two of their documents. Within a group whose documents
/// are pairs of each other, every two are a pair of similarity 1. If a group is written as a star, only its smallest id
/// has pairs with other groups, and each other document is paired with it alone: as many rows as documents, and the
/// same clusters. If copies are not pairs of each other, because every pair has a new and a reference document, each
/// other new document is paired with the smallest id of every group of reference documents instead.
///
/// `bands` is the number of bands that two identical signatures share.
pub(crate) fn pairs(
    members: DataFrame,
    scores: DataFrame,
    rules: Rules<'_>,
    bands: usize,
) -> Result<DataFrame> {
    let rule = rules.new_pairs;
    let visible = || vec![col("rep"), col("id"), col("reference")];
    if rules.compare == Compare::Across {
        let all = members.select(visible())?;
        return between(all.clone(), all, scores, rule);
    }
    let star = rules.is_star(col("size"));
    let full = members.clone().filter(star.clone().is_not_true())?;
    let starred = members.clone().filter(star)?;
    let centers = starred.clone().aggregate(
        vec![col("rep"), col("reference")],
        vec![min(col("id")).alias("id"), min(col("shingle_count")).alias("shingle_count")],
    )?;
    let shown = full.clone().select(visible())?.union(centers.clone().select(visible())?)?;
    let of_scores = between(shown.clone(), shown, scores.clone(), rule)?;
    if rules.paired() == Paired::None {
        let centers = centers.select(vec![col("rep").alias("of"), col("id").alias("center")])?;
        let others = centers
            .join_on(
                starred.filter(!col("reference"))?,
                JoinType::Inner,
                [col("of").eq(col("rep")), col("center").lt(col("id"))],
            )?
            .select(visible())?;
        let reference = members.filter(col("reference"))?;
        let reference =
            reference.aggregate(vec![col("rep"), col("reference")], vec![min(col("id")).alias("id")])?;
        let reference = reference.select(visible())?;
        let of_others = between(others.clone(), reference.clone(), scores.clone(), rule)?;
        return Ok(of_scores.union(of_others)?.union(between(reference, others, scores, rule)?)?);
    }
    let full = rules.of_paired(full.filter(col("size").gt(lit(1_u64)))?)?;
    let within = within(full.clone(), full)?.union(within(rules.of_paired(centers)?, starred)?)?;
    Ok(of_scores.union(identical(within, bands)?)?)
}

/// The columns (id, reference) of a document, as those of the left or the right document of a pair.
fn side(name: &str) -> [Expr; 2] {
    [col("id").alias(format!("{name}_id")), col("reference").alias(format!("{name}_reference"))]
}

/// Whether the left document of a pair is a: the one with the smaller id is, and next to a reference document the new
/// one.
fn left_is_a(rule: Option<NewPairs>) -> Result<Expr> {
    let smaller = col("left_id").lt(col("right_id"));
    Ok(match rule {
        None => smaller,
        Some(_) => {
            let one_is_reference = col("left_reference").not_eq(col("right_reference"));
            when(one_is_reference, col("right_reference")).otherwise(smaller)?
        }
    })
}

/// Whether b is a reference document, if one of the two is.
fn reference_b(rule: Option<NewPairs>) -> Expr {
    match rule {
        None => lit(false),
        Some(_) => col("left_reference").or(col("right_reference")),
    }
}

/// Each document on the left with those on the right in its group whose ids are larger: (id_a, id_b, shingle_count,
/// reference_b).
fn within(left: DataFrame, right: DataFrame) -> Result<DataFrame> {
    let left = left.select(vec![col("rep").alias("left_rep"), col("id").alias("id_a")])?;
    let right = right.select(vec![col("rep"), col("id").alias("id_b"), col("shingle_count")])?;
    let rows =
        left.join_on(right, JoinType::Inner, [col("left_rep").eq(col("rep")), col("id_a").lt(col("id_b"))])?;
    Ok(rows.select(vec![col("id_a"), col("id_b"), col("shingle_count"), lit(false).alias("reference_b")])?)
}

/// A score (a, b, ..) between two groups, for every two of their documents (rep, id, reference): those of a are in the
/// first frame, and those of b in the second.
fn between(of_a: DataFrame, of_b: DataFrame, scores: DataFrame, rule: Option<NewPairs>) -> Result<DataFrame> {
    let of = |documents: DataFrame, name: &str| {
        let [id, reference] = side(name);
        documents.select(vec![col("rep").alias(format!("{name}_rep")), id, reference])
    };
    // The documents are the side that is held: scores may be as many as their pairs. A column that changes its name
    // prevents the optimizer from changing the order of the two joins.
    let joined =
        of(of_a, "left")?.join(scores, JoinType::Inner, &["left_rep"], &["a"], None)?.select(vec![
            col("left_id"),
            col("left_reference"),
            col("b").alias("other_rep"),
            col("shared"),
            col("shingles_a"),
            col("shingles_b"),
            col("estimate"),
            col("shared_bands"),
        ])?;
    let joined = of(of_b, "right")?.join(joined, JoinType::Inner, &["right_rep"], &["other_rep"], None)?;
    let in_order = left_is_a(rule)?;
    let ordered = |first: &str, second: &str| when(in_order.clone(), col(first)).otherwise(col(second));
    let joined = joined.select(vec![
        ordered("left_id", "right_id")?.alias("id_a"),
        ordered("right_id", "left_id")?.alias("id_b"),
        col("estimate"),
        col("shared"),
        ordered("shingles_a", "shingles_b")?.alias("shingles_a"),
        ordered("shingles_b", "shingles_a")?.alias("shingles_b"),
        col("shared_bands"),
        reference_b(rule).alias("reference_b"),
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
        col("reference_b"),
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
        col("reference_b"),
    ])?)
}

/// Groups (rep, size, reference) -> (rep, size, reference, shown: UInt64, one_by_one: UInt64), for a score with another
/// group: the number of their documents that are paired with every shown document of that group, and of those that are
/// paired with one document of it.
fn written(groups: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let (size, star) = (|| col("size"), || rules.is_star(col("size")));
    let one_by_one = match rules.paired() {
        Paired::None => when(star().and(!col("reference")), size() - lit(1_u64)).otherwise(lit(0_u64))?,
        Paired::All | Paired::New => lit(0_u64),
    };
    Ok(groups
        .with_column("shown", when(star(), lit(1_u64)).otherwise(size())?)?
        .with_column("one_by_one", one_by_one)?)
}

/// The number of pairs that scores make: (rep, doc, size, reference) of all documents that have copies, (a, b, ..) ->
/// one row (pairs: UInt64, null if there is no score).
pub(crate) fn of_scores(groups: DataFrame, scores: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let groups = groups.filter(col("doc").eq(col("rep")))?;
    let groups = written(groups.select(vec![col("rep"), col("size"), col("reference")])?, rules)?;
    let of = |name: &str| {
        let columns = ["rep", "shown", "one_by_one"];
        groups.clone().select(columns.map(|column| col(column).alias(format!("{name}_{column}"))).to_vec())
    };
    let scores = scores.select(vec![col("a"), col("b")])?;
    let with_a = of("a")?.join(scores, JoinType::Right, &["a_rep"], &["a"], None)?;
    let with_a = with_a.select(vec![col("a_shown"), col("a_one_by_one"), col("b").alias("other")])?;
    let both = of("b")?.join(with_a, JoinType::Right, &["b_rep"], &["other"], None)?;
    let number = |name: &str, otherwise: u64| coalesce(vec![col(name), lit(otherwise)]);
    let pairs = number("a_shown", 1) * number("b_shown", 1);
    let pairs = pairs + number("a_one_by_one", 0) + number("b_one_by_one", 0);
    let both = both.select(vec![pairs.alias("pairs")])?;
    Ok(both.aggregate(vec![], vec![sum(col("pairs")).alias("pairs")])?)
}

/// The number of similar pairs that the stars leave out: (rep, size, reference, ..), (a, b, ..) -> one row (left_out:
/// UInt64, null if there is no group).
pub(crate) fn left_out(members: DataFrame, scores: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let groups =
        members.aggregate(vec![col("rep"), col("reference")], vec![max(col("size")).alias("size")])?;
    let groups = written(groups, rules)?;
    let size = || col("size");
    let all = size() * (size() - lit(1_u64)) / lit(2_u64);
    let within = rules.of_paired(groups.clone().filter(rules.is_star(size()))?)?;
    let within = within.select(vec![(all - (size() - lit(1_u64))).alias("out")])?;
    let side = |name: &str| {
        let columns = ["rep", "size", "shown", "one_by_one"];
        groups.clone().select(columns.map(|column| col(column).alias(format!("{name}_{column}"))).to_vec())
    };
    let scores = scores.select(vec![col("a"), col("b")])?;
    // As in `between`.
    let between = side("left")?.join(scores, JoinType::Inner, &["left_rep"], &["a"], None)?.select(vec![
        col("left_size"),
        col("left_shown"),
        col("left_one_by_one"),
        col("b").alias("other_rep"),
    ])?;
    let there = col("left_size") * col("right_size") - col("left_shown") * col("right_shown");
    let there = there - (col("left_one_by_one") + col("right_one_by_one"));
    let between = side("right")?
        .join(between, JoinType::Inner, &["right_rep"], &["other_rep"], None)?
        .select(vec![there.alias("out")])?;
    Ok(within.union(between)?.aggregate(vec![], vec![sum(col("out")).alias("left_out")])?)
}
