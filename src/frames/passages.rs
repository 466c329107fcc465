//! Finds repeated passages inside documents, and the occurrence that is kept. Passages are lines, sentences, paragraphs, or sequences of
//! words.
//!
//! For sequences of words, a window has as many words as the shortest allowed passage, and contains at least one fingerprint. Only
//! windows around a repeated fingerprint are hashed as a whole, and only windows with a repeated hash become part of a passage.
//!
//! See [`super::pairs`] for the longest common passage of a pair.

use datafusion::common::JoinType;
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::functions::string::expr_fn::{concat, to_hex};
use datafusion::functions::unicode::expr_fn::lpad;
use datafusion::functions_aggregate::expr_fn::{count, max, sum};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, SortExpr, ident};
use datafusion::prelude::{DataFrame, col, lit, when};

use super::keep::{self, BEFORE};
use super::{all_columns, columns, groups, lists, no_number, number, reference, renamed};
use crate::error::Result;
use crate::job::{NewPairs, Preference, Shingle, TextUnit};
use crate::operator::filters::MayRepeat;
use crate::operator::keyed_rows::{ColumnOrder, FirstOfEach};
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::{
    fingerprints as text_fingerprints, placed_runs, text_sample, text_without, units as text_units,
    windows as text_windows, word_runs,
};
use crate::udf::{CUT_SPAN, PLACED_RUN, REPEATED, RUN, UNIT, WINDOW};

const SAMPLE: usize = 200;

const HASH: [&str; 2] = ["hash_0", "hash_1"];

/// The columns of a span, except for those that describe the kept occurrence.
const SPAN: [&str; 10] = [
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

/// The reasons to reject a document that still has an id and a text. It is not compared, but searched for passages.
const SEARCHED: [&str; 3] = ["too_short", "too_long", "only_template"];

/// Rejects (source, position, doc, reason, origin), compared documents (doc) -> (doc, source, position, origin), the rejects in which
/// passages are searched. Of several rejects with the same id, only the new one is returned, or else the one of the last output.
pub(crate) fn uncompared(rejects: DataFrame, compared: DataFrame) -> Result<DataFrame> {
    let reasons = SEARCHED.map(lit).to_vec();
    let rejects = reference::without(rejects.filter(col("reason").in_list(reasons, false))?, compared)?;
    let order = vec![
        col("origin").sort(false, true),
        col("source").sort(true, false),
        col("position").sort(true, false),
    ];
    let nth = row_number().partition_by(columns(["doc"])).order_by(order).build()?.alias("nth");
    let first = rejects.window(vec![nth])?.filter(col("nth").eq(lit(1_u64)))?;
    Ok(first.select(columns(["doc", "source", "position", "origin"]))?)
}

/// Documents (source, position, text, doc, reason, ..) -> (doc, text). Drops the `rejects` (source, position, ..), but keeps the rejects
/// in `among`, in which passages are searched.
pub(crate) fn searched(documents: DataFrame, rejects: DataFrame, among: DataFrame) -> Result<DataFrame> {
    let documents = documents.filter(col("reason").is_null())?;
    let documents = documents.select(columns(["source", "position", "doc", "text"]))?;
    Ok(without_rows(documents, without_rows(rejects, among)?)?.select(columns(["doc", "text"]))?)
}

/// Drops the `rows` (source, position, ..) that are also in `others` (source, position, ..).
pub(crate) fn without_rows(rows: DataFrame, others: DataFrame) -> Result<DataFrame> {
    let others = others.select(renamed([("source", "other_source"), ("position", "other_position")]))?;
    let (left, right) = (&["other_source", "other_position"], &["source", "position"]);
    Ok(others.join(rows, JoinType::RightAnti, left, right, None)?)
}

/// Removes the bytes in `cuts` (doc, byte_start, byte_end: UInt64) from the texts (doc, text, ..).
pub(crate) fn without_cuts(texts: DataFrame, cuts: DataFrame) -> Result<DataFrame> {
    let cuts = with_struct(cuts, "cuts", CUT_SPAN)?.with_column_renamed("doc", "cut_doc")?;
    let mut columns = all_columns(&texts);
    for column in columns.iter_mut().filter(|column| **column == ident("text")) {
        *column = text_without(col("text"), col("cuts")).alias("text");
    }
    Ok(lists(cuts)?.join(texts, JoinType::Right, &["cut_doc"], &["doc"], None)?.select(columns)?)
}

/// Rows (doc, ..) of new and reference documents, in which repeated passages are found.
pub(crate) struct PassageRows {
    new: DataFrame,
    reference: Option<(DataFrame, NewPairs)>,
}

impl PassageRows {
    /// Creates the rows of `new` documents and of `reference` documents. [`NewPairs`] decides whether a passage that occurs only in new
    /// documents counts as repeated.
    pub(crate) fn new(new: DataFrame, reference: Option<(DataFrame, NewPairs)>) -> Self {
        Self { new, reference }
    }

    /// Drops most rows with a unique number in the column `key`. With reference documents, keeps all rows, since a reference document may
    /// contain the number.
    fn that_may_repeat(self, key: &str) -> Result<Self> {
        if self.reference.is_some() {
            return Ok(self);
        }
        let mut columns = all_columns(&self.new);
        columns.retain(|column| *column != ident(key));
        columns.insert(0, col(key));
        Ok(Self::new(apply(Operator::MayRepeat(MayRepeat), vec![self.new.select(columns)?])?, None))
    }

    /// Keeps the rows with a repeated `key` that occurs in a new document. With [`NewPairs::WithReference`], the key must also occur in a
    /// reference document. Adds `occurrences: UInt64`, the number of rows with the key, `reference_documents: UInt64`, the number of
    /// reference documents with the key, and `reference: Boolean`.
    fn repeated<const N: usize>(self, key: [&str; N]) -> Result<DataFrame> {
        let this = match key.first() {
            Some(first) => self.that_may_repeat(first)?,
            None => self,
        };
        let all = all_columns(&this.new);
        let all = [all, columns(["occurrences", "reference_documents", "reference"])].concat();
        let names = key.map(|name| format!("repeated_{name}"));
        let mut counted: Vec<Expr> =
            key.iter().zip(&names).map(|(key, name)| col(*key).alias(name)).collect();
        counted.extend(["occurrences", "reference_documents"].map(|name| number(col(name)).alias(name)));
        let repeated = this.counts(key)?.select(counted)?;
        let mut rows = this.new.with_column("reference", lit(false))?;
        if let Some((reference, _)) = this.reference {
            rows = rows.union(reference.with_column("reference", lit(true))?)?;
        }
        let left = names.each_ref().map(String::as_str);
        Ok(repeated.join(rows, JoinType::Inner, &left, &key, None)?.select(all)?)
    }

    /// Returns (key, occurrences, reference_documents) for the keys of [`Self::repeated`].
    fn counts<const N: usize>(&self, key: [&str; N]) -> Result<DataFrame> {
        let by_key = || columns(key);
        let occurrences = || count(lit(1)).alias("occurrences");
        let new = self.new.clone().aggregate(by_key(), vec![occurrences()])?;
        let Some((reference, pairs)) = &self.reference else {
            let repeated = new.filter(col("occurrences").gt(lit(1)))?;
            return Ok(repeated.with_column("reference_documents", lit(0_i64))?);
        };
        let by_document = [by_key(), columns(["doc"])].concat();
        let known = reference.clone().aggregate(by_document, vec![occurrences()])?.aggregate(
            by_key(),
            vec![sum(col("occurrences")).alias("known"), count(lit(1)).alias("reference_documents")],
        )?;
        const COUNTS: [&str; 3] = ["new", "known", "reference_documents"];
        let with_counts = |counts: [Expr; 3]| {
            let counts = counts.into_iter().zip(COUNTS).map(|(count, name)| count.alias(name));
            by_key().into_iter().chain(counts).collect::<Vec<_>>()
        };
        let none = || lit(0_i64);
        let new = new.select(with_counts([col("occurrences"), none(), none()]))?;
        let known = known.select(with_counts([none(), col("known"), col("reference_documents")]))?;
        let sums = COUNTS.map(|count| sum(col(count)).alias(count)).to_vec();
        let counts = new.union(known)?.aggregate(by_key(), sums)?;
        let occurrences = || col("new") + col("known");
        let counts_too = match pairs {
            NewPairs::WithReference => col("known").gt(none()),
            NewPairs::WithEachOther => occurrences().gt(lit(1_i64)),
        };
        let repeated = counts.filter(col("new").gt(none()).and(counts_too))?;
        let counted = vec![occurrences().alias("occurrences"), col("reference_documents")];
        Ok(repeated.select([by_key(), counted].concat())?)
    }
}

/// (doc, ..) -> `doc` and the fields `fields`, one row per element of `list`.
fn unnested<const N: usize>(frame: DataFrame, list: Expr, fields: [&str; N]) -> Result<DataFrame> {
    let rows = frame.select(vec![col("doc"), list.alias("element")])?.unnest_columns(&["element"])?;
    let fields = fields.map(|name| get_field(col("element"), name).alias(name)).to_vec();
    Ok(rows.filter(col("element").is_not_null())?.select([columns(["doc"]), fields].concat())?)
}

/// (doc, `fields`) -> `doc` and the struct `name` of the fields.
fn with_struct<const N: usize>(frame: DataFrame, name: &str, fields: [&str; N]) -> Result<DataFrame> {
    let fields = fields.into_iter().flat_map(|name| [lit(name), col(name)]).collect();
    Ok(frame.select(vec![col("doc"), named_struct(fields).alias(name)])?)
}

/// (doc, text) -> (doc, hash_0, hash_1, char_start, char_end, byte_start, byte_end, words: UInt64), one row per unit with at least
/// `min_words` words.
pub(crate) fn units(
    documents: DataFrame,
    (unit, min_words): (TextUnit, usize),
    shingle: &Shingle,
) -> Result<DataFrame> {
    unnested(documents, text_units(col("text"), unit, min_words, shingle), UNIT)
}

/// (doc, text) -> (doc, fingerprint: UInt64), one row per fingerprint. Every window of `length` words contains at least one.
pub(crate) fn fingerprints(documents: DataFrame, length: usize, shingle: &Shingle) -> Result<DataFrame> {
    let fingerprint = text_fingerprints(col("text"), length, shingle).alias("fingerprint");
    let all = documents.select(vec![col("doc"), fingerprint])?.unnest_columns(&["fingerprint"])?;
    Ok(all.filter(col("fingerprint").is_not_null())?)
}

/// (doc, fingerprint) -> (doc, fingerprint), the repeated fingerprints, once per document.
pub(crate) fn fingerprint_hits(fingerprints: PassageRows) -> Result<DataFrame> {
    Ok(fingerprints.repeated(["fingerprint"])?.select(columns(["doc", "fingerprint"]))?.distinct()?)
}

/// (doc, text, ..), hits (doc, fingerprint) -> (doc, hash_0, hash_1, at, char_start, of_reference: UInt64), one row per window of `length`
/// words around a hit. `of_reference` is 1 for texts of reference documents.
pub(crate) fn windows(
    texts: DataFrame,
    hits: DataFrame,
    length: usize,
    shingle: &Shingle,
    of_reference: bool,
) -> Result<DataFrame> {
    let hits = lists(hits.select(renamed([("doc", "hit_doc"), ("fingerprint", "hits")]))?)?;
    let texts = texts.select(columns(["doc", "text"]))?;
    let texts = hits.join(texts, JoinType::Inner, &["hit_doc"], &["doc"], None)?;
    let windows = unnested(texts, text_windows(col("text"), col("hits"), length, shingle), WINDOW)?;
    Ok(windows.with_column("of_reference", lit(u64::from(of_reference)))?)
}

/// The [`windows`], the documents of [`in_turn`] -> (doc, at, is_first, occurrences, reference_documents, kept_doc, kept_at,
/// kept_char_start: UInt64). There is one row per repeated window that is in a new document, or whose first occurrence is in a new
/// document.
///
/// `is_first` is 1 for the first occurrence in the first document. `kept_doc`, `kept_at` and `kept_char_start` say where this occurrence is.
pub(crate) fn repeated_windows(
    windows: PassageRows,
    documents: DataFrame,
    order: &[Preference],
) -> Result<DataFrame> {
    let windows = with_order(windows.repeated(HASH)?, documents, &[], order)?;
    let kept = ["doc", "at", "occurrences", "reference_documents", "reference"];
    let of_first = [
        ("doc", "kept_doc"),
        ("at", "kept_at"),
        ("char_start", "kept_char_start"),
        ("reference", "kept_reference"),
    ];
    let ranked = with_first(windows, &HASH, &sorted(order, "at"), &kept, &of_first)?;
    let mut all = columns(["doc"]);
    all.extend(REPEATED.map(|name| number(col(name)).alias(name)));
    Ok(ranked.filter(!col("reference").and(col("kept_reference")))?.select(all)?)
}

/// Documents (id, ..), clusters (id, representative, reference, ..), spared documents (id, reference, ..), reference documents (..,
/// before) -> all documents with `reference: Boolean` and `turn: UInt64`. The expression in `reference` is the value of `before` for new
/// documents.
///
/// A passage is kept in the document with the smallest `turn`, and among equal turns in the preferred document. The turns have this order:
///
/// 1. reference documents that outputs keep, or that come from a second source,
/// 2. new documents,
/// 3. new documents that are not spared and do not represent their cluster,
/// 4. reference documents that outputs remove.
///
/// Documents that are not compared come after kept documents: see [`turns`].
pub(crate) fn in_turn(
    documents: DataFrame,
    clusters: DataFrame,
    spared: Option<DataFrame>,
    reference: Option<(DataFrame, Expr)>,
) -> Result<DataFrame> {
    let columns = all_columns(&documents);
    let is_new = || !col("reference");
    let mut gone =
        clusters.filter(is_new().and(!col("representative")))?.select(renamed([("id", "gone_id")]))?;
    if let Some(spared) = spared {
        let spared = spared.filter(is_new())?.select(renamed([("id", "spared_id")]))?;
        gone = spared.join(gone, JoinType::RightAnti, &["spared_id"], &["gone_id"], None)?;
    }
    let goes = number(col("gone_id").is_not_null()) * lit(2_u64);
    let (reference, of_new) =
        reference.map_or((None, lit(0_u64)), |(reference, of_new)| (Some(reference), of_new));
    let own = vec![lit(false).alias("reference"), (turns(of_new) + goes).alias("turn")];
    let joined = gone.join(documents, JoinType::Right, &["gone_id"], &["id"], None)?;
    let new = joined.select([columns.clone(), own].concat())?;
    let Some(reference) = reference else { return Ok(new) };
    let of_reference = vec![lit(true).alias("reference"), turns(col(BEFORE)).alias("turn")];
    Ok(new.union(reference.select([columns, of_reference].concat())?)?)
}

/// The value of `turn` for kept documents with the number `before`. It is larger by 1 for uncompared documents, and by 2 for removed
/// ones.
pub(crate) fn turns(before: Expr) -> Expr {
    before * lit(3_u64)
}

/// Sorts rows by the columns of [`with_order`], and then by the column `place`.
fn sorted(order: &[Preference], place: &str) -> Vec<SortExpr> {
    let mut sorted = vec![col("turn").sort(true, false)];
    sorted.extend(keep::sorted(order));
    sorted.push(col(place).sort(true, false));
    sorted
}

/// Adds the columns that order documents, and the columns `of`, from the documents of [`in_turn`] to `rows` (doc, ..).
fn with_order(rows: DataFrame, documents: DataFrame, of: &[&str], order: &[Preference]) -> Result<DataFrame> {
    let names = keep::names(order);
    let mut columns = vec![col("doc").alias("of_doc"), col("shingle_count"), col("id"), col("turn")];
    columns.extend(names.iter().map(String::as_str).chain(of.iter().copied()).map(col));
    let documents = documents.select(columns)?;
    Ok(documents.join(rows, JoinType::Inner, &["of_doc"], &["doc"], None)?)
}

/// Rows -> `key`, `columns`, `is_first: Boolean`, and the columns `of_first` (name, new name). `is_first` is true for the first row with
/// each key in the order `sorted`. The columns `of_first` contain the values of this row.
fn with_first(
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

/// The hash (hash_0, hash_1) as 32 hexadecimal digits.
fn passage_id() -> Expr {
    let half = |name: &str| lpad(vec![to_hex(col(name)), lit(16_i64), lit("0")]);
    concat(vec![half("hash_0"), half("hash_1")]).alias("passage_id")
}

/// [`units`], the documents of [`in_turn`] -> the columns of `schemas/spans.toml`. The first occurrence of a passage is kept, in the
/// first document by `turn` and then by `order`.
pub(crate) fn spans_of_units(
    units: PassageRows,
    documents: DataFrame,
    order: &[Preference],
) -> Result<DataFrame> {
    let units = with_order(units.repeated(HASH)?, documents, &["source", "position", "group"], order)?;
    let of_first = [
        ("id", "kept_id"),
        ("reference", "kept_reference"),
        ("char_start", "kept_char_start"),
        ("group", "kept_group"),
    ];
    let all = [&SPAN[..], &["reference"]].concat();
    let ranked = with_first(units, &HASH, &sorted(order, "char_start"), &all, &of_first)?;
    let own = vec![passage_id(), col("is_first").alias("kept")];
    let all = [columns(SPAN), own, columns(of_first.map(|(_, name)| name))].concat();
    Ok(ranked.filter(!col("reference"))?.select(all)?)
}

/// (doc, text, ..), [`repeated_windows`], the documents of [`in_turn`] -> the columns of `schemas/spans.toml`.
pub(crate) fn spans_of_words(
    texts: DataFrame,
    windows: DataFrame,
    documents: DataFrame,
    (length, gap): (usize, usize),
    shingle: &Shingle,
) -> Result<DataFrame> {
    let windows = lists(with_struct(windows, "windows", REPEATED)?)?;
    let runs = unnested(windows, word_runs(col("windows"), length, gap), RUN)?;
    // Rows with `is_span` = 0 are placed in the document that keeps the words.
    let placed = |own: &str, kept: Expr| when(col("is_span").eq(lit(1_u64)), col(own)).otherwise(kept);
    let mut placed = vec![
        placed("doc", col("kept_doc"))?.alias("doc"),
        placed("at", col("kept_at"))?.alias("at"),
        placed("words", col("kept_words"))?.alias("words"),
        placed("kept_char_start", lit(0_u64))?.alias("kept_char_start"),
    ];
    let others = ["is_span", "kept_doc", "kept_at", "kept_words", "occurrences", "reference_documents"];
    placed.extend(columns(others));
    let most = ["occurrences", "reference_documents"];
    let key = ["doc"].into_iter().chain(RUN).filter(|name| !most.contains(name)).map(col).collect();
    let runs = runs.select(placed)?.aggregate(key, most.map(|name| max(col(name)).alias(name)).to_vec())?;
    let runs = lists(with_struct(runs, "runs", RUN)?.with_column_renamed("doc", "run_doc")?)?;
    let texts = texts.select(columns(["doc", "text"]))?;
    let texts = runs.join(texts, JoinType::Inner, &["run_doc"], &["doc"], None)?;
    let runs = unnested(texts, placed_runs(col("text"), col("runs"), shingle), PLACED_RUN)?;
    let kept = documents.clone().select(renamed([
        ("doc", "of_kept"),
        ("id", "kept_id"),
        ("reference", "kept_reference"),
        ("group", "kept_group"),
    ]))?;
    let documents = documents
        .filter(!col("reference"))?
        .select([renamed([("doc", "of_doc")]), columns(["id", "source", "position"])].concat())?;
    let runs = documents.join(runs, JoinType::Inner, &["of_doc"], &["doc"], None)?;
    let runs = kept.join(runs, JoinType::Inner, &["of_kept"], &["kept_doc"], None)?;
    let own = vec![passage_id(), col("kept").eq(lit(1_u64)).alias("kept")];
    let of_kept = columns(["kept_id", "kept_reference", "kept_char_start", "kept_group"]);
    Ok(runs.select([columns(SPAN), own, of_kept].concat())?)
}

/// The columns of `schemas/spans.toml` -> (passage_id, source, position, byte_start, byte_end). There is one row per passage: the kept
/// span, or else the first span in the document with the smallest id.
pub(crate) fn samples(spans: DataFrame) -> Result<DataFrame> {
    let sorted = vec![
        col("kept").sort(false, false),
        col("id").sort(true, false),
        col("char_start").sort(true, false),
    ];
    let place = ["source", "position", "byte_start", "byte_end"];
    let first = with_first(spans, &["passage_id"], &sorted, &place, &[])?.filter(col("is_first"))?;
    Ok(first.select([columns(["passage_id"]), columns(place)].concat())?)
}

/// [`samples`] -> (source, position, origin), one row per document. `origin` is null.
pub(crate) fn sample_positions(samples: DataFrame) -> Result<DataFrame> {
    let places = samples.select(columns(["source", "position"]))?.distinct()?;
    Ok(places.with_column("origin", no_number())?)
}

/// The columns of `schemas/spans.toml`, texts (source, position, text) of the documents in [`samples`], groups (id, group) if there are
/// groups -> the columns of `schemas/passages.toml`.
pub(crate) fn passages(spans: DataFrame, texts: DataFrame, groups: Option<DataFrame>) -> Result<DataFrame> {
    let most =
        || ["words", "occurrences", "reference_documents"].map(|name| max(col(name)).alias(name)).to_vec();
    let by_document = spans.clone().aggregate(columns(["passage_id", "id"]), most())?;
    let documents = vec![count(lit(1)).alias("documents")];
    let counts = by_document.clone().aggregate(columns(["passage_id"]), [most(), documents].concat())?;
    let texts = texts.select(renamed([
        ("source", "text_source"),
        ("position", "text_position"),
        ("text", "text"),
    ]))?;
    let (left, right) = (&["source", "position"], &["text_source", "text_position"]);
    let samples = samples(spans)?.join(texts, JoinType::Inner, left, right, None)?.select(vec![
        col("passage_id").alias("sampled"),
        text_sample(col("text"), ["byte_start", "byte_end"].map(col), SAMPLE).alias("sample"),
    ])?;
    let counts = samples.join(counts, JoinType::Inner, &["sampled"], &["passage_id"], None)?;
    let Some(groups) = groups else { return Ok(counts) };
    let groups = groups.select(vec![col("id").alias("of_id"), groups::key(col("group"))])?;
    let groups = groups
        .join(by_document, JoinType::Inner, &["of_id"], &["id"], None)?
        .select(vec![col("passage_id").alias("grouped"), col("group_key")])?
        .distinct()?
        .aggregate(columns(["grouped"]), vec![count(lit(1)).alias("groups")])?;
    Ok(groups.join(counts, JoinType::Inner, &["grouped"], &["passage_id"], None)?)
}
