//! frequent: the shingles that too many documents have, and sets without them.
//!
//! Counters that are never too small name suspects, and these are counted exactly.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{array_agg, count, min};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, ident};
use datafusion::prelude::{DataFrame, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::{by_group, shingles_of_text};
use crate::error::Result;
use crate::job::Shingle;
use crate::operator::shingle_counts::CountShingles;
use crate::operator::suspects::Suspects;
use crate::operator::without_frequent::WithoutFrequent;
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::{document_key, shingle_samples};

/// A shingle in this many documents or fewer is not frequent, whatever share of the documents that is: in a small collection or
/// group, two copies are a large share.
pub(crate) const MIN_DOCUMENTS: u64 = 10;

/// The counters for a share: `2^bits`. A document has some hundred shingles, so a counter counts a tenth of the share by chance.
/// There are as many for any memory, because a run that resumes may have another: 16 MiB at most.
pub(crate) fn bits(max_frequency: f64) -> u32 {
    const SHINGLES: f64 = 4_096.0;
    const MAX: f64 = 22.0;
    // Between 1 and 22.
    (SHINGLES / max_frequency).log2().clamp(1.0, MAX) as u32
}

/// The number of documents that a shingle may be in before it is frequent among `documents`.
pub(crate) fn limit(max_frequency: f64, documents: u64) -> u64 {
    ((max_frequency * documents as f64).floor() as u64).max(MIN_DOCUMENTS)
}

/// (source, position, text, doc, reason, ..) -> (group_key: UInt64, doc, group: Utf8, shingles: `List<UInt64>`). `group` is the
/// column with the group, if documents have one.
pub(crate) fn sets(documents: DataFrame, shingle: &Shingle, group: Option<&str>) -> Result<DataFrame> {
    // A rejected text is not cut: it may be anything.
    let text = when(col("reason").is_null(), col("text")).end()?;
    let shingles = shingles_of_text(&documents, text, shingle)?.alias("shingles");
    let group_key = match group {
        Some(_) => by_group::key(by_group::group(group).unalias()),
        None => lit(0_u64).alias("group_key"),
    };
    Ok(documents.select(vec![group_key, col("doc"), by_group::group(group), shingles])?)
}

/// [`sets`] -> the columns of `operator::shingle_counts::schema`.
pub(crate) fn counts(sets: DataFrame, bits: u32) -> Result<DataFrame> {
    let sets = sets.select(vec![col("group_key"), col("shingles")])?;
    apply(Operator::CountShingles(CountShingles { bits }), vec![sets])
}

/// [`sets`], [`counts`] -> (group_key, group: Utf8, shingle, documents, doc: UInt64): how many documents of a group have a
/// shingle that may be in more than `over` of them, and one that has it. The row without a shingle counts the documents of the
/// group.
pub(crate) fn suspects(sets: DataFrame, counts: DataFrame, bits: u32, over: u64) -> Result<DataFrame> {
    let rows = apply(Operator::Suspects(Suspects { bits, over }), vec![counts, sets])?;
    let counted = rows.aggregate(
        vec![col("group_key"), col("shingle")],
        vec![
            min(col("group")).alias("group"),
            count(lit(1)).alias("documents"),
            min(col("doc")).alias("first_doc"),
        ],
    )?;
    Ok(counted.select(vec![
        col("group_key"),
        col("group"),
        col("shingle"),
        cast(col("documents"), DataType::UInt64).alias("documents"),
        col("first_doc").alias("doc"),
    ])?)
}

/// Whether a shingle in `documents` of `of_documents` is frequent.
pub(super) fn is_frequent(documents: Expr, of_documents: Expr, max_frequency: f64) -> Expr {
    let of = |number: Expr| cast(number, DataType::Float64);
    let share = of(documents.clone()).gt(lit(max_frequency) * of(of_documents));
    share.and(documents.gt(lit(MIN_DOCUMENTS)))
}

/// [`suspects`] -> (shingle, documents, of_documents: UInt64, group: Utf8, doc: UInt64), one row for each shingle that is in more
/// than the share `max_frequency` of the documents of a group: the group in which its share is the largest.
pub(crate) fn frequent(suspects: DataFrame, max_frequency: f64) -> Result<DataFrame> {
    let sizes = suspects
        .clone()
        .filter(col("shingle").is_null())?
        .select(vec![col("group_key").alias("of_group"), col("documents").alias("of_documents")])?;
    let of = |name: &str| cast(col(name), DataType::Float64);
    let is_frequent = is_frequent(col("documents"), col("of_documents"), max_frequency);
    let largest = vec![
        (of("documents") / of("of_documents")).sort(false, false),
        col("documents").sort(false, false),
        col("group_key").sort(true, false),
    ];
    let place = row_number().partition_by(vec![col("shingle")]).order_by(largest).build()?.alias("place");
    let columns = ["shingle", "documents", "of_documents", "group", "doc"].map(col).to_vec();
    Ok(sizes
        .join(suspects, JoinType::Inner, &["of_group"], &["group_key"], None)?
        .filter(col("shingle").is_not_null().and(is_frequent))?
        .window(vec![place])?
        .filter(col("place").eq(lit(1_u64)))?
        .select(columns)?)
}

/// (.., shingles: `List<UInt64>`), (shingle: UInt64, ..) -> the same rows, whose sets have none of these shingles; as they are if
/// all shingles count. Whatever makes sets of texts calls this.
pub(crate) fn without(documents: DataFrame, frequent: Option<DataFrame>) -> Result<DataFrame> {
    let Some(frequent) = frequent else { return Ok(documents) };
    let names: Vec<String> = documents.schema().fields().iter().map(|field| field.name().clone()).collect();
    // The operator takes sets from the last column.
    let others = names.iter().filter(|name| *name != "shingles").map(ident);
    let last = documents.select(others.chain([col("shingles")]).collect::<Vec<_>>())?;
    let frequent = frequent.select(vec![col("shingle")])?;
    let rest = apply(Operator::WithoutFrequent(WithoutFrequent), vec![frequent, last])?;
    Ok(rest.select(names.iter().map(ident).collect::<Vec<_>>())?)
}

/// [`frequent`], (source, position, doc) of compared documents, (source, position, id, reason) of rejects -> (source, position,
/// origin) of the documents that show frequent shingles.
pub(crate) fn positions(frequent: DataFrame, documents: DataFrame, rejects: DataFrame) -> Result<DataFrame> {
    let columns = || ["source", "position"].map(col).to_vec();
    let rejected = rejects
        .filter(col("reason").eq(lit("only_template")))?
        .select([columns(), vec![document_key(col("id")).alias("doc")]].concat())?;
    let documents = documents.select([columns(), vec![col("doc")]].concat())?.union(rejected)?;
    let wanted = frequent.select(vec![col("doc").alias("needed")])?.distinct()?;
    let found = wanted.join(documents, JoinType::Inner, &["needed"], &["doc"], None)?;
    Ok(found.select([columns(), vec![lit(ScalarValue::UInt64(None)).alias("origin")]].concat())?)
}

/// [`frequent`], (doc, text) of their documents -> the columns of `schemas/frequent_shingles.toml`.
pub(crate) fn with_samples(frequent: DataFrame, texts: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    let wanted = frequent
        .clone()
        .select(vec![col("doc").alias("of_doc"), col("shingle")])?
        .aggregate(vec![col("of_doc")], vec![array_agg(col("shingle")).alias("sampled")])?;
    let texts = texts.select(vec![col("doc"), col("text")])?;
    let samples = wanted
        .join(texts, JoinType::Inner, &["of_doc"], &["doc"], None)?
        .select(vec![col("sampled"), shingle_samples(col("text"), col("sampled"), shingle).alias("sample")])?
        .unnest_columns(&["sampled", "sample"])?;
    let share = cast(col("documents"), DataType::Float64) / cast(col("of_documents"), DataType::Float64);
    Ok(samples.join(frequent, JoinType::Inner, &["sampled"], &["shingle"], None)?.select(vec![
        col("shingle"),
        col("documents"),
        share.alias("share"),
        col("group"),
        col("sample"),
    ])?)
}
