//! spans: the passages that repeat inside documents, and the one of each that stays.
//!
//! They have nothing to do with [`super::passages`], which finds what the two documents of a pair have in common.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::functions::string::expr_fn::{concat, to_hex};
use datafusion::functions::unicode::expr_fn::lpad;
use datafusion::functions_aggregate::expr_fn::{count, max};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, SortExpr, ident};
use datafusion::prelude::{DataFrame, cast, col, lit};
use datafusion::scalar::ScalarValue;

use super::by_group;
use super::keep::{self, BEFORE};
use super::lists;
use super::reference;
use super::repeats::PassageRows;
use crate::error::Result;
use crate::job::{Preference, Shingle, TextUnit};
use crate::operator::first_of_each::{ColumnOrder, FirstOfEach};
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::{text_sample, text_without, units as cut_units};
use crate::udf::{CUT_SPAN, UNIT};

/// The most characters of a sample.
const SAMPLE: usize = 200;

/// The columns of the hash of a passage or window.
pub(super) const HASH: [&str; 2] = ["hash_0", "hash_1"];

/// The columns of spans that are not about the passage that stays.
pub(super) const SPAN: [&str; 10] = [
    "id",
    "source",
    "position",
    "char_start",
    "char_end",
    "byte_start",
    "byte_end",
    "words",
    "occurrences",
    "reference_documents",
];

/// The reasons that keep a document from being compared and not from being searched: it has an id and a text.
const SEARCHED: [&str; 3] = ["too_short", "too_long", "only_template"];

/// Rejects (source, position, doc, reason, origin), (doc) of the documents that are compared -> (doc, source, position, origin) of
/// the rejects that are searched. Of several with one id, one is searched: an own one, or that of the last output.
pub(crate) fn uncompared(rejects: DataFrame, compared: DataFrame) -> Result<DataFrame> {
    let reasons = SEARCHED.map(lit).to_vec();
    let rejects = reference::without(rejects.filter(col("reason").in_list(reasons, false))?, compared)?;
    let order = vec![
        col("origin").sort(false, true),
        col("source").sort(true, false),
        col("position").sort(true, false),
    ];
    let nth = row_number().partition_by(vec![col("doc")]).order_by(order).build()?.alias("nth");
    let first = rejects.window(vec![nth])?.filter(col("nth").eq(lit(1_u64)))?;
    Ok(first.select(["doc", "source", "position", "origin"].map(col).to_vec())?)
}

/// (source, position, id, text, doc, reason, ..), rejects (source, position, ..), those of them that are searched -> (doc, text) of
/// the documents that are searched.
pub(crate) fn searched(documents: DataFrame, rejects: DataFrame, among: DataFrame) -> Result<DataFrame> {
    let among = among.select(vec![col("source").alias("of"), col("position").alias("at")])?;
    let rejects = among.join(rejects, JoinType::RightAnti, &["of", "at"], &["source", "position"], None)?;
    let rejects = rejects
        .select(vec![col("source").alias("rejected_source"), col("position").alias("rejected_position")])?;
    let documents = documents.filter(col("reason").is_null())?;
    let documents = documents.select(["source", "position", "doc", "text"].map(col).to_vec())?;
    let (left, right) = (&["rejected_source", "rejected_position"], &["source", "position"]);
    Ok(rejects
        .join(documents, JoinType::RightAnti, left, right, None)?
        .select(vec![col("doc"), col("text")])?)
}

/// (doc, text, ..), (doc, byte_start, byte_end: UInt64) -> the same texts without these bytes.
pub(crate) fn without_cuts(texts: DataFrame, cuts: DataFrame) -> Result<DataFrame> {
    let fields = CUT_SPAN.into_iter().flat_map(|name| [lit(name), col(name)]).collect();
    let cuts = cuts.select(vec![col("doc").alias("cut_doc"), named_struct(fields).alias("cuts")])?;
    let columns = texts.schema().columns().into_iter().map(|column| match column.name.as_str() {
        "text" => text_without(col("text"), col("cuts")).alias("text"),
        name => ident(name),
    });
    let columns: Vec<Expr> = columns.collect();
    Ok(lists(cuts)?.join(texts, JoinType::Right, &["cut_doc"], &["doc"], None)?.select(columns)?)
}

/// (doc, text) -> (doc, hash_0, hash_1, char_start, char_end, byte_start, byte_end, words: UInt64), one row for each unit of each
/// text that has enough words.
pub(crate) fn units(
    documents: DataFrame,
    (unit, min_words): (TextUnit, usize),
    shingle: &Shingle,
) -> Result<DataFrame> {
    let unit = cut_units(col("text"), unit, min_words, shingle).alias("unit");
    let units = documents.select(vec![col("doc"), unit])?.unnest_columns(&["unit"])?;
    let columns = UNIT.map(|name| get_field(col("unit"), name).alias(name));
    Ok(units
        .filter(col("unit").is_not_null())?
        .select(std::iter::once(col("doc")).chain(columns).collect::<Vec<_>>())?)
}

/// Documents (id, ..) and clusters (id, representative, reference, ..), (id, reference, ..) of documents that stay all the same,
/// reference documents with the columns of documents and `before`, and the `before` of new ones -> all documents with the columns
/// `reference: Boolean` and `turn: UInt64`, by which they are ordered before anything else: reference documents that outputs keep
/// or that are of a second source, new documents, new documents that another one represents and that do not stay, reference
/// documents that outputs remove. Documents that are not compared come behind those that are kept: see [`turns`].
pub(crate) fn in_turn(
    documents: DataFrame,
    clusters: DataFrame,
    spared: Option<DataFrame>,
    reference: Option<(DataFrame, Expr)>,
) -> Result<DataFrame> {
    let columns = documents.schema().columns().into_iter().map(|column| ident(column.name));
    let columns: Vec<Expr> = columns.collect();
    let is_new = || !col("reference");
    let mut gone =
        clusters.filter(is_new().and(!col("representative")))?.select(vec![col("id").alias("gone_id")])?;
    if let Some(spared) = spared {
        let spared = spared.filter(is_new())?.select(vec![col("id").alias("spared_id")])?;
        gone = spared.join(gone, JoinType::RightAnti, &["spared_id"], &["gone_id"], None)?;
    }
    let goes = cast(col("gone_id").is_not_null(), DataType::UInt64) * lit(2_u64);
    let (reference, of_new) =
        reference.map_or((None, lit(0_u64)), |(reference, of_new)| (Some(reference), of_new));
    let own = vec![lit(false).alias("reference"), (turns(of_new) + goes).alias("turn")];
    let joined = gone.join(documents, JoinType::Right, &["gone_id"], &["id"], None)?;
    let new = joined.select([columns.clone(), own].concat())?;
    let Some(reference) = reference else { return Ok(new) };
    let of_reference = vec![lit(true).alias("reference"), turns(col(BEFORE)).alias("turn")];
    Ok(new.union(reference.select([columns, of_reference].concat())?)?)
}

/// The turn of documents with the place `before`. The next two are those of documents that are not compared, and of those that go.
pub(crate) fn turns(before: Expr) -> Expr {
    before * lit(3_u64)
}

/// The order of documents with the columns of [`with_order`], and then that of `place` in a document.
pub(super) fn sorted(order: &[Preference], place: &str) -> Vec<SortExpr> {
    let mut sorted = vec![col("turn").sort(true, false)];
    sorted.extend(keep::sorted(order));
    sorted.push(col(place).sort(true, false));
    sorted
}

/// (doc, ..) with the columns of `documents`, those of [`in_turn`], that order the documents, and those `of` them.
pub(super) fn with_order(
    rows: DataFrame,
    documents: DataFrame,
    of: &[&str],
    order: &[Preference],
) -> Result<DataFrame> {
    let names = keep::names(order);
    let mut columns = vec![col("doc").alias("of_doc"), col("shingle_count"), col("id"), col("turn")];
    columns.extend(names.iter().map(String::as_str).chain(of.iter().copied()).map(col));
    let documents = documents.select(columns)?;
    Ok(documents.join(rows, JoinType::Inner, &["of_doc"], &["doc"], None)?)
}

/// Rows with a `key` and what they are `sorted` by -> the key, their `columns`, `is_first: Boolean` for the first row of each
/// key, and the columns `of_first` of that row by other names.
pub(super) fn with_first(
    rows: DataFrame,
    key: &[&str],
    sorted: &[SortExpr],
    columns: &[&str],
    of_first: &[(&str, &str)],
) -> Result<DataFrame> {
    let order = sorted.iter().map(|by| ColumnOrder { descending: !by.asc, nulls_first: by.nulls_first });
    let first = FirstOfEach { key: key.len(), order: order.collect(), of_first: of_first.len() };
    let named = |name: &str, alias: &str| col(name).alias(alias);
    let mut all: Vec<Expr> = key.iter().map(|name| named(name, name)).collect();
    all.extend(sorted.iter().enumerate().map(|(at, by)| by.expr.clone().alias(format!("order_{at}"))));
    all.extend(columns.iter().map(|name| named(name, name)));
    all.extend(of_first.iter().map(|(name, alias)| named(name, alias)));
    apply(Operator::FirstOfEach(first), vec![rows.select(all)?])
}

/// The 128-bit hash of the columns `hash_0` and `hash_1` as 32 hexadecimal digits.
pub(super) fn passage_id() -> Expr {
    let half = |name: &str| lpad(vec![to_hex(col(name)), lit(16_i64), lit("0")]);
    concat(vec![half("hash_0"), half("hash_1")]).alias("passage_id")
}

/// The rows of [`units`], the documents of [`in_turn`] -> the columns of `schemas/spans.toml`.
///
/// Of each passage, the first occurrence in the first document by `turn` and then by `order` is kept.
pub(crate) fn spans(units: PassageRows, documents: DataFrame, order: &[Preference]) -> Result<DataFrame> {
    let units = units.repeated(HASH)?;
    let units = with_order(units, documents, &["source", "position", "group"], order)?;
    let of_first = [
        ("id", "kept_id"),
        ("reference", "kept_reference"),
        ("char_start", "kept_char_start"),
        ("group", "kept_group"),
    ];
    let ranked = with_first(
        units,
        &HASH,
        &sorted(order, "char_start"),
        &[&SPAN[..], &["reference"]].concat(),
        &of_first,
    )?;
    let own = vec![passage_id(), col("is_first").alias("kept")];
    let columns = [SPAN.map(col).to_vec(), own, of_first.map(|(_, name)| col(name)).to_vec()].concat();
    Ok(ranked.filter(!col("reference"))?.select(columns)?)
}

/// The columns of `schemas/spans.toml` -> (passage_id, source, position, byte_start, byte_end) of one span of each passage: the
/// one that is kept, or else the first one of the smallest id.
pub(crate) fn samples(spans: DataFrame) -> Result<DataFrame> {
    let sorted = vec![
        col("kept").sort(false, false),
        col("id").sort(true, false),
        col("char_start").sort(true, false),
    ];
    let place = ["source", "position", "byte_start", "byte_end"];
    let first = with_first(spans, &["passage_id"], &sorted, &place, &[])?.filter(col("is_first"))?;
    Ok(first.select(std::iter::once("passage_id").chain(place).map(col).collect::<Vec<_>>())?)
}

/// [`samples`] -> (source, position, origin) of their documents.
pub(crate) fn positions(samples: DataFrame) -> Result<DataFrame> {
    let places = samples.select(vec![col("source"), col("position")])?.distinct()?;
    Ok(places.with_column("origin", lit(ScalarValue::UInt64(None)))?)
}

/// The columns of `schemas/spans.toml`, (source, position, text) of the documents of [`samples`], (id, group) of documents if
/// they have groups -> the columns of `schemas/passages.toml`.
pub(crate) fn passages(spans: DataFrame, texts: DataFrame, groups: Option<DataFrame>) -> Result<DataFrame> {
    let most =
        || ["words", "occurrences", "reference_documents"].map(|name| max(col(name)).alias(name)).to_vec();
    let by_document = spans.clone().aggregate(vec![col("passage_id"), col("id")], most())?;
    let documents = vec![count(lit(1)).alias("documents")];
    let counts = by_document.clone().aggregate(vec![col("passage_id")], [most(), documents].concat())?;
    let texts = texts.select(vec![
        col("source").alias("text_source"),
        col("position").alias("text_position"),
        col("text"),
    ])?;
    let (left, right) = (&["source", "position"], &["text_source", "text_position"]);
    let samples = samples(spans)?.join(texts, JoinType::Inner, left, right, None)?.select(vec![
        col("passage_id").alias("sampled"),
        text_sample(col("text"), ["byte_start", "byte_end"].map(col), SAMPLE).alias("sample"),
    ])?;
    let counts = samples.join(counts, JoinType::Inner, &["sampled"], &["passage_id"], None)?;
    let Some(groups) = groups else { return Ok(counts) };
    let groups = groups.select(vec![col("id").alias("of_id"), by_group::key(col("group"))])?;
    let groups = groups
        .join(by_document, JoinType::Inner, &["of_id"], &["id"], None)?
        .select(vec![col("passage_id").alias("grouped"), col("group_key")])?
        .distinct()?
        .aggregate(vec![col("grouped")], vec![count(lit(1)).alias("groups")])?;
    Ok(groups.join(counts, JoinType::Inner, &["grouped"], &["passage_id"], None)?)
}
