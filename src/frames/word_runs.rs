//! word_runs: the runs of words that repeat inside documents.
//!
//! Every window of as many words as a passage must have holds a fingerprint. Only windows around a fingerprint that occurs twice
//! are hashed whole, and only those with a hash that occurs twice are repeated.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit};

use super::lists;
use super::repeats::PassageRows;
use super::spans::{HASH, SPAN, passage_id, sorted, with_first, with_order};
use crate::error::Result;
use crate::job::{Preference, Shingle};
use crate::udf::expr_fn::{fingerprints as winnowed, windows as cut_windows, word_runs};
use crate::udf::{REPEATED, RUN, WINDOW};

/// The rows of a list in the column `name`, one a row, with the column `doc`.
fn unnested<const N: usize>(frame: DataFrame, list: Expr, columns: [&str; N]) -> Result<DataFrame> {
    let rows = frame.select(vec![col("doc"), list.alias("element")])?.unnest_columns(&["element"])?;
    let columns = columns.map(|name| get_field(col("element"), name).alias(name));
    let columns: Vec<Expr> = std::iter::once(col("doc")).chain(columns).collect();
    Ok(rows.filter(col("element").is_not_null())?.select(columns)?)
}

/// (doc, text) -> (doc, fingerprint: UInt64), one row for each fingerprint of each text for windows of `length` words.
pub(crate) fn fingerprints(documents: DataFrame, length: usize, shingle: &Shingle) -> Result<DataFrame> {
    let fingerprint = winnowed(col("text"), length, shingle).alias("fingerprint");
    let all = documents.select(vec![col("doc"), fingerprint])?.unnest_columns(&["fingerprint"])?;
    Ok(all.filter(col("fingerprint").is_not_null())?)
}

/// The fingerprints that occur more than once: (doc, fingerprint) -> the same, each once for each document.
pub(crate) fn hits(fingerprints: PassageRows) -> Result<DataFrame> {
    let repeated = fingerprints.repeated(["fingerprint"])?;
    Ok(repeated.select(vec![col("doc"), col("fingerprint")])?.distinct()?)
}

/// (doc, text, ..), (doc, fingerprint) of [`hits`] -> (doc, hash_0, hash_1, at, char_start, of_reference: UInt64), one row for
/// each window of `length` words around a hit; `of_reference` is 1 if `of_reference` says that the texts are those of reference
/// documents.
pub(crate) fn windows(
    texts: DataFrame,
    hits: DataFrame,
    length: usize,
    shingle: &Shingle,
    of_reference: bool,
) -> Result<DataFrame> {
    let hits = lists(hits.select(vec![col("doc").alias("hit_doc"), col("fingerprint").alias("hits")])?)?;
    let texts = texts.select(vec![col("doc"), col("text")])?;
    let texts = hits.join(texts, JoinType::Inner, &["hit_doc"], &["doc"], None)?;
    let windows = unnested(texts, cut_windows(col("text"), col("hits"), length, shingle), WINDOW)?;
    Ok(windows.with_column("of_reference", lit(u64::from(of_reference)))?)
}

/// The rows (doc, hash_0, hash_1, at, char_start, ..) of [`windows`], the documents of [`super::spans::in_turn`] -> (doc, at,
/// is_first, occurrences, reference_documents, kept_doc, kept_char_start: UInt64) of the windows of new documents that are
/// repeated: `is_first` is 1 for the first occurrence, in the order of documents and then in the text, and `kept_doc` and
/// `kept_char_start` say where that is.
pub(crate) fn ranked(windows: PassageRows, documents: DataFrame, order: &[Preference]) -> Result<DataFrame> {
    let windows = with_order(windows.repeated(HASH)?, documents, &[], order)?;
    let columns = ["doc", "at", "occurrences", "reference_documents", "reference"];
    let of_first = [("doc", "kept_doc"), ("char_start", "kept_char_start")];
    let ranked = with_first(windows, &HASH, &sorted(order, "at"), &columns, &of_first)?;
    Ok(ranked.filter(!col("reference"))?.select(vec![
        col("doc"),
        col("at"),
        cast(col("is_first"), DataType::UInt64).alias("is_first"),
        col("occurrences"),
        col("reference_documents"),
        col("kept_doc"),
        col("kept_char_start"),
    ])?)
}

/// (doc, text, ..), the rows of [`ranked`], the documents of [`super::spans::in_turn`] -> the columns of `schemas/spans.toml`.
pub(crate) fn spans(
    texts: DataFrame,
    ranked: DataFrame,
    documents: DataFrame,
    (length, gap): (usize, usize),
    shingle: &Shingle,
) -> Result<DataFrame> {
    let fields = REPEATED.into_iter().flat_map(|name| [lit(name), col(name)]).collect();
    let ranked =
        ranked.select(vec![col("doc").alias("ranked_doc"), named_struct(fields).alias("windows")])?;
    let ranked = lists(ranked)?;
    let texts = texts.select(vec![col("doc"), col("text")])?;
    let texts = ranked.join(texts, JoinType::Inner, &["ranked_doc"], &["doc"], None)?;
    let runs = unnested(texts, word_runs(col("text"), col("windows"), length, gap, shingle), RUN)?;
    let kept = documents.clone().select(vec![
        col("doc").alias("of_kept"),
        col("id").alias("kept_id"),
        col("reference").alias("kept_reference"),
        col("group").alias("kept_group"),
    ])?;
    let columns = ["id", "source", "position"].map(col);
    let documents = documents
        .filter(!col("reference"))?
        .select([vec![col("doc").alias("of_doc")], columns.to_vec()].concat())?;
    let runs = documents.join(runs, JoinType::Inner, &["of_doc"], &["doc"], None)?;
    let runs = kept.join(runs, JoinType::Inner, &["of_kept"], &["kept_doc"], None)?;
    let kept = [col("kept").eq(lit(1_u64)).alias("kept")];
    let of_kept = ["kept_id", "kept_reference", "kept_char_start", "kept_group"].map(col);
    let columns = [SPAN.map(col).to_vec(), vec![passage_id()], kept.to_vec(), of_kept.to_vec()].concat();
    Ok(runs.select(columns)?)
}
