//! represented: the document that represents each group of copies of a component, and how well the two are connected.

use arrow::datatypes::{DataType, Field};
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, greatest, least};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::interface::{
    AnyTable, BYTES_OF_EDGE, BYTES_OF_KEY, Job, Planned, Result, SourceTypes, Stage, StageContext, StagePlan,
    Table, WorkTable,
};
use super::ranks;
use crate::clusters::Division;
use crate::frames::copies::{Paired, Rules};
use crate::job::{ClusterMethod, Compare, Reference};
use crate::operator::represent::Represent;
use crate::operator::{self, Operator};
use crate::pipeline::tables::numbers;

/// (set, root, rank, reference, ..) of documents, (a, b, shared, shingles_a, shingles_b, ..) -> (set: UInt64, root: UInt64, rank:
/// UInt64, representative: UInt64, jaccard: Float64, weakest_link: Float64), one row per group of copies.
///
/// `representative` is the rank of the document that represents the documents of the group. `jaccard` and
/// `weakest_link` are those of the documents that it represents besides itself: the similarity of the two, null if they
/// are not a pair; and the least similarity on the best path between them. The latter is null if the method divides
/// chains, and in a component too large for a search of its paths. `copies_are_pairs` is true, by `reference`, if two
/// documents of one group are a pair.
///
/// # Errors
/// When a frame lacks its columns.
pub fn represented(
    documents: DataFrame,
    scores: DataFrame,
    method: ClusterMethod,
    copies_are_pairs: Expr,
) -> Result<DataFrame> {
    let sets = ranks::of_sets(documents)?;
    let found = found(edges(&sets, scores)?, Division::Whole(method))?;
    let itself = if method.keeps_chains() { lit(1_u64) } else { col("rank") };
    let representative = coalesce(vec![col("found"), itself]);
    let is_copy = representative.clone().eq(col("rank")).and(copies_are_pairs);
    let jaccard = when(is_copy.clone(), lit(1.0_f64)).otherwise(col("jaccard"))?;
    let weakest = match method.keeps_chains() {
        true => when(is_copy, lit(1.0_f64)).otherwise(col("weakest_link"))?,
        false => col("weakest_link"),
    };
    Ok(found.join(sets, JoinType::Right, &["found_root", "found_rank"], &["root", "rank"], None)?.select(
        vec![
            col("set"),
            col("root"),
            col("rank"),
            representative.alias("representative"),
            jaccard.alias("jaccard"),
            weakest.alias("weakest_link"),
        ],
    )?)
}

/// What [`Represent`] finds among `edges`: (found_root, found_rank, found, jaccard, weakest_link), where `found` is the rank of
/// the representative.
pub(super) fn found(edges: DataFrame, division: Division) -> Result<DataFrame> {
    let represent = Operator::Represent(Represent(division));
    Ok(operator::apply(represent, vec![edges])?.select(vec![
        col("root").alias("found_root"),
        col("rank").alias("found_rank"),
        col("representative").alias("found"),
        col("jaccard"),
        col("weakest_link"),
    ])?)
}

/// The pairs of groups, by their ranks: (root, high, low: UInt64, jaccard: Float64).
pub(super) fn edges(sets: &DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let float = |column: &str| cast(col(column), DataType::Float64);
    let union = cast(col("shingles_a") + col("shingles_b") - col("shared"), DataType::Float64);
    let scores = scores.select(vec![col("a"), col("b"), (float("shared") / union).alias("jaccard")])?;
    let of_a = sets.clone().select(vec![col("set").alias("set_a"), col("rank").alias("rank_a")])?;
    let of_b =
        sets.clone().select(vec![col("set").alias("set_b"), col("root"), col("rank").alias("rank_b")])?;
    // The sets are the side that is held: scores may be as many as their pairs. A column that changes its name prevents
    // the optimizer from changing the order of the two joins.
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

/// Whether documents with the same shingles are pairs, by the column `reference`. Those of other outputs always count
/// as pairs, and two of a second source never do.
pub(super) fn copies_are_pairs(job: &Job) -> Expr {
    let new = Rules::of(job).paired() != Paired::None;
    match job.reference() {
        _ if job.candidates.compare == Compare::Across => lit(false),
        None => lit(new),
        Some(Reference::Outputs { .. }) => col("reference").or(lit(new)),
        Some(Reference::Source(_)) => lit(new).and(!col("reference")),
    }
}

/// The pairs of the shingle sets of components (a, b, shared, shingles_a, shingles_b, ..), also those of reference outputs, and
/// how many there are at most. With reference documents, one may come in both directions.
pub(super) async fn scores_of_components(cx: &StageContext<'_>) -> Result<(DataFrame, u64)> {
    let mut scores = cx.table(WorkTable::SCORES)?;
    let mut count = cx.rows(WorkTable::SCORES);
    if let Some(reference) = cx.reference {
        let columns = || ["a", "b", "shared", "shingles_a", "shingles_b"].map(col).to_vec();
        scores = scores.select(columns())?;
        if let Some(outputs) = reference.outputs() {
            count += outputs.count(Table::Pairs);
            scores = scores.union(outputs.pairs(cx).await?.select(columns())?)?;
        }
        scores = ranks::scores_of_sets(scores, cx.table(WorkTable::RANKS)?)?;
    }
    Ok((scores, count))
}

impl WorkTable {
    /// The representatives of the shingle sets of components.
    pub(crate) const REPRESENTED: Self = Self::new("represented", columns);
}

fn columns(_source: &SourceTypes) -> Vec<Field> {
    let mut columns = numbers(["set", "root", "rank", "representative"]);
    columns.extend(["jaccard", "weakest_link"].map(|name| Field::new(name, DataType::Float64, true)));
    columns
}

/// Finds the representative of each document, and how well the two are connected.
pub(super) static REPRESENTED: Stage = Stage::new(
    AnyTable::Work(WorkTable::REPRESENTED),
    |job| match job.clusters.method {
        ClusterMethod::Components => "find how well documents are connected with the first one".into(),
        ClusterMethod::Representative => {
            "let each document join the first representative that it is paired with".into()
        }
    },
    |_| true,
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let (ranks, (scores, edges)) = (cx.table(WorkTable::RANKS)?, scores_of_components(cx).await?);
            let frame = represented(ranks, scores, cx.job.clusters.method, copies_are_pairs(cx.job))?;
            let bytes = cx.rows(WorkTable::RANKS) * BYTES_OF_KEY + edges * BYTES_OF_EDGE;
            Ok(Planned::new(bytes, vec![frame]))
        })
    }),
);
