//! passages: the longest common passage of the texts of a pair.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::get_field;
use datafusion::functions::string::expr_fn::octet_length;
use datafusion::functions_aggregate::expr_fn::{max, sum};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, when};

use super::reference::second_source_key;
use crate::error::Result;
use crate::udf::expr_fn::{document_key, passages as common};

/// Bytes of all texts: (bytes, ..) -> one row (bytes: UInt64), null for no texts.
pub(crate) fn bytes(texts: DataFrame) -> Result<DataFrame> {
    Ok(texts.aggregate(vec![], vec![sum(col("bytes")).alias("bytes")])?)
}

/// Bytes of the longest text: (bytes, ..) -> one row (bytes: UInt64), null for no texts.
pub(crate) fn longest(texts: DataFrame) -> Result<DataFrame> {
    Ok(texts.aggregate(vec![], vec![max(col("bytes")).alias("bytes")])?)
}

/// (doc, text, ..) -> (doc: UInt64, text, bytes: UInt64): the input of [`passages`].
pub(crate) fn texts(documents: DataFrame) -> Result<DataFrame> {
    let bytes = cast(octet_length(col("text")), DataType::UInt64).alias("bytes");
    Ok(documents.select(vec![col("doc"), col("text"), bytes])?)
}

/// Pairs (id_a, id_b, reference_b, ..), (doc, text) of their documents -> the same pairs with columns `passage_a` and `passage_b`.
///
/// If the reference documents are those of a second source, their keys are theirs by
/// [`super::reference::second_source_key`].
pub(crate) fn passages(pairs: DataFrame, texts: DataFrame, is_second_source: bool) -> Result<DataFrame> {
    let mut columns: Vec<Expr> = pairs.schema().columns().into_iter().map(Expr::Column).collect();
    let key_b = document_key(col("id_b"));
    let key_b = match is_second_source {
        true => when(col("reference_b"), second_source_key(key_b.clone())).otherwise(key_b)?,
        false => key_b,
    };
    let keyed = pairs.with_column("key_a", document_key(col("id_a")))?.with_column("key_b", key_b)?;
    let of =
        |doc: &str, text: &str| texts.clone().select(vec![col("doc").alias(doc), col("text").alias(text)]);
    let with_a = of("doc_a", "text_a")?.join(keyed, JoinType::Right, &["doc_a"], &["key_a"], None)?;
    let both = of("doc_b", "text_b")?.join(with_a, JoinType::Right, &["doc_b"], &["key_b"], None)?;
    let found = both.with_column("common", common(col("text_a"), col("text_b")))?;
    columns.push(get_field(col("common"), "a").alias("passage_a"));
    columns.push(get_field(col("common"), "b").alias("passage_b"));
    Ok(found.select(columns)?)
}
