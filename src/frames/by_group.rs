//! by_group: the groups of documents, by `source.group`, and their pairs.
//!
//! Documents without a group are together a group of their own, whose name is null.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, concat, substr};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, ident};
use datafusion::prelude::{DataFrame, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use crate::error::Result;
use crate::job::{Compare, Source};
use crate::udf::expr_fn::document_key;

/// The group of a document as text, from the column `name` of the source; null without such a column.
pub(crate) fn group(name: Option<&str>) -> Expr {
    let group = match name {
        Some(name) => cast(ident(Source::stored(name)), DataType::Utf8),
        None => lit(ScalarValue::Utf8(None)),
    };
    group.alias("group")
}

/// (doc, group, ..) -> (doc, group_key: UInt64): a number for each group.
pub(crate) fn keys(documents: DataFrame) -> Result<DataFrame> {
    Ok(documents.select(vec![col("doc"), key(col("group"))])?)
}

/// The number of a group.
pub(crate) fn key(group: Expr) -> Expr {
    coalesce(vec![document_key(group), lit(0_u64)]).alias("group_key")
}

/// The rows of (a, b, ..) whose documents may be compared by their groups, and the rows without b. `keys` (doc,
/// group_key) are those of all documents.
pub(crate) fn compared(pairs: DataFrame, keys: DataFrame, compare: Compare) -> Result<DataFrame> {
    let columns: Vec<Expr> = pairs.schema().columns().into_iter().map(Expr::Column).collect();
    let of = |end: &str| {
        let (doc, key) = (format!("doc_{end}"), format!("group_{end}"));
        keys.clone().select(vec![col("doc").alias(doc), col("group_key").alias(key)])
    };
    let marked = of("a")?.join(pairs, JoinType::Right, &["doc_a"], &["a"], None)?;
    let marked = of("b")?.join(marked, JoinType::Right, &["doc_b"], &["b"], None)?;
    let wanted = match compare {
        Compare::All => lit(true),
        Compare::Within => col("group_a").eq(col("group_b")),
        Compare::Across => col("group_a").not_eq(col("group_b")),
    };
    Ok(marked.filter(col("b").is_null().or(wanted))?.select(columns)?)
}

/// Pairs (id_a, id_b, reference_b, ..), (id, reference, group, ..) of their documents -> the same pairs with `group_a` and
/// `group_b`.
pub(crate) fn of_pairs(pairs: DataFrame, documents: DataFrame) -> Result<DataFrame> {
    let mut columns: Vec<Expr> = pairs.schema().columns().into_iter().map(Expr::Column).collect();
    // The reference document of a pair is b.
    let a = documents.clone().filter(!col("reference"))?;
    let a = a.select(vec![col("id").alias("of_a"), col("group").alias("group_a")])?;
    let b = documents.select(vec![
        col("id").alias("of_b"),
        col("reference").alias("is_reference"),
        col("group").alias("group_b"),
    ])?;
    let pairs = a.join(pairs, JoinType::Right, &["of_a"], &["id_a"], None)?;
    let pairs = b.join(pairs, JoinType::Right, &["of_b", "is_reference"], &["id_b", "reference_b"], None)?;
    columns.extend([col("group_a"), col("group_b")]);
    Ok(pairs.select(columns)?)
}

/// Clusters (id, cluster_id, reference, ..), (id, reference, group, ..) of their documents -> the same with `groups`:
/// the number of different groups of the cluster's documents.
pub(crate) fn of_clusters(clusters: DataFrame, documents: DataFrame) -> Result<DataFrame> {
    let mut columns: Vec<Expr> = clusters.schema().columns().into_iter().map(Expr::Column).collect();
    let documents = documents.select(vec![
        col("id").alias("of"),
        col("reference").alias("is_reference"),
        named(col("group"))?,
    ])?;
    let grouped = documents.join(
        clusters.clone(),
        JoinType::Inner,
        &["of", "is_reference"],
        &["id", "reference"],
        None,
    )?;
    let counted = grouped
        .select(vec![col("cluster_id").alias("counted"), col("name")])?
        .distinct()?
        .aggregate(vec![col("counted")], vec![count(lit(1)).alias("times")])?
        .select(vec![col("counted"), cast(col("times"), DataType::UInt64).alias("groups")])?;
    columns.push(col("groups"));
    Ok(counted.join(clusters, JoinType::Right, &["counted"], &["cluster_id"], None)?.select(columns)?)
}

/// The table pairs with its groups, and all documents (id, reference, group) that were compared -> the columns of
/// `schemas/group_pairs.toml`. Reference documents count as compared if they are in a pair.
pub(crate) fn group_pairs(pairs: DataFrame, documents: DataFrame) -> Result<DataFrame> {
    let turned = |ends: [Expr; 6]| {
        let names = ["id", "reference", "name", "other_id", "other_reference", "other"];
        ends.into_iter().zip(names).map(|(end, name)| end.alias(name)).collect::<Vec<_>>()
    };
    let ends = pairs.select(vec![
        col("id_a"),
        lit(false).alias("reference_a"),
        named(col("group_a"))?.alias("name_a"),
        col("id_b"),
        col("reference_b"),
        named(col("group_b"))?.alias("name_b"),
    ])?;
    let forth = ["id_a", "reference_a", "name_a", "id_b", "reference_b", "name_b"].map(col);
    let back = ["id_b", "reference_b", "name_b", "id_a", "reference_a", "name_a"].map(col);
    // Each pair from both ends.
    let both = ends.clone().select(turned(forth))?.union(ends.select(turned(back))?)?;
    let of_ends = || vec![col("name"), col("other")];
    let similar = both
        .clone()
        .select(["id", "reference", "name", "other"].map(col).to_vec())?
        .distinct()?
        .aggregate(of_ends(), vec![count(lit(1)).alias("documents")])?;
    let paired = both.clone().aggregate(of_ends(), vec![count(lit(1)).alias("times")])?;
    let own = documents.filter(!col("reference"))?;
    let compared = own.select(vec![col("id"), col("reference"), named(col("group"))?])?;
    let reference =
        both.filter(col("reference"))?.select(["id", "reference", "name"].map(col).to_vec())?.distinct()?;
    let sizes = compared.union(reference)?.aggregate(vec![col("name")], vec![count(lit(1)).alias("size")])?;
    let of = |end: &str, other: &str| {
        similar.clone().select(vec![
            col("name").alias(format!("of_{end}")),
            col("other").alias(format!("with_{other}")),
            col("documents").alias(format!("documents_{end}")),
        ])
    };
    let size = |end: &str| {
        sizes
            .clone()
            .select(vec![col("name").alias(format!("sized_{end}")), col("size").alias(format!("size_{end}"))])
    };
    let number = |expr: Expr, name: &str| cast(expr, DataType::UInt64).alias(name);
    // A pair within a group was counted from both ends.
    let times = when(col("name").eq(col("other")), col("times") / lit(2_i64)).otherwise(col("times"))?;
    let is_last = |name: &str| col(name).eq(lit(NONE));
    let in_order = is_last("other").or(is_last("name").is_not_true().and(col("name").lt_eq(col("other"))));
    Ok(paired
        .filter(in_order)?
        .join(of("a", "b")?, JoinType::Inner, &["name", "other"], &["of_a", "with_b"], None)?
        .join(of("b", "a")?, JoinType::Inner, &["name", "other"], &["with_a", "of_b"], None)?
        .join(size("a")?, JoinType::Inner, &["name"], &["sized_a"], None)?
        .join(size("b")?, JoinType::Inner, &["other"], &["sized_b"], None)?
        .select(vec![
            unnamed(col("name"))?.alias("group_a"),
            unnamed(col("other"))?.alias("group_b"),
            number(times, "pairs"),
            number(col("documents_a"), "documents_a"),
            number(col("documents_b"), "documents_b"),
            number(col("size_a"), "size_a"),
            number(col("size_b"), "size_b"),
        ])?)
}

/// The name of no group in joins, which cannot compare null.
const NONE: &str = "";

/// The name of a group in joins. The name of a group may be the empty text, so all names begin with a sign.
fn named(group: Expr) -> Result<Expr> {
    // For `concat`, null is an empty text.
    let name = when(group.clone().is_not_null(), concat(vec![lit("="), group])).otherwise(lit(NONE))?;
    Ok(name.alias("name"))
}

/// A group by its name in joins.
fn unnamed(name: Expr) -> Result<Expr> {
    Ok(when(name.clone().not_eq(lit(NONE)), substr(name, lit(2_i64))).end()?)
}
