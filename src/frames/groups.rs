//! Groups of documents, by `source.group`, and the pairs between them. Documents without a group form one group, whose name is null.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, concat, substr};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, ident};
use datafusion::prelude::{DataFrame, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::{all_columns, columns, number, renamed};
use crate::error::Result;
use crate::job::{Compare, Source};
use crate::udf::expr_fn::document_key;

/// The group of a document as text, from the column `name` of the source, or null.
pub(crate) fn group(name: Option<&str>) -> Expr {
    let group = match name {
        Some(name) => cast(ident(Source::stored(name)), DataType::Utf8),
        None => lit(ScalarValue::Utf8(None)),
    };
    group.alias("group")
}

pub(crate) fn keys(documents: DataFrame) -> Result<DataFrame> {
    Ok(documents.select(vec![col("doc"), key(col("group"))])?)
}

pub(crate) fn key(group: Expr) -> Expr {
    coalesce(vec![document_key(group), lit(0_u64)]).alias("group_key")
}

/// Keeps the pairs (a, b, ..) whose groups are compared, and the rows without b. `keys` (doc, group_key) contains all documents.
pub(crate) fn compared(pairs: DataFrame, keys: DataFrame, compare: Compare) -> Result<DataFrame> {
    let columns = all_columns(&pairs);
    let end = |doc, group| keys.clone().select(renamed([("doc", doc), ("group_key", group)]));
    let marked = end("doc_a", "group_a")?.join(pairs, JoinType::Right, &["doc_a"], &["a"], None)?;
    let marked = end("doc_b", "group_b")?.join(marked, JoinType::Right, &["doc_b"], &["b"], None)?;
    let is_compared = match compare {
        Compare::All => lit(true),
        Compare::Within => col("group_a").eq(col("group_b")),
        Compare::Across => col("group_a").not_eq(col("group_b")),
    };
    Ok(marked.filter(col("b").is_null().or(is_compared))?.select(columns)?)
}

/// Adds `group_a` and `group_b` to pairs (id_a, id_b, reference_b, ..). The groups come from `documents` (id, reference, group, ..).
pub(crate) fn with_groups_of_pairs(pairs: DataFrame, documents: DataFrame) -> Result<DataFrame> {
    let all = [all_columns(&pairs), columns(["group_a", "group_b"])].concat();
    // In a pair with a reference document, b is the reference document.
    let a = documents.clone().filter(!col("reference"))?;
    let a = a.select(renamed([("id", "of_a"), ("group", "group_a")]))?;
    let b =
        documents.select(renamed([("id", "of_b"), ("reference", "is_reference"), ("group", "group_b")]))?;
    let pairs = a.join(pairs, JoinType::Right, &["of_a"], &["id_a"], None)?;
    let pairs = b.join(pairs, JoinType::Right, &["of_b", "is_reference"], &["id_b", "reference_b"], None)?;
    Ok(pairs.select(all)?)
}

/// Adds `groups`, the number of different groups in a cluster, to clusters (id, cluster_id, reference, ..), from `documents` (id,
/// reference, group, ..).
pub(crate) fn with_groups_of_clusters(clusters: DataFrame, documents: DataFrame) -> Result<DataFrame> {
    let all = [all_columns(&clusters), columns(["groups"])].concat();
    let documents = documents.select(vec![
        col("id").alias("of"),
        col("reference").alias("is_reference"),
        joinable(col("group"))?.alias("name"),
    ])?;
    let keys = (&["of", "is_reference"], &["id", "reference"]);
    let counted = documents
        .join(clusters.clone(), JoinType::Inner, keys.0, keys.1, None)?
        .select(vec![col("cluster_id").alias("counted"), col("name")])?
        .distinct()?
        .aggregate(columns(["counted"]), vec![count(lit(1)).alias("times")])?
        .select(vec![col("counted"), number(col("times")).alias("groups")])?;
    Ok(counted.join(clusters, JoinType::Right, &["counted"], &["cluster_id"], None)?.select(all)?)
}

/// The table `pairs` with its groups, all compared documents (id, reference, group) -> the columns of `schemas/group_pairs.toml`. A
/// reference document counts as compared if it is in a pair.
pub(crate) fn group_pairs(pairs: DataFrame, documents: DataFrame) -> Result<DataFrame> {
    let ends = pairs.select(vec![
        col("id_a"),
        lit(false).alias("reference_a"),
        joinable(col("group_a"))?.alias("name_a"),
        col("id_b"),
        col("reference_b"),
        joinable(col("group_b"))?.alias("name_b"),
    ])?;
    // Each pair gives two rows, one for each document.
    let seen_from = |one: &str, other: &str| {
        let end = |name: &str, end: &str, new: &str| col(format!("{name}_{end}")).alias(new);
        ends.clone().select(vec![
            end("id", one, "id"),
            end("reference", one, "reference"),
            end("name", one, "name"),
            end("id", other, "other_id"),
            end("reference", other, "other_reference"),
            end("name", other, "other"),
        ])
    };
    let both = seen_from("a", "b")?.union(seen_from("b", "a")?)?;
    let two_groups = || columns(["name", "other"]);
    let similar = both
        .clone()
        .select(columns(["id", "reference", "name", "other"]))?
        .distinct()?
        .aggregate(two_groups(), vec![count(lit(1)).alias("documents")])?;
    let paired = both.clone().aggregate(two_groups(), vec![count(lit(1)).alias("times")])?;
    let own = documents.filter(!col("reference"))?;
    let compared = own.select(vec![col("id"), col("reference"), joinable(col("group"))?.alias("name")])?;
    let reference =
        both.filter(col("reference"))?.select(columns(["id", "reference", "name"]))?.distinct()?;
    let sizes = compared.union(reference)?.aggregate(columns(["name"]), vec![count(lit(1)).alias("size")])?;
    let similar = |name, other, documents| {
        similar.clone().select(renamed([("name", name), ("other", other), ("documents", documents)]))
    };
    let size = |name, size| sizes.clone().select(renamed([("name", name), ("size", size)]));
    // A pair within a group was counted twice.
    let times = when(col("name").eq(col("other")), col("times") / lit(2_i64)).otherwise(col("times"))?;
    let is_last = |name: &str| col(name).eq(lit(NO_GROUP));
    let in_order = is_last("other").or(is_last("name").is_not_true().and(col("name").lt_eq(col("other"))));
    let of_a = similar("of_a", "with_b", "documents_a")?;
    let of_b = similar("of_b", "with_a", "documents_b")?;
    let counts = ["documents_a", "documents_b", "size_a", "size_b"].map(|name| number(col(name)).alias(name));
    let mut all = vec![
        original(col("name"))?.alias("group_a"),
        original(col("other"))?.alias("group_b"),
        number(times).alias("pairs"),
    ];
    all.extend(counts);
    Ok(paired
        .filter(in_order)?
        .join(of_a, JoinType::Inner, &["name", "other"], &["of_a", "with_b"], None)?
        .join(of_b, JoinType::Inner, &["name", "other"], &["with_a", "of_b"], None)?
        .join(size("sized_a", "size_a")?, JoinType::Inner, &["name"], &["sized_a"], None)?
        .join(size("sized_b", "size_b")?, JoinType::Inner, &["other"], &["sized_b"], None)?
        .select(all)?)
}

/// The name of a missing group in joins, since joins cannot compare null.
const NO_GROUP: &str = "";

/// The name of a group for joins. It starts with `=`, since the name of a group can be empty.
fn joinable(group: Expr) -> Result<Expr> {
    // `concat` treats null as an empty text.
    Ok(when(group.clone().is_not_null(), concat(vec![lit("="), group])).otherwise(lit(NO_GROUP))?)
}

fn original(name: Expr) -> Result<Expr> {
    Ok(when(name.clone().not_eq(lit(NO_GROUP)), substr(name, lit(2_i64))).end()?)
}
