//! Documents from files or from a finished output, and the rejection of documents with repeated keys.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, ltrim};
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::functions_window::expr_fn::{first_value, row_number};
use datafusion::logical_expr::{Expr, ExprFunctionExt, ident};
use datafusion::prelude::{DataFrame, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::sketches::{bands, shingles};
use super::{columns, document_columns, renamed, text_and_cut, utf8};
use crate::error::Result;
use crate::job::{Lsh, Shingle, ShingleHash, Source};
use crate::schema::{self, SourceTypes};
use crate::udf::expr_fn::document_key;

/// (source, position, id, text, defect) -> (source, position, id, text, doc: UInt64, reason: Utf8). The carried columns of the source
/// follow. Later frames keep them up to the signatures. If the reader already splits texts into shingles, a column `cut` follows `text`.
///
/// `doc` is the key of the document in all later stages. `reason` is one of the reasons in `schemas/rejects.toml`, or null for a document
/// that can be compared.
///
/// # Errors
/// If a column is missing.
pub fn documents(read: DataFrame) -> Result<DataFrame> {
    let missing = when(col("id").is_null(), lit("missing_id"))
        .when(col("text").is_null(), lit("missing_text"))
        .when(ltrim(vec![col("text"), lit(" \t\r\n")]).eq(lit("")), lit("empty_text"))
        .end()?;
    let reason = coalesce(vec![col("defect"), missing]).alias("reason");
    let own = text_and_cut(&read).into_iter().chain([document_key(col("id")).alias("doc"), reason]);
    let columns = document_columns(&read, own);
    Ok(read.select(columns)?)
}

/// The columns of a table `documents` that [`reused`] expects. `origin` becomes the column `origin_number`.
pub(crate) fn reused_columns(types: &SourceTypes, keeps_shingles: bool, origin: Expr) -> Vec<Expr> {
    let mut all = columns(["source", "position"]);
    all.extend([origin.alias("origin_number"), col("id"), lit(ScalarValue::Utf8(None)).alias("reason")]);
    all.extend(columns(["doc", "shingle_count", "set_hash_0", "set_hash_1", "signature"]));
    all.extend(keeps_shingles.then(|| col("shingles")));
    let carried = types.columns.iter().enumerate();
    all.extend(carried.map(|(at, column)| ident(Source::stored(&column.name)).alias(schema::carried(at))));
    all
}

/// Documents of a finished output ([`reused_columns`]) and its rejects -> one row per document and per reject, with the columns of
/// [`bands`]. A reject has only a source, a position, an origin, an id and a reason. Its other columns are null.
pub(crate) fn reused(documents: DataFrame, rejects: DataFrame, lsh: &Lsh) -> Result<DataFrame> {
    let documents = bands(documents, lsh)?;
    let column = |field: &arrow::datatypes::FieldRef| -> Result<Expr> {
        Ok(match field.name().as_str() {
            name @ ("source" | "position" | "origin_number" | "id" | "reason") => col(name),
            name => lit(ScalarValue::try_from(field.data_type())?).alias(name),
        })
    };
    let fields = documents.schema().as_arrow().fields().iter();
    let rejects = rejects.select(fields.map(column).collect::<Result<Vec<_>>>()?)?;
    Ok(documents.union(rejects)?)
}

/// (source, position, id, text, doc, reason) -> (source, position, reason). There is one row for every document with the key of an earlier
/// document in the order of (source, position). Ignores documents that cannot be compared or are too short for `shingle`. The reason is
/// `duplicate_id`, or `key_collision` if two different ids have the same key.
///
/// # Errors
/// If a column is missing.
pub fn duplicates(documents: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    let whole = documents.filter(col("reason").is_null())?;
    // Only texts of documents with a repeated key are read and split into shingles.
    let repeated = repeated(whole.clone())?.select(renamed([("doc", "repeated")]))?;
    let repeated = repeated.join(whole, JoinType::RightSemi, &["repeated"], &["doc"], None)?;
    // The dictionary does not exist yet. Any hash function shows which documents have no shingles.
    let shingle = Shingle { hash: ShingleHash::Xxh3, ..shingle.clone() };
    let keyed = shingles(repeated, &shingle)?
        .filter(col("reason").is_null())?
        .select(columns(["source", "position", "id", "doc"]))?;
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

/// (source, position, doc, reason, ..), reference documents (doc, ..) -> (source, position, reason), one row for every document with the
/// key of a reference document. The reason is `reference_id`.
pub(crate) fn reference_duplicates(documents: DataFrame, reference: DataFrame) -> Result<DataFrame> {
    let whole = documents.filter(col("reason").is_null())?;
    let reference = reference.select(renamed([("doc", "reference")]))?;
    let found = reference.join(whole, JoinType::RightSemi, &["reference"], &["doc"], None)?;
    Ok(found.select(vec![col("source"), col("position"), lit("reference_id").alias("reason")])?)
}

/// Returns the rows of both frames (source, position, reason). The row in `first` takes precedence for a document in both frames.
pub(crate) fn either_duplicates(first: DataFrame, second: DataFrame) -> Result<DataFrame> {
    let named = renamed([("source", "first_source"), ("position", "first_position")]);
    let (left, right) = (&["first_source", "first_position"], &["source", "position"]);
    let others = first.clone().select(named)?.join(second, JoinType::RightAnti, left, right, None)?;
    Ok(first.union(others)?)
}

/// Sets the reason of the `documents` in `duplicates` (source, position, reason).
pub(crate) fn reject(documents: DataFrame, duplicates: DataFrame) -> Result<DataFrame> {
    let duplicates = duplicates.select(renamed([
        ("source", "duplicate_source"),
        ("position", "duplicate_position"),
        ("reason", "duplicate_reason"),
    ]))?;
    let reason = coalesce(columns(["reason", "duplicate_reason"])).alias("reason");
    let own = text_and_cut(&documents).into_iter().chain([col("doc"), reason]);
    let columns = document_columns(&documents, own);
    let (left, right) = (&["duplicate_source", "duplicate_position"], &["source", "position"]);
    Ok(duplicates.join(documents, JoinType::Right, left, right, None)?.select(columns)?)
}

/// (doc, ..) -> (doc: UInt64), the keys that occur in more than one row.
pub(crate) fn repeated(keys: DataFrame) -> Result<DataFrame> {
    Ok(keys
        .select(columns(["doc"]))?
        .aggregate(columns(["doc"]), vec![count(lit(1)).alias("times")])?
        .filter(col("times").gt(lit(1)))?
        .select(columns(["doc"]))?)
}

/// (id, doc, ..) -> (least: Utf8, most: Utf8), the smallest and the largest id with each of the `keys`, sorted by `least`.
pub(crate) fn ids_of_keys(documents: DataFrame, keys: &[u64]) -> Result<DataFrame> {
    let keys = keys.iter().map(|&key| lit(key)).collect();
    Ok(documents
        .select(columns(["id", "doc"]))?
        .filter(col("doc").in_list(keys, false))?
        .aggregate(columns(["doc"]), vec![min(col("id")).alias("least"), max(col("id")).alias("most")])?
        .sort(vec![col("least").sort(true, false)])?
        .select(vec![utf8("least"), utf8("most")])?)
}
