//! clusters: documents that are connected by pairs, or represented by the same one.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{bool_and, count, first_value, min};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::keep;
use crate::error::Result;
use crate::job::{ClusterMethod, Preference};

/// (id, set, root, rank) of documents, (set, root, rank, representative, jaccard, weakest) of groups of copies -> (id, cluster_id, size,
/// representative, jaccard_to_representative, weakest, known).
///
/// Documents of a component that have the same representative are a cluster. With [`ClusterMethod::Representative`] documents that
/// are no pair with their representative represent themselves: where copies are no pairs (`copies_are_pairs`), those of a group that
/// represents others, but for the one that is wanted most.
///
/// # Errors
/// When a frame lacks its columns.
pub fn clusters(
    documents: DataFrame,
    sets: DataFrame,
    method: ClusterMethod,
    copies_are_pairs: bool,
) -> Result<DataFrame> {
    let sets = sets.select(vec![
        col("set").alias("of_set"),
        col("rank").alias("first"),
        col("representative").alias("of"),
        col("jaccard"),
        col("weakest"),
    ])?;
    let copies_stay = method == ClusterMethod::Representative && !copies_are_pairs;
    let stays = col("first").eq(col("of")).and(lit(copies_stay));
    let of = when(stays, col("rank")).otherwise(col("of"))?;
    let is_representative = || col("rank").eq(of.clone());
    let weakest = match method {
        ClusterMethod::Components => when(is_representative(), lit(1.0_f64)).otherwise(col("weakest"))?,
        ClusterMethod::Representative => col("weakest"),
    };
    let rows = sets.join(documents, JoinType::Right, &["of_set"], &["set"], None)?.select(vec![
        col("id"),
        col("root"),
        col("rank"),
        when(is_representative(), lit(1.0_f64)).otherwise(col("jaccard"))?.alias("jaccard_to_representative"),
        weakest.alias("weakest"),
        of.alias("of"),
    ])?;
    // The aggregation holds one row for each cluster: it does not sort.
    let clusters = rows.clone().aggregate(
        vec![col("root").alias("cluster_root"), col("of").alias("cluster_of")],
        vec![min(col("id")).alias("cluster_id"), count(lit(1)).alias("documents")],
    )?;
    // Every document has its cluster. The join is not an inner one all the same: so the documents are the side of which
    // nothing is held, however many a cluster has, both where the engine joins by hash and where it sorts.
    let keys = (&["cluster_root", "cluster_of"], &["root", "of"]);
    Ok(clusters.join(rows, JoinType::Right, keys.0, keys.1, None)?.select(vec![
        col("id"),
        col("cluster_id"),
        cast(col("documents"), DataType::UInt64).alias("size"),
        col("rank").eq(col("of")).alias("representative"),
        col("jaccard_to_representative"),
        col("weakest"),
        lit(false).alias("known"),
    ])?)
}

/// The clusters of a run against known documents: (doc, root) of every document that is connected with another, (id, doc,
/// shingle_count, known) of all documents, and the `founders` (id) among the known ones -> (id, cluster_id, size,
/// representative, known), for each cluster that has a new document.
///
/// A founder is a document whose id is that of a cluster already. It gives it to the cluster that it is in now; where there
/// are several, the smallest one does, and where there is none, the smallest id of all.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn grown(
    components: DataFrame,
    documents: DataFrame,
    founders: DataFrame,
    keep: &[Preference],
) -> Result<DataFrame> {
    let nodes = components.select(vec![col("doc").alias("node"), col("root")])?;
    let documents = documents.select(wanted(&["id", "doc", "shingle_count", "known"], keep))?;
    let connected = nodes.join(documents, JoinType::Inner, &["node"], &["doc"], None)?;
    let founders = founders.select(vec![col("id").alias("founder")])?;
    let columns = wanted(&["id", "shingle_count", "known", "root", "founder"], keep);
    let connected =
        founders.join(connected, JoinType::Right, &["founder"], &["id"], None)?.select(columns)?;
    let of_root = connected
        .clone()
        .aggregate(
            vec![col("root").alias("cluster_root")],
            vec![
                min(col("founder")).alias("least_founder"),
                min(col("id")).alias("least"),
                count(lit(1)).alias("documents"),
                first_value(col("id"), keep::order(keep)).alias("best"),
                bool_and(col("known")).alias("all_known"),
            ],
        )?
        .filter(col("all_known").is_not_true())?;
    Ok(of_root.join(connected, JoinType::Inner, &["cluster_root"], &["root"], None)?.select(vec![
        col("id"),
        coalesce(vec![col("least_founder"), col("least")]).alias("cluster_id"),
        cast(col("documents"), DataType::UInt64).alias("size"),
        col("id").eq(col("best")).alias("representative"),
        col("known"),
    ])?)
}

/// The clusters of a run against a second source: (doc, root) of every document that is connected with another, (id, doc,
/// shingle_count, known) of all documents -> (id, cluster_id, size, representative, known), for each cluster that has a document
/// which is not known.
///
/// An id may be in both sources, so the cluster bears the smallest one of the documents that are not known. What represents it is a
/// known document where there is one: of the others, none is wanted beside it.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn linked(components: DataFrame, documents: DataFrame, keep: &[Preference]) -> Result<DataFrame> {
    let nodes = components.select(vec![col("doc").alias("node"), col("root")])?;
    let columns = ["id", "doc", "shingle_count", "known"];
    let documents = documents.select(wanted(&columns, keep))?;
    let connected = nodes.join(documents, JoinType::Inner, &["node"], &["doc"], None)?;
    let connected = connected.select(wanted(&["id", "doc", "shingle_count", "known", "root"], keep))?;
    let mut best = vec![col("known").sort(false, false)];
    best.extend(keep::order(keep));
    let of_root = connected
        .clone()
        .aggregate(
            vec![col("root").alias("cluster_root")],
            vec![
                min(when(col("known").is_not_true(), col("id")).end()?).alias("cluster_id"),
                count(lit(1)).alias("documents"),
                first_value(col("doc"), best).alias("best"),
            ],
        )?
        .filter(col("cluster_id").is_not_null())?;
    Ok(of_root.join(connected, JoinType::Inner, &["cluster_root"], &["root"], None)?.select(vec![
        col("id"),
        col("cluster_id"),
        cast(col("documents"), DataType::UInt64).alias("size"),
        col("doc").eq(col("best")).alias("representative"),
        col("known"),
    ])?)
}

/// These columns, and those by which documents are ordered.
fn wanted(columns: &[&str], keep: &[Preference]) -> Vec<Expr> {
    let own = columns.iter().map(|column| col(*column));
    own.chain((0..keep.len()).map(|at| col(keep::name(at)))).collect()
}

/// (id, cluster_id, ..), the `founders` (id) -> (old_cluster_id, cluster_id) of each founder whose cluster bears another id now.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn merges(clusters: DataFrame, founders: DataFrame) -> Result<DataFrame> {
    let founders = founders.select(vec![col("id").alias("old_cluster_id")])?;
    let clusters = clusters.select(vec![col("id"), col("cluster_id")])?;
    Ok(founders
        .join(clusters, JoinType::Inner, &["old_cluster_id"], &["id"], None)?
        .filter(col("old_cluster_id").not_eq(col("cluster_id")))?
        .select(vec![col("old_cluster_id"), col("cluster_id")])?)
}
