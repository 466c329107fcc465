//! Reference documents, with which new documents are compared. They come from other outputs or from a second source.

use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::functions_window::expr_fn::lag;
use datafusion::logical_expr::{Expr, ExprFunctionExt, ident};
use datafusion::prelude::{DataFrame, col, lit, when};

use super::clusters::{Founders, Replaced};
use super::keep::BEFORE;
use super::{all_columns, columns, groups, renamed, utf8};
use crate::error::Result;
use crate::schema::carried;
use crate::udf::expr_fn::document_key;

/// Adds `reference: Boolean` to `frame` (doc, ..): whether the document is in `reference` (doc, ..).
pub(crate) fn mark(frame: DataFrame, reference: DataFrame) -> Result<DataFrame> {
    let is_reference = col("reference_doc").is_not_null().alias("reference");
    let columns = [all_columns(&frame), vec![is_reference]].concat();
    let reference = reference.select(renamed([("doc", "reference_doc")]))?;
    Ok(reference.join(frame, JoinType::Right, &["reference_doc"], &["doc"], None)?.select(columns)?)
}

/// Selects `columns` of new documents and of reference documents, if any, and adds the column `reference: Boolean`.
pub(crate) fn new_and_reference(
    new: DataFrame,
    reference: Option<DataFrame>,
    columns: &[&str],
) -> Result<DataFrame> {
    let all = |is_reference: bool| {
        let columns = columns.iter().map(|column| col(*column));
        columns.chain([lit(is_reference).alias("reference")]).collect::<Vec<_>>()
    };
    let new = new.select(all(false))?;
    Ok(match reference {
        Some(reference) => new.union(reference.select(all(true))?)?,
        None => new,
    })
}

/// Sketches of a second source (.., may_match) -> the columns of the work table of reference documents, `reason`, and `may_match` (true or
/// null). The last two columns determine the table into which a row is written. `group` is the name of the column with the group.
pub(crate) fn second_source_rows(marked: DataFrame, group: Option<&str>) -> Result<DataFrame> {
    let sketch = [
        "id",
        "source",
        "position",
        "doc",
        "shingle_count",
        "set_hash_0",
        "set_hash_1",
        "signature",
        "shingles",
    ];
    let mut all = vec![lit(0_u64).alias("origin")];
    all.extend(sketch.map(ident));
    // A second source carries only the group.
    all.push(groups::group(group.map(|_| carried(0)).as_deref()));
    let may_match = ident("reason").is_null().and(ident("may_match"));
    all.extend([ident("reason"), when(may_match, lit(true)).end()?.alias("may_match")]);
    Ok(marked.select(all)?)
}

/// Replaces the keys of documents (doc, ..) in a second source by [`second_source_key`].
pub(crate) fn with_second_source_keys(documents: DataFrame) -> Result<DataFrame> {
    Ok(documents.with_column("doc", second_source_key(col("doc")))?)
}

/// The key of a document in a second source, from the key of its id. Documents with the same id in both sources then have different keys.
pub(crate) fn second_source_key(key: Expr) -> Expr {
    lit(u64::MAX) - key
}

/// Keeps the `documents` (doc, ..) that are not among the `others` (doc, ..).
pub(crate) fn without(documents: DataFrame, others: DataFrame) -> Result<DataFrame> {
    let others = others.select(renamed([("doc", "other")]))?;
    Ok(others.join(documents, JoinType::RightAnti, &["other"], &["doc"], None)?)
}

/// Keeps the `documents` (doc, ..) that are among the `others` (doc, ..).
pub(crate) fn same(documents: DataFrame, others: DataFrame) -> Result<DataFrame> {
    super::among(documents, others.select(renamed([("doc", "needed")]))?)
}

/// Keeps the pairs (a, b, ..) with a document in `reference` (doc, ..).
pub(crate) fn with_reference(pairs: DataFrame, reference: DataFrame) -> Result<DataFrame> {
    let columns = all_columns(&pairs);
    let end = |name| reference.clone().select(renamed([("doc", name)]));
    let marked = end("reference_a")?.join(pairs, JoinType::Right, &["reference_a"], &["a"], None)?;
    let marked = end("reference_b")?.join(marked, JoinType::Right, &["reference_b"], &["b"], None)?;
    let has_one = col("reference_a").is_not_null().or(col("reference_b").is_not_null());
    Ok(marked.filter(has_one)?.select(columns)?)
}

/// Scores (a, b, ..), members (rep, doc, ..) -> (a: UInt64, b: UInt64). Each score is an edge. Edges also join copies with their
/// representatives.
pub(crate) fn edges(scores: DataFrame, members: DataFrame) -> Result<DataFrame> {
    let copies = members.filter(col("rep").not_eq(col("doc")))?;
    let copies = copies.select(renamed([("rep", "a"), ("doc", "b")]))?;
    Ok(scores.select(columns(["a", "b"]))?.union(copies)?)
}

/// (id, cluster_id, ..) -> (a: UInt64, b: UInt64). Joins each document with the founder of its cluster.
pub(crate) fn edges_of_clusters(clusters: DataFrame) -> Result<DataFrame> {
    let edge = vec![document_key(col("cluster_id")).alias("a"), document_key(col("id")).alias("b")];
    Ok(clusters.select(edge)?)
}

/// Clusters (run, id, cluster_id) of several outputs -> their founders, the documents with the same id as their cluster. If any document
/// was replaced, `documents` (doc, since) contains the remaining documents and the runs that read them.
pub(crate) fn founders(clusters: DataFrame, documents: Option<DataFrame>) -> Result<Founders> {
    let Some(documents) = documents else {
        return Ok(Founders { present: present(clusters)?, replaced: None });
    };
    let clusters = clusters.with_column("member", document_key(col("id")))?;
    let clusters = documents.join(clusters, JoinType::Right, &["doc"], &["member"], None)?;
    let is_founder = || col("id").eq(col("cluster_id"));
    let stays = || col("since").lt_eq(col("run")).is_true();
    let founders =
        clusters.clone().filter(is_founder().and(!stays()))?.select(columns(["id"]))?.distinct()?;
    let clusters = clusters.filter(stays())?.select(columns(["run", "id", "cluster_id"]))?;
    let last = clusters.clone().aggregate(columns(["id"]), vec![max(col("run")).alias("last")])?;
    let last = last.select(vec![col("id").alias("of"), col("last")])?;
    let last = last.join(clusters.clone(), JoinType::RightSemi, &["of", "last"], &["id", "run"], None)?;
    let others = last.filter(!is_founder())?.select(vec![col("id"), col("cluster_id").alias("founder")])?;
    let gone = founders.clone().select(renamed([("id", "gone")]))?;
    let others = gone.join(others, JoinType::RightSemi, &["gone"], &["founder"], None)?;
    Ok(Founders { present: present(clusters)?, replaced: Some(Replaced { founders, others }) })
}

/// Clusters (run, id, cluster_id) of several outputs -> the founders (id). Omits founders whose cluster a later output joined to another.
fn present(clusters: DataFrame) -> Result<DataFrame> {
    let is_founder = || col("id").eq(col("cluster_id"));
    let last = |is: Expr| -> Result<Expr> { Ok(max(when(is, col("run")).end()?)) };
    let runs = vec![last(is_founder())?.alias("founded"), last(is_founder().is_not_true())?.alias("joined")];
    let stays = col("joined").is_null().or(col("joined").lt(col("founded")));
    let founders = clusters.aggregate(columns(["id"]), runs)?;
    Ok(founders.filter(col("founded").is_not_null().and(stays))?.select(columns(["id"]))?)
}

/// Clusters (run, id, representative) of several outputs -> (doc: UInt64, removed_by: UInt64), the documents that do not represent their
/// latest cluster, which run `removed_by` wrote.
pub(crate) fn removed(clusters: DataFrame) -> Result<DataFrame> {
    let represents = when(col("representative"), col("run")).end()?;
    let runs = vec![max(col("run")).alias("removed_by"), max(represents).alias("represented")];
    let last = clusters.aggregate(columns(["id"]), runs)?;
    let goes = col("represented").is_null().or(col("represented").lt(col("removed_by")));
    Ok(last.filter(goes)?.select(vec![document_key(col("id")).alias("doc"), col("removed_by")])?)
}

/// [`removed`], the remaining documents (doc, since, ..) -> `doc` and `columns`. `since` is the run that read the document. Returns the
/// documents that this run or a later run removed.
pub(crate) fn removed_since(removed: DataFrame, documents: DataFrame, columns: &[&str]) -> Result<DataFrame> {
    let removed = removed.with_column_renamed("doc", "gone")?;
    let joined = removed.join(documents, JoinType::Inner, &["gone"], &["doc"], None)?;
    let columns: Vec<Expr> = std::iter::once("doc").chain(columns.iter().copied()).map(col).collect();
    Ok(joined.filter(col("removed_by").gt_eq(col("since")))?.select(columns)?)
}

/// Sets `before` to `place` in the `documents` (doc, before, ..) that are among the `others` (doc, ..).
pub(crate) fn with_place(documents: DataFrame, others: DataFrame, place: u64) -> Result<DataFrame> {
    let before = when(col("other").is_not_null(), lit(place)).otherwise(col(BEFORE))?;
    let mut columns = all_columns(&documents);
    columns.retain(|column| *column != ident(BEFORE));
    columns.push(before.alias(BEFORE));
    let others = others.select(renamed([("doc", "other")]))?;
    Ok(others.join(documents, JoinType::Right, &["other"], &["doc"], None)?.select(columns)?)
}

/// Documents (run, doc, id) of several outputs -> (before, run, id: Utf8). For two outputs, `id` is the smallest id that both contain and
/// no output between them contains. Outputs without such an id have no row.
pub(crate) fn shared_ids(documents: DataFrame) -> Result<DataFrame> {
    let order = vec![col("run").sort(true, false)];
    let before = lag(col("run"), Some(1), None).partition_by(columns(["doc"])).order_by(order).build()?;
    Ok(documents
        .window(vec![before.alias("before")])?
        .filter(col("before").is_not_null())?
        .aggregate(columns(["before", "run"]), vec![min(col("id")).alias("id")])?
        .sort(vec![col("run").sort(true, false), col("before").sort(true, false)])?
        .select(vec![col("before"), col("run"), utf8("id")])?)
}
