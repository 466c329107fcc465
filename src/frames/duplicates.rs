//! duplicates: documents whose key an earlier document has.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::functions_window::expr_fn::{first_value, row_number};
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::shingles::shingles;
use super::{of_documents, text_and_cut};
use crate::error::Result;
use crate::job::{Shingle, ShingleHash};

/// (source, position, id, text, doc, reason) -> (source, position, reason) of every document after the first with its
/// key, in order of (source, position). Only documents that can be compared count: if the first one is too short for
/// `shingle`, the second counts as the first.
///
/// The reason is `duplicate_id`, or `key_collision` if two different ids have one key.
///
/// # Errors
/// When the frame has other columns.
pub fn duplicates(documents: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    let whole = documents.filter(col("reason").is_null())?;
    // The texts are left out, and only documents whose keys are repeated are cut.
    let repeated = whole
        .clone()
        .select(vec![col("doc")])?
        .aggregate(vec![col("doc")], vec![count(lit(1)).alias("times")])?
        .filter(col("times").gt(lit(1)))?
        .select(vec![col("doc").alias("repeated")])?;
    let repeated = repeated.join(whole, JoinType::RightSemi, &["repeated"], &["doc"], None)?;
    // Any hash has the same documents without shingles; a dictionary would have to be made first.
    let shingle = Shingle { hash: ShingleHash::Xxh3, ..shingle.clone() };
    let keyed = shingles(repeated, &shingle)?.filter(col("reason").is_null())?.select(vec![
        col("source"),
        col("position"),
        col("id"),
        col("doc"),
    ])?;
    let order = vec![col("source").sort(true, false), col("position").sort(true, false)];
    let ranked = keyed
        .window(vec![
            row_number().partition_by(vec![col("doc")]).order_by(order.clone()).build()?.alias("rank"),
            first_value(col("id")).partition_by(vec![col("doc")]).order_by(order).build()?.alias("first_id"),
        ])?
        .filter(col("rank").gt(lit(1)))?;
    let reason = when(col("id").eq(col("first_id")), lit("duplicate_id")).otherwise(lit("key_collision"))?;
    Ok(ranked.select(vec![col("source"), col("position"), reason.alias("reason")])?)
}

/// (source, position, doc, reason, ..), (doc, ..) of reference documents -> (source, position, reason) of the documents
/// with the key of a reference document; the reason is `reference_id`.
pub(crate) fn of_reference(documents: DataFrame, reference: DataFrame) -> Result<DataFrame> {
    let whole = documents.filter(col("reason").is_null())?;
    let reference = reference.select(vec![col("doc").alias("reference")])?;
    let found = reference.join(whole, JoinType::RightSemi, &["reference"], &["doc"], None)?;
    Ok(found.select(vec![col("source"), col("position"), lit("reference_id").alias("reason")])?)
}

/// The documents with the ids of reference documents, and of the others those whose key came before: both as (source,
/// position, reason).
pub(crate) fn both(of_reference: DataFrame, duplicates: DataFrame) -> Result<DataFrame> {
    let reference = of_reference
        .clone()
        .select(vec![col("source").alias("reference_source"), col("position").alias("reference_position")])?;
    let (left, right) = (&["reference_source", "reference_position"], &["source", "position"]);
    let duplicates = reference.join(duplicates, JoinType::RightAnti, left, right, None)?;
    Ok(of_reference.union(duplicates)?)
}

/// Sets the reason of each of `documents` that `duplicates` names.
///
/// # Errors
/// When the frames have other columns than those of [`super::documents`] and [`duplicates`].
pub(crate) fn reject(documents: DataFrame, duplicates: DataFrame) -> Result<DataFrame> {
    let duplicates = duplicates.select(vec![
        col("source").alias("duplicate_source"),
        col("position").alias("duplicate_position"),
        col("reason").alias("duplicate_reason"),
    ])?;
    let reason = coalesce(vec![col("reason"), col("duplicate_reason")]).alias("reason");
    let columns = of_documents(&documents, text_and_cut(&documents).into_iter().chain([col("doc"), reason]));
    let (left, right) = (&["duplicate_source", "duplicate_position"], &["source", "position"]);
    Ok(duplicates.join(documents, JoinType::Right, left, right, None)?.select(columns)?)
}

/// The keys that several documents have: (doc, ..) -> (doc: UInt64).
pub(crate) fn repeated(keys: DataFrame) -> Result<DataFrame> {
    Ok(keys
        .aggregate(vec![col("doc")], vec![count(lit(1)).alias("times")])?
        .filter(col("times").gt(lit(1)))?
        .select(vec![col("doc")])?)
}

/// The least and the greatest id of each of these keys: (id, doc, ..) -> (least: Utf8, most: Utf8), in order.
pub(crate) fn named(documents: DataFrame, keys: &[u64]) -> Result<DataFrame> {
    let keys = keys.iter().map(|&key| lit(key)).collect();
    let text = |column: &str| cast(col(column), DataType::Utf8).alias(column);
    Ok(documents
        .select(vec![col("id"), col("doc")])?
        .filter(col("doc").in_list(keys, false))?
        .aggregate(vec![col("doc")], vec![min(col("id")).alias("least"), max(col("id")).alias("most")])?
        .sort(vec![col("least").sort(true, false)])?
        .select(vec![text("least"), text("most")])?)
}
