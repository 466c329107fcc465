//! Ranks the documents in each component by preference, and finds the document that represents each group of copies.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, greatest, least};
use datafusion::functions_aggregate::expr_fn::{bool_and, max, min};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, SortExpr};
use datafusion::prelude::{DataFrame, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::decisions::PairDecisions;
use super::keep::{self, BEFORE};
use super::merged::{representatives, with_representative};
use super::{columns, float, renamed, suffixed};
use crate::clusters::Division;
use crate::error::Result;
use crate::job::{ClusterMethod, Preference};
use crate::operator::clusters::Represent;
use crate::operator::{self, Operator};

/// Members (id, doc, shingle_count, rep, reference, ..), components (doc, root) -> (id, doc, set: UInt64, root: UInt64, rank: UInt64,
/// reference), one row per document.
///
/// `set` is the representative of the document's shingle set, and `root` is the root of its component. `rank` numbers the documents in a
/// component from 1, by preference. `components` contains the root of each shingle set with a score, and every other set is a component
/// of its own. With `merged`, the column [`BEFORE`] of the members takes part in the order.
pub(crate) fn ranks(
    members: DataFrame,
    components: DataFrame,
    order: &[Preference],
    merged: bool,
) -> Result<DataFrame> {
    let components = components.select(renamed([("doc", "component_doc"), ("root", "component")]))?;
    let root = coalesce(columns(["component", "rep"])).alias("root");
    let mut columns = rank_columns(root, order);
    if merged {
        columns.push(col(BEFORE));
    }
    let rooted =
        components.join(members, JoinType::Right, &["component_doc"], &["rep"], None)?.select(columns)?;
    with_ranks(rooted, if merged { keep::sorted_with_reference(order) } else { keep::sorted(order) })
}

/// Components (doc, root), new documents (doc, ..) -> (node: UInt64, root: UInt64), the documents in components with a new document.
pub(crate) fn nodes_with_new(components: DataFrame, new: DataFrame) -> Result<DataFrame> {
    let new = new.select(renamed([("doc", "new_doc")]))?;
    let roots = new.join(components.clone(), JoinType::Inner, &["new_doc"], &["doc"], None)?;
    let roots = roots.select(renamed([("root", "new_root")]))?.distinct()?;
    let nodes = roots.join(components, JoinType::RightSemi, &["new_root"], &["root"], None)?;
    Ok(nodes.select(renamed([("doc", "node"), ("root", "root")]))?)
}

/// Like [`ranks`], but for a run with reference documents. Takes [`nodes_with_new`], and these documents and possibly others (id, doc,
/// reference, before, shingle_count, set_hash_0, set_hash_1, ..).
pub(crate) fn ranks_with_reference(
    nodes: DataFrame,
    documents: DataFrame,
    order: &[Preference],
    decisions: Option<PairDecisions>,
) -> Result<DataFrame> {
    let mut rooted = nodes.join(documents, JoinType::Inner, &["node"], &["doc"], None)?;
    if let Some(decisions) = decisions {
        rooted = decisions.apart_from_copies(rooted)?;
    }
    let sets = representatives(rooted.clone())?;
    let columns = [rank_columns(col("root"), order), columns([BEFORE])].concat();
    let rooted = with_representative(rooted, sets)?.select(columns)?;
    with_ranks(rooted, keep::sorted_with_reference(order))
}

fn rank_columns(root: Expr, order: &[Preference]) -> Vec<Expr> {
    let mut columns =
        vec![col("id"), col("doc"), col("shingle_count"), col("rep").alias("set"), root, col("reference")];
    columns.extend(keep::names(order).into_iter().map(col));
    columns
}

fn with_ranks(rooted: DataFrame, sorted: Vec<SortExpr>) -> Result<DataFrame> {
    let rank = row_number().partition_by(columns(["root"])).order_by(sorted).build()?;
    let all = columns(["id", "doc", "set", "root", "rank", "reference"]);
    Ok(rooted.window(vec![rank.alias("rank")])?.select(all)?)
}

/// Documents (set, root, rank, reference, ..) -> (set, root, rank, reference), one row per shingle set, with the rank of its first
/// document.
pub(crate) fn ranks_of_sets(ranks: DataFrame) -> Result<DataFrame> {
    let first = vec![
        min(col("root")).alias("root"),
        min(col("rank")).alias("rank"),
        bool_and(col("reference")).alias("reference"),
    ];
    Ok(ranks.aggregate(columns(["set"]), first)?)
}

/// Scores (a, b, shared, shingles_a, shingles_b, ..) of documents, [`ranks`] -> the scores of their shingle sets. Two sets can have the
/// scores (a, b) and (b, a).
pub(crate) fn scores_of_sets(scores: DataFrame, ranks: DataFrame) -> Result<DataFrame> {
    let end = |end: &str| suffixed(&ranks, &["doc", "set"], end);
    let measured = || columns(["shared", "shingles_a", "shingles_b"]);
    // The new name of b keeps the optimizer from reordering the joins.
    let joined = end("a")?
        .join(scores, JoinType::Inner, &["doc_a"], &["a"], None)?
        .select([renamed([("set_a", "set_a"), ("b", "other")]), measured()].concat())?;
    let joined = end("b")?.join(joined, JoinType::Inner, &["doc_b"], &["other"], None)?;
    let joined = joined.filter(col("set_a").not_eq(col("set_b")))?;
    Ok(joined.select([renamed([("set_a", "a"), ("set_b", "b")]), measured()].concat())?.distinct()?)
}

/// Documents (set, root, rank, reference, ..), scores (a, b, shared, shingles_a, shingles_b, ..) -> (set, root, rank, representative:
/// UInt64, jaccard: Float64, weakest_link: Float64). There is one row per group of copies.
///
/// `representative` is the rank of the document that represents the group. `jaccard` is the similarity of the group and this document, or
/// null if they are not a pair. `weakest_link` is the minimum similarity on the best path between the two. It is null if the method
/// divides chains, or if the component is too large for a path search. `copies_are_pairs` is an expression over `reference`.
pub(crate) fn represented(
    documents: DataFrame,
    scores: DataFrame,
    method: ClusterMethod,
    copies_are_pairs: Expr,
    decisions: Option<PairDecisions>,
) -> Result<DataFrame> {
    let sets = ranks_of_sets(documents)?;
    let edges = edges(&sets, scores)?;
    let found = match decisions {
        Some(decisions) if !method.keeps_components_whole() => {
            representatives_of_units(decisions.units, &sets, edges, method)?
        }
        _ => representatives_of_edges(edges, Division::Whole(method))?,
    };
    let itself = if method.keeps_components_whole() { lit(1_u64) } else { col("rank") };
    let representative = coalesce(vec![col("found"), itself]);
    let is_copy = representative.clone().eq(col("rank")).and(copies_are_pairs);
    let jaccard = when(is_copy.clone(), lit(1.0_f64)).otherwise(col("jaccard"))?;
    let weakest = if method.has_weakest_links() {
        when(is_copy, lit(1.0_f64)).otherwise(col("weakest_link"))?
    } else {
        col("weakest_link")
    };
    let joined = found.join(sets, JoinType::Right, &["found_root", "found_rank"], &["root", "rank"], None)?;
    let own =
        vec![representative.alias("representative"), jaccard.alias("jaccard"), weakest.alias("weakest_link")];
    Ok(joined.select([columns(["set", "root", "rank"]), own].concat())?)
}

/// Shingle sets (set, root, rank, ..), `edges` (root, high, low, jaccard) between them -> the columns of
/// [`representatives_of_edges`], for a method that divides components.
///
/// The first document of each unit is a node of the cluster method. The other documents of the unit join the cluster of the first. A
/// document in a decision is the only one with its set.
fn representatives_of_units(
    units: DataFrame,
    sets: &DataFrame,
    edges: DataFrame,
    method: ClusterMethod,
) -> Result<DataFrame> {
    let members = units.join(sets.clone(), JoinType::Inner, &["doc"], &["set"], None)?;
    let members = members.select(columns(["unit", "root", "rank"]))?;
    let heads =
        members.clone().aggregate(renamed([("unit", "of_unit")]), vec![min(col("rank")).alias("head")])?;
    let followers = heads
        .join(members, JoinType::Inner, &["of_unit"], &["unit"], None)?
        .filter(col("rank").not_eq(col("head")))?
        .select(renamed([("root", "of_root"), ("rank", "follower"), ("head", "head")]))?;
    let mut others = edges.clone();
    for end in ["high", "low"] {
        let followers = followers.clone().select(columns(["of_root", "follower"]))?;
        others =
            followers.join(others, JoinType::RightAnti, &["of_root", "follower"], &["root", end], None)?;
    }
    let found = representatives_of_edges(others, Division::Whole(method))?;
    let keys = (&["found_root", "found_rank"], &["of_root", "head"]);
    let joined =
        found.clone().join(followers.clone(), JoinType::Right, keys.0, keys.1, None)?.select(vec![
            col("of_root"),
            col("follower"),
            coalesce(columns(["found", "head"])).alias("representative"),
        ])?;
    // With reference documents, two sets can have two edges.
    let keys = (&["of_root", "follower"], &["root", "high"]);
    let measured = followers.join(edges, JoinType::Inner, keys.0, keys.1, None)?.aggregate(
        renamed([("root", "edge_root"), ("high", "edge_high"), ("low", "edge_low")]),
        vec![max(col("jaccard")).alias("jaccard")],
    )?;
    let keys = (&["edge_root", "edge_high", "edge_low"], &["of_root", "follower", "representative"]);
    let joined = measured.join(joined, JoinType::Right, keys.0, keys.1, None)?.select(vec![
        col("of_root").alias("found_root"),
        col("follower").alias("found_rank"),
        col("representative").alias("found"),
        col("jaccard"),
        cast(lit(ScalarValue::Null), DataType::Float64).alias("weakest_link"),
    ])?;
    Ok(found.union(joined)?)
}

/// Runs [`Represent`] on `edges`: (found_root, found_rank, found, jaccard, weakest_link), where `found` is the representative's rank.
pub(super) fn representatives_of_edges(edges: DataFrame, division: Division) -> Result<DataFrame> {
    let represent = Operator::Represent(Represent(division));
    Ok(operator::apply(represent, vec![edges])?.select(renamed([
        ("root", "found_root"),
        ("rank", "found_rank"),
        ("representative", "found"),
        ("jaccard", "jaccard"),
        ("weakest_link", "weakest_link"),
    ]))?)
}

/// Returns the pairs between groups of copies as (root, high, low: UInt64, jaccard: Float64), with the ranks of the groups as `high` and
/// `low`.
pub(super) fn edges(sets: &DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let union = float(col("shingles_a") + col("shingles_b") - col("shared"));
    let scores = scores.select(vec![col("a"), col("b"), (float(col("shared")) / union).alias("jaccard")])?;
    let of_a = sets.clone().select(renamed([("set", "set_a"), ("rank", "rank_a")]))?;
    let of_b = sets.clone().select(renamed([("set", "set_b"), ("root", "root"), ("rank", "rank_b")]))?;
    // The joins keep the sets in memory instead of the scores, since there can be as many scores as pairs. The new name of b keeps the
    // optimizer from reordering the joins.
    let joined = of_a.join(scores, JoinType::Inner, &["set_a"], &["a"], None)?.select(vec![
        col("b").alias("other"),
        col("rank_a"),
        col("jaccard"),
    ])?;
    let ranks = || columns(["rank_a", "rank_b"]);
    Ok(of_b.join(joined, JoinType::Inner, &["set_b"], &["other"], None)?.select(vec![
        col("root"),
        greatest(ranks()).alias("high"),
        least(ranks()).alias("low"),
        col("jaccard"),
    ])?)
}
