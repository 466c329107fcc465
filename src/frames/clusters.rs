//! Clusters of documents that are connected by pairs or have the same representative.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, greatest, least};
use datafusion::functions_aggregate::expr_fn::{bool_and, bool_or, count, min};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, ident};
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::ranks::{edges, ranks_of_sets, representatives_of_edges};
use super::{all_columns, columns, float, number, renamed};
use crate::clusters::Division;
use crate::error::Result;
use crate::job::{ClusterMethod, Measure};

/// The rule for cluster ids, and for which clusters are written.
#[derive(Debug, Clone)]
pub(crate) enum ClusterId {
    Least,
    /// The smallest id of a founder, or the smallest id in a cluster without founders. Only clusters with a new document are written.
    Kept(Box<Founders>),
    /// The smallest id of a new document, since reference documents can have the same ids. Only clusters with a new document are written.
    LeastNew,
}

/// The founders of earlier clusters: documents whose id is also the id of a cluster in an earlier run.
#[derive(Debug, Clone)]
pub(crate) struct Founders {
    /// The founders (id) with the same text as in the earlier runs.
    pub present: DataFrame,
    /// The clusters that lost their founder. `None` if no document was replaced.
    pub replaced: Option<Replaced>,
}

/// Clusters in earlier runs with a founder that now has another text. The new cluster of this founder takes over the old cluster's id
/// only if it contains another document of the old cluster.
#[derive(Debug, Clone)]
pub(crate) struct Replaced {
    /// The founders (id) with another text.
    pub founders: DataFrame,
    /// The other documents (id, founder) in the old clusters of these founders.
    pub others: DataFrame,
}

/// Documents (id, set, root, rank, reference), groups of copies (set, root, rank, representative, jaccard, weakest_link) -> (id,
/// cluster_id, size, representative, jaccard_to_representative, weakest_link, reference).
///
/// A cluster consists of the documents in a component with the same representative. With [`ClusterMethod::Representative`], a document
/// that is not a pair with its representative represents itself. If copies are not pairs, all copies of the representative except the
/// first also represent themselves. `copies_are_pairs` is an expression over `reference` that says whether copies are pairs.
pub(crate) fn clusters(
    documents: DataFrame,
    sets: DataFrame,
    method: ClusterMethod,
    copies_are_pairs: Expr,
    ids: ClusterId,
) -> Result<DataFrame> {
    let sets = sets.select(renamed([
        ("set", "of_set"),
        ("rank", "first"),
        ("representative", "of"),
        ("jaccard", "jaccard"),
        ("weakest_link", "weakest_link"),
    ]))?;
    let copies_stay = if method.joins_unpaired() { lit(false) } else { !copies_are_pairs };
    let of = when(col("first").eq(col("of")).and(copies_stay), col("rank")).otherwise(col("of"))?;
    let is_representative = || col("rank").eq(of.clone());
    let weakest = if method.has_weakest_links() {
        when(is_representative(), lit(1.0_f64)).otherwise(col("weakest_link"))?
    } else {
        col("weakest_link")
    };
    let (documents, kept, replaced) = match ids {
        ClusterId::Least => (documents, None, false),
        ClusterId::LeastNew => (documents, Some(when(!col("reference"), col("id")).end()?), false),
        ClusterId::Kept(founders) => {
            let Founders { present, replaced } = *founders;
            let founders = present.select(renamed([("id", "founder")]))?;
            let mut documents = founders.join(documents, JoinType::Right, &["founder"], &["id"], None)?;
            let is_replaced = replaced.is_some();
            if let Some(Replaced { founders, others }) = replaced {
                let founders = founders.select(renamed([("id", "replaced")]))?;
                let others = others.select(renamed([("id", "other"), ("founder", "left_by")]))?;
                documents = founders.join(documents, JoinType::Right, &["replaced"], &["id"], None)?;
                documents = others.join(documents, JoinType::Right, &["other"], &["id"], None)?;
            }
            (documents, Some(col("founder")), is_replaced)
        }
    };
    let jaccard = when(is_representative(), lit(1.0_f64)).otherwise(col("jaccard"))?;
    let mut all = columns(["id", "root", "rank"]);
    all.extend([jaccard.alias("jaccard_to_representative"), weakest.alias("weakest_link"), of.alias("of")]);
    all.push(col("reference"));
    all.extend(kept.clone().map(|kept| kept.alias("kept")));
    if replaced {
        all.extend(columns(["replaced", "left_by"]));
    }
    let mut rows = sets.join(documents, JoinType::Right, &["of_set"], &["set"], None)?.select(all)?;
    let mut found = vec![min(col("id")).alias("least"), count(lit(1)).alias("documents")];
    let mut least = columns(["least"]);
    if replaced {
        rows = kept_with_others(rows)?;
        found.push(min(when(col("replaced").is_null(), col("id")).end()?).alias("least_other"));
        // `least_other` is null if all documents of a cluster are replaced founders. The cluster then has the id `least`.
        least.insert(0, col("least_other"));
    }
    if kept.is_some() {
        found.push(min(col("kept")).alias("least_kept"));
        found.push(bool_and(col("reference")).alias("only_reference"));
        least.insert(0, col("least_kept"));
    }
    // This aggregation keeps one row per cluster in memory, and does not sort.
    let by_cluster = renamed([("root", "cluster_root"), ("of", "cluster_of")]);
    let clusters = rows.clone().aggregate(by_cluster, found)?;
    // If all clusters are written, every document is in one. A right join then streams the documents, so clusters can have any size.
    let (clusters, join) = match kept {
        None => (clusters, JoinType::Right),
        Some(_) => (clusters.filter(!col("only_reference"))?, JoinType::Inner),
    };
    let keys = (&["cluster_root", "cluster_of"], &["root", "of"]);
    Ok(clusters.join(rows, join, keys.0, keys.1, None)?.select(vec![
        col("id"),
        coalesce(least).alias("cluster_id"),
        number(col("documents")).alias("size"),
        col("rank").eq(col("of")).alias("representative"),
        col("jaccard_to_representative"),
        col("weakest_link"),
        col("reference"),
    ])?)
}

/// Sets `kept`, the cluster id that a founder keeps. A replaced founder keeps it too if the new cluster (root, of) contains another
/// document of the old one. `replaced` is the id of a replaced founder. `left_by` is the replaced founder of the document's old cluster.
fn kept_with_others(rows: DataFrame) -> Result<DataFrame> {
    let others = rows.clone().filter(col("left_by").is_not_null())?.select(renamed([
        ("root", "other_root"),
        ("of", "other_of"),
        ("left_by", "next_to"),
    ]))?;
    let mut columns = all_columns(&rows);
    for column in columns.iter_mut().filter(|column| **column == ident("kept")) {
        *column = coalesce(vec![col("kept"), col("next_to")]).alias("kept");
    }
    let keys = (&["other_root", "other_of", "next_to"], &["root", "of", "replaced"]);
    Ok(others.distinct()?.join(rows, JoinType::Right, keys.0, keys.1, None)?.select(columns)?)
}

/// (id, cluster_id, ..), the founders -> (old_cluster_id, cluster_id), one row for each earlier cluster that has another id now. If the
/// founder was replaced, the other documents may be in several clusters. `cluster_id` is then the smallest id of these.
pub(crate) fn id_changes(clusters: DataFrame, Founders { present, replaced }: Founders) -> Result<DataFrame> {
    let mut old = present.select(renamed([("id", "old_cluster_id"), ("id", "document")]))?;
    if let Some(Replaced { others, .. }) = replaced {
        old = old.union(others.select(columns(["founder", "id"]))?)?;
    }
    let clusters = clusters.select(columns(["id", "cluster_id"]))?;
    let now = vec![
        min(col("cluster_id")).alias("cluster_id"),
        bool_or(col("old_cluster_id").eq(col("cluster_id"))).alias("stays"),
    ];
    Ok(old
        .join(clusters, JoinType::Inner, &["document"], &["id"], None)?
        .aggregate(columns(["old_cluster_id"]), now)?
        .filter(!col("stays"))?
        .select(columns(["old_cluster_id", "cluster_id"]))?)
}

/// Documents (id, set, root, rank, reference), scores (a, b, shared, shingles_a, shingles_b) -> (threshold: Float64, id, cluster_id, size,
/// representative, reference).
/// Clusters the pairs with a similarity by `measure` of at least `threshold`, with one row for each document in such a pair.
/// `copies_are_pairs` is an expression over `reference`.
pub(crate) fn cluster_level(
    documents: DataFrame,
    scores: DataFrame,
    (measure, threshold): (Measure, f64),
    method: ClusterMethod,
    copies_are_pairs: Expr,
    ids: ClusterId,
) -> Result<DataFrame> {
    let scores = scores.filter(similarity(measure).gt_eq(lit(threshold)))?;
    let sets = ranks_of_sets(documents.clone())?;
    let edges = edges(&sets, scores)?;
    let found = representatives_of_edges(edges.clone(), Division::Part(method))?;
    // The sets in a pair with another set, and the sets of copies that are pairs.
    let end = |rank| edges.clone().select(renamed([("root", "edge_root"), (rank, "edge_rank")]));
    let ends = end("high")?.union(end("low")?)?.distinct()?;
    let keys = (&["edge_root", "edge_rank"], &["root", "rank"]);
    let connected = ends.join(sets.clone(), JoinType::RightSemi, keys.0, keys.1, None)?;
    let copied = documents
        .clone()
        .filter(copies_are_pairs.clone())?
        .aggregate(renamed([("set", "copied")]), vec![count(lit(1)).alias("copies")])?
        .filter(col("copies").gt(lit(1)))?
        .join(sets.clone(), JoinType::RightSemi, &["copied"], &["set"], None)?;
    let paired = connected.union(copied)?.select(renamed([("set", "paired")]))?.distinct()?;
    let documents = paired.join(documents, JoinType::RightSemi, &["paired"], &["set"], None)?;
    let mut all = columns(["set", "root", "rank", "jaccard", "weakest_link"]);
    all.insert(3, coalesce(columns(["found", "rank"])).alias("representative"));
    let keys = (&["found_root", "found_rank"], &["root", "rank"]);
    let sets = found.join(sets, JoinType::Right, keys.0, keys.1, None)?.select(all)?;
    let clusters = clusters(documents, sets, method, copies_are_pairs, ids)?;
    let written = columns(["id", "cluster_id", "size", "representative", "reference"]);
    Ok(clusters.select([vec![lit(threshold).alias("threshold")], written].concat())?)
}

/// The similarity by `measure` of a pair with the columns (shared, shingles_a, shingles_b): NaN if both documents are empty. It equals
/// [`Measure::similarity`].
pub(crate) fn similarity(measure: Measure) -> Expr {
    let all = match measure {
        Measure::Jaccard => col("shingles_a") + col("shingles_b") - col("shared"),
        Measure::Containment => least(columns(["shingles_a", "shingles_b"])),
    };
    float(col("shared")) / float(all)
}

/// Pairs (id_a, id_b, score: Float64) -> (id, cluster_id, size: Int64, representative: Boolean), sorted by cluster and id.
///
/// Clusters the pairs of another program, with one row for each document in a pair with a score of at least `threshold`. The document
/// with the smallest id represents the cluster, and this id is the `cluster_id`. [`ClusterMethod::Representative`] visits documents by
/// their ids.
pub(crate) fn clusters_of_pairs(
    pairs: DataFrame,
    threshold: f64,
    method: ClusterMethod,
) -> Result<DataFrame> {
    let paired = col("score").gt_eq(lit(threshold)).and(col("id_a").not_eq(col("id_b")));
    let pairs = pairs.filter(paired)?;
    let ids = |column| pairs.clone().select(renamed([(column, "id")]));
    let by_id = row_number().order_by(vec![col("id").sort(true, false)]).build()?.alias("rank");
    let ranked = ids("id_a")?.union(ids("id_b")?)?.distinct()?.window(vec![by_id])?;
    let end = |id, rank| ranked.clone().select(renamed([("id", id), ("rank", rank)]));
    // The new name of b keeps the optimizer from reordering the joins.
    let joined = end("left_id", "left")?
        .join(pairs.clone(), JoinType::Inner, &["left_id"], &["id_a"], None)?
        .select(vec![col("id_b").alias("other"), col("left"), col("score")])?;
    let joined = end("right_id", "right")?.join(joined, JoinType::Inner, &["right_id"], &["other"], None)?;
    let ends = || columns(["left", "right"]);
    let edges = joined.select(vec![
        // With the same root for all pairs, the operator itself finds the connected documents.
        lit(0_u64).alias("root"),
        greatest(ends()).alias("high"),
        least(ends()).alias("low"),
        col("score").alias("jaccard"),
    ])?;
    let found = representatives_of_edges(edges, Division::Part(method))?;
    let rows = found.join(ranked, JoinType::Right, &["found_rank"], &["rank"], None)?.select(vec![
        col("id"),
        col("rank"),
        coalesce(columns(["found", "rank"])).alias("of"),
    ])?;
    let counts = vec![min(col("id")).alias("cluster_id"), count(lit(1)).alias("size")];
    let clusters = rows.clone().aggregate(renamed([("of", "cluster_of")]), counts)?;
    let sorted = ["cluster_id", "id"].map(|column| col(column).sort(true, false)).to_vec();
    Ok(clusters
        .join(rows, JoinType::Right, &["cluster_of"], &["of"], None)?
        .select(vec![
            col("id"),
            col("cluster_id"),
            cast(col("size"), DataType::Int64).alias("size"),
            col("rank").eq(col("of")).alias("representative"),
        ])?
        .sort(sorted)?)
}
