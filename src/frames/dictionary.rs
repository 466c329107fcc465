//! dictionary: a number for every distinct shingle of the collection, so that no two shingles have the same.
//!
//! The number is the shingle's rank, from 1, in the order of (XXH3-64 of its bytes, its bytes). So it does not depend
//! on the order of the documents, and is spread evenly over the collection, as the hash functions behind it need.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::array_agg;
use datafusion::functions_nested::expr_fn::{array_length, array_sort};
use datafusion::functions_window::expr_fn::{dense_rank, lag};
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::empty_text::empty;
use super::of_documents;
use crate::error::Result;
use crate::job::Shingle;
use crate::udf::expr_fn::{document_key, shingle_texts};

/// (source, position, id, text, doc, reason) -> (source, position, id, doc, reason, texts: `List<LargeUtf8>`): the
/// shingles of each document as texts.
pub(crate) fn cuts(documents: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    // A rejected text is not cut: it may be anything.
    let texts = shingle_texts(when(col("reason").is_null(), col("text")).end()?, shingle).alias("texts");
    let columns = of_documents(&documents, [col("text"), col("doc"), col("reason"), texts]);
    let cut = documents.select(columns)?;
    // Decided here, since below a document without shingles would get those of another document with its id.
    let none = coalesce(vec![array_length(col("texts")), lit(0_u64)]).eq(lit(0_u64));
    let too_short = when(none, lit("too_short")).end()?;
    let reason = coalesce(vec![col("reason"), empty("texts", shingle)?, too_short]).alias("reason");
    let columns = of_documents(&cut, [col("doc"), reason, col("texts")]);
    Ok(cut.select(columns)?)
}

/// (doc, reason, texts, ..) -> (doc: UInt64, number: UInt64, shingle: LargeUtf8), one row for each shingle of each
/// document. Each number has one row in which `shingle` is not null, and these rows are the dictionary.
///
/// One sort, which spills; nothing is joined or held.
pub(crate) fn numbers(cuts: DataFrame) -> Result<DataFrame> {
    let rows = cuts
        .filter(col("reason").is_null())?
        .select(vec![col("doc"), col("texts").alias("shingle")])?
        .unnest_columns(&["shingle"])?
        .filter(col("shingle").is_not_null())?
        // The same hash as that of an id: XXH3-64 of the bytes.
        .select(vec![document_key(col("shingle")).alias("hash"), col("shingle"), col("doc")])?;
    let ascending = |name: &str| col(name).sort(true, false);
    let by_shingle = vec![ascending("hash"), ascending("shingle"), ascending("doc")];
    // The finer order first: it is also the coarser one, so there is one sort.
    let rank = dense_rank().order_by(by_shingle[..2].to_vec()).build()?.alias("number");
    let before = lag(col("shingle"), Some(1), None).order_by(by_shingle).build()?.alias("before");
    let ranked = rows.window(vec![before])?.window(vec![rank])?;
    let first = col("before").is_null().or(col("before").not_eq(col("shingle")));
    Ok(ranked.select(vec![
        col("doc"),
        cast(col("number"), arrow::datatypes::DataType::UInt64).alias("number"),
        when(first, col("shingle")).end()?.alias("shingle"),
    ])?)
}

/// (source, position, id, doc, reason, ..), (doc, number, ..) -> (source, position, id, doc, reason, shingles:
/// `List<UInt64>`), sorted.
pub(crate) fn numbered(cuts: DataFrame, numbers: DataFrame) -> Result<DataFrame> {
    let sets = numbers
        .select(vec![col("doc").alias("numbered"), col("number")])?
        .aggregate(vec![col("numbered")], vec![array_agg(col("number")).alias("set")])?;
    let set = when(col("reason").is_null(), col("set")).end()?;
    let shingles = array_sort(set, lit("ASC"), lit("NULLS FIRST")).alias("shingles");
    let columns = of_documents(&cuts, [col("doc"), col("reason"), shingles]);
    Ok(cuts.join(sets, JoinType::Left, &["doc"], &["numbered"], None)?.select(columns)?)
}
