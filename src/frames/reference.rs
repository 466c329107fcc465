//! reference: documents of other outputs or of a second source, with which new documents are compared.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::functions_window::expr_fn::lag;
use datafusion::logical_expr::{Expr, ExprFunctionExt, ident};
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::by_group;
use super::cluster_id::{Founders, Replaced};
use super::keep::BEFORE;
use crate::error::Result;
use crate::schema::carried;
use crate::udf::expr_fn::document_key;

/// Sketches of a second source, with the group in the column `group` if it has one, and marked in `may_match` -> the
/// columns of the work table of reference documents, and those that decide the table of a row: `reason`, and
/// `may_match`, which is null unless it is true.
pub(crate) fn of_second_source(marked: DataFrame, group: Option<&str>) -> Result<DataFrame> {
    let mut columns = vec![lit(0_u64).alias("origin")];
    columns.extend(SKETCH.map(ident));
    // A second source carries only the group.
    columns.push(by_group::group(group.map(|_| carried(0)).as_deref()));
    columns.extend([
        ident("reason"),
        when(ident("reason").is_null().and(ident("may_match")), lit(true)).end()?.alias("may_match"),
    ]);
    Ok(marked.select(columns)?)
}

/// The columns of a sketch with its document.
const SKETCH: [&str; 9] =
    ["id", "source", "position", "doc", "shingle_count", "set_hash_0", "set_hash_1", "signature", "shingles"];

/// (doc, ..) of a second source, by the keys of ids -> the same by keys of their own: see [`second_source_key`].
pub(crate) fn with_second_source_keys(documents: DataFrame) -> Result<DataFrame> {
    Ok(documents.with_column("doc", second_source_key(col("doc")))?)
}

/// The key of a document of a second source whose id has the key `key`: an id may be in both sources, and these are two
/// documents. The difference between the two kinds of keys is known only here.
pub(crate) fn second_source_key(key: Expr) -> Expr {
    lit(u64::MAX) - key
}

/// (doc, ..) -> the rows whose document is not among the `others` (doc, ..).
pub(crate) fn without(documents: DataFrame, others: DataFrame) -> Result<DataFrame> {
    by_others(documents, others, JoinType::RightAnti)
}

/// (doc, ..) -> the rows whose document is among the `others` (doc, ..).
pub(crate) fn same(documents: DataFrame, others: DataFrame) -> Result<DataFrame> {
    by_others(documents, others, JoinType::RightSemi)
}

fn by_others(documents: DataFrame, others: DataFrame, join: JoinType) -> Result<DataFrame> {
    let others = others.select(vec![col("doc").alias("other")])?;
    Ok(others.join(documents, join, &["other"], &["doc"], None)?)
}

/// (a, b, ..) -> the pairs that have a document of `reference` (doc, ..).
pub(crate) fn with_reference(pairs: DataFrame, reference: DataFrame) -> Result<DataFrame> {
    let columns: Vec<Expr> = pairs.schema().columns().into_iter().map(Expr::Column).collect();
    let of = |end: &str| reference.clone().select(vec![col("doc").alias(format!("reference_{end}"))]);
    let marked = of("a")?.join(pairs, JoinType::Right, &["reference_a"], &["a"], None)?;
    let marked = of("b")?.join(marked, JoinType::Right, &["reference_b"], &["b"], None)?;
    let has_one = col("reference_a").is_not_null().or(col("reference_b").is_not_null());
    Ok(marked.filter(has_one)?.select(columns)?)
}

/// (a, b, ..) of scores, (rep, doc, ..) of members -> (a: UInt64, b: UInt64): the documents that this run connects.
pub(crate) fn edges(scores: DataFrame, members: DataFrame) -> Result<DataFrame> {
    let copies = members.filter(col("rep").not_eq(col("doc")))?;
    let copies = copies.select(vec![col("rep").alias("a"), col("doc").alias("b")])?;
    Ok(scores.select(vec![col("a"), col("b")])?.union(copies)?)
}

/// (id, cluster_id, ..) -> (a: UInt64, b: UInt64): each document of a cluster with the document whose id is the
/// cluster's.
pub(crate) fn edges_of_clusters(clusters: DataFrame) -> Result<DataFrame> {
    let edge = vec![document_key(col("cluster_id")).alias("a"), document_key(col("id")).alias("b")];
    Ok(clusters.select(edge)?)
}

/// (run, id, cluster_id) of the clusters of several outputs -> their founders: documents whose id is that of their cluster.
/// `documents` (doc, since) are the remaining documents with the run that read each; `None` if no document was replaced.
pub(crate) fn founders(clusters: DataFrame, documents: Option<DataFrame>) -> Result<Founders> {
    let Some(documents) = documents else {
        return Ok(Founders { present: present(clusters)?, replaced: None });
    };
    let clusters = clusters.with_column("member", document_key(col("id")))?;
    let clusters = documents.join(clusters, JoinType::Right, &["doc"], &["member"], None)?;
    let (is_founder, stays) =
        (|| col("id").eq(col("cluster_id")), || col("since").lt_eq(col("run")).is_true());
    let founders =
        clusters.clone().filter(is_founder().and(!stays()))?.select(vec![col("id")])?.distinct()?;
    let clusters = clusters.filter(stays())?.select(["run", "id", "cluster_id"].map(col).to_vec())?;
    let last = clusters.clone().aggregate(vec![col("id")], vec![max(col("run")).alias("last")])?;
    let last = last.select(vec![col("id").alias("of"), col("last")])?;
    let last = last.join(clusters.clone(), JoinType::RightSemi, &["of", "last"], &["id", "run"], None)?;
    let others = last.filter(!is_founder())?.select(vec![col("id"), col("cluster_id").alias("founder")])?;
    let gone = founders.clone().select(vec![col("id").alias("gone")])?;
    let others = gone.join(others, JoinType::RightSemi, &["gone"], &["founder"], None)?;
    Ok(Founders { present: present(clusters)?, replaced: Some(Replaced { founders, others }) })
}

/// (run, id, cluster_id) of the clusters of several outputs -> (id) of the founders. In a later output a cluster may be a part of
/// another one.
fn present(clusters: DataFrame) -> Result<DataFrame> {
    let is_founder = || col("id").eq(col("cluster_id"));
    let last = |is: Expr| -> Result<Expr> { Ok(max(when(is, col("run")).end()?)) };
    let runs = vec![last(is_founder())?.alias("founded"), last(is_founder().is_not_true())?.alias("joined")];
    let stays = col("joined").is_null().or(col("joined").lt(col("founded")));
    let founders = clusters.aggregate(vec![col("id")], runs)?;
    Ok(founders.filter(col("founded").is_not_null().and(stays))?.select(vec![col("id")])?)
}

/// (run, id, representative) of the clusters of several outputs -> (doc: UInt64, removed_by: UInt64) of the documents
/// that do not represent their last cluster, with the run of that cluster.
pub(crate) fn removed(clusters: DataFrame) -> Result<DataFrame> {
    let represents = when(col("representative"), col("run")).end()?;
    let runs = vec![max(col("run")).alias("removed_by"), max(represents).alias("represented")];
    let last = clusters.aggregate(vec![col("id")], runs)?;
    let goes = col("represented").is_null().or(col("represented").lt(col("removed_by")));
    Ok(last.filter(goes)?.select(vec![document_key(col("id")).alias("doc"), col("removed_by")])?)
}

/// [`removed`], (doc, since) of the remaining documents, with the run that read them -> `doc` and `columns` of the rows of documents that
/// were removed after that.
pub(crate) fn removed_since(removed: DataFrame, documents: DataFrame, columns: &[&str]) -> Result<DataFrame> {
    let removed = removed.with_column_renamed("doc", "gone")?;
    let joined = removed.join(documents, JoinType::Inner, &["gone"], &["doc"], None)?;
    let columns: Vec<Expr> = std::iter::once("doc").chain(columns.iter().copied()).map(col).collect();
    Ok(joined.filter(col("removed_by").gt_eq(col("since")))?.select(columns)?)
}

/// (doc, before, ..) -> the same rows, where `before` is `place` for the documents of `others` (doc, ..).
pub(crate) fn placed(documents: DataFrame, others: DataFrame, place: u64) -> Result<DataFrame> {
    let columns = documents.schema().columns().into_iter().filter(|column| column.name != BEFORE);
    let mut columns: Vec<Expr> = columns.map(Expr::Column).collect();
    let before = when(col("other").is_not_null(), lit(place)).otherwise(col(BEFORE))?;
    columns.push(before.alias(BEFORE));
    let others = others.select(vec![col("doc").alias("other")])?;
    Ok(others.join(documents, JoinType::Right, &["other"], &["doc"], None)?.select(columns)?)
}

/// (run, doc, id) of the documents of several outputs -> (before, run, id: Utf8): the smallest id that two outputs have
/// in common, for every two outputs without another between them that has it too.
pub(crate) fn shared_ids(documents: DataFrame) -> Result<DataFrame> {
    let order = vec![col("run").sort(true, false)];
    let before = lag(col("run"), Some(1), None).partition_by(vec![col("doc")]).order_by(order).build()?;
    Ok(documents
        .window(vec![before.alias("before")])?
        .filter(col("before").is_not_null())?
        .aggregate(vec![col("before"), col("run")], vec![min(col("id")).alias("least")])?
        .sort(vec![col("run").sort(true, false), col("before").sort(true, false)])?
        .select(vec![col("before"), col("run"), cast(col("least"), DataType::Utf8).alias("id")])?)
}
