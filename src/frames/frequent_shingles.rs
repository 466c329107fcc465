//! Finds frequent shingles, which occur in too many documents, and removes them from shingle sets.

use datafusion::common::{JoinType, UnnestOptions};
use datafusion::functions_aggregate::expr_fn::{array_agg, count, min};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_nested::expr_fn::{array_append, array_length};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{ExprFunctionExt, WindowFunctionDefinition, expr::WindowFunction, ident};
use datafusion::prelude::{DataFrame, Expr, col, lit, when};

use super::{all_columns, columns, float, groups, no_number, number, renamed, shingles_of_text};
use crate::error::Result;
use crate::job::Shingle;
use crate::operator::filters::WithoutFrequent;
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::{document_key, shingle_samples};

/// The approximate number of documents per group in the sample. Shingles are counted only in the sample.
pub(crate) const SAMPLE: u64 = 100_000;

/// A shingle in at most this many documents is never frequent. Two copies are already a large share of a small group.
const MIN_DOCUMENTS: u64 = 10;

/// Adds the column `group_key: UInt64`. `group` is the name of the column with the group, if there are groups.
pub(crate) fn with_group_key(documents: DataFrame, group: Option<&str>) -> Result<DataFrame> {
    Ok(documents.with_column("group_key", groups::key(groups::group(group).unalias()).unalias())?)
}

/// (group_key, reason, ..) -> (group_key, documents: UInt64), the number of documents in each group, without rejects.
pub(crate) fn group_sizes(documents: DataFrame) -> Result<DataFrame> {
    let counted = documents
        .filter(col("reason").is_null())?
        .aggregate(columns(["group_key"]), vec![count(lit(1)).alias("rows")])?;
    Ok(counted.select(vec![col("group_key"), number(col("rows")).alias("documents")])?)
}

/// Draws about [`SAMPLE`] documents from each group of documents (doc, group_key, ..), or all documents of a smaller group. The key of a
/// document decides whether it is drawn. `sizes` are the [`group_sizes`].
pub(crate) fn sampled(documents: DataFrame, sizes: DataFrame) -> Result<DataFrame> {
    let columns = all_columns(&documents);
    let sizes = sizes.select(renamed([("group_key", "sized"), ("documents", "size")]))?;
    // Keys are hashes, which are spread evenly over 2^64 numbers.
    let is_drawn = (float(col("doc")) * float(col("size"))).lt(lit(SAMPLE as f64 * 2_f64.powi(64)));
    let rows = sizes.join(documents, JoinType::Inner, &["sized"], &["group_key"], None)?;
    Ok(rows.filter(is_drawn)?.select(columns)?)
}

/// A sample (doc, text, reason, group_key, ..) -> (shingle, documents, of_documents, doc: UInt64). There is one row for each shingle in
/// more than a share `max_frequency` of the documents of a group. The counts come from the group with the largest share. `documents` counts
/// the documents with the shingle, `of_documents` all documents with shingles. `doc` is a document with the shingle.
pub(crate) fn frequent(sample: DataFrame, shingle: &Shingle, max_frequency: f64) -> Result<DataFrame> {
    // Rejected texts are not split into shingles, since they can contain anything.
    let text = when(col("reason").is_null(), col("text")).end()?;
    let set = shingles_of_text(&sample, text, shingle)?.alias("shingles");
    let sets = sample.select(vec![col("group_key"), col("doc"), set])?;
    // A row without a shingle counts the document.
    let each = array_append(col("shingles"), no_number());
    let each = when(array_length(col("shingles")).gt(lit(0_u64)), each).end()?.alias("shingle");
    let counted = sets
        .select(vec![col("group_key"), col("doc"), each])?
        .unnest_columns_with_options(&["shingle"], UnnestOptions::new().with_preserve_nulls(false))?
        .aggregate(
            columns(["group_key", "shingle"]),
            vec![count(lit(1)).alias("rows"), min(col("doc")).alias("first_doc")],
        )?
        .filter(col("shingle").is_null().or(col("rows").gt(lit(MIN_DOCUMENTS))))?;
    let rows = when(col("shingle").is_null(), col("rows")).end()?;
    let sum = WindowFunction::new(WindowFunctionDefinition::AggregateUDF(sum_udaf()), vec![rows]);
    let of_rows = Expr::from(sum).partition_by(columns(["group_key"])).build()?.alias("of_rows");
    let shares = counted.window(vec![of_rows])?.select(vec![
        col("group_key"),
        col("shingle"),
        number(col("rows")).alias("documents"),
        number(col("of_rows")).alias("of_documents"),
        col("first_doc").alias("doc"),
    ])?;
    let (documents, of_documents) = (|| float(col("documents")), || float(col("of_documents")));
    let is_frequent = documents().gt(lit(max_frequency) * of_documents());
    let largest = vec![
        (documents() / of_documents()).sort(false, false),
        col("documents").sort(false, false),
        col("group_key").sort(true, false),
    ];
    let rank = row_number().partition_by(columns(["shingle"])).order_by(largest).build()?.alias("rank");
    Ok(shares
        .filter(col("shingle").is_not_null().and(is_frequent))?
        .window(vec![rank])?
        .filter(col("rank").eq(lit(1_u64)))?
        .select(columns(["shingle", "documents", "of_documents", "doc"]))?)
}

/// Removes `frequent` shingles (shingle, ..) from the sets in `shingles: List<UInt64>`. Call this wherever texts become shingle sets.
pub(crate) fn without_frequent(documents: DataFrame, frequent: Option<DataFrame>) -> Result<DataFrame> {
    let Some(frequent) = frequent else { return Ok(documents) };
    let all = all_columns(&documents);
    // The operator expects the sets in the last column.
    let others = all.iter().filter(|column| **column != ident("shingles")).cloned();
    let last = documents.select(others.chain([col("shingles")]).collect::<Vec<_>>())?;
    let frequent = frequent.select(columns(["shingle"]))?;
    Ok(apply(Operator::WithoutFrequent(WithoutFrequent), vec![frequent, last])?.select(all)?)
}

/// [`frequent`], documents (source, position, doc, ..), rejects (source, position, id, reason, ..) -> (source, position, origin), the
/// positions of the documents in the column `doc` of [`frequent`]. `origin` is null.
pub(crate) fn positions(frequent: DataFrame, documents: DataFrame, rejects: DataFrame) -> Result<DataFrame> {
    let rejected = rejects.filter(col("reason").eq(lit("only_template")))?.select(vec![
        col("source"),
        col("position"),
        document_key(col("id")).alias("doc"),
    ])?;
    let documents = documents.select(columns(["source", "position", "doc"]))?.union(rejected)?;
    let shown = frequent.select(renamed([("doc", "needed")]))?.distinct()?;
    let found = shown.join(documents, JoinType::Inner, &["needed"], &["doc"], None)?;
    Ok(found.select(vec![col("source"), col("position"), no_number().alias("origin")])?)
}

/// [`frequent`], its documents (doc, text, group) -> the columns of `schemas/frequent_shingles.toml`.
pub(crate) fn with_samples(frequent: DataFrame, texts: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    let shown = frequent
        .clone()
        .select(vec![col("doc").alias("of_doc"), col("shingle")])?
        .aggregate(columns(["of_doc"]), vec![array_agg(col("shingle")).alias("sampled")])?;
    let sample = shingle_samples(col("text"), col("sampled"), shingle).alias("sample");
    let samples = shown
        .join(texts, JoinType::Inner, &["of_doc"], &["doc"], None)?
        .select(vec![col("sampled"), col("group"), sample])?
        .unnest_columns(&["sampled", "sample"])?;
    let share = float(col("documents")) / float(col("of_documents"));
    Ok(samples.join(frequent, JoinType::Inner, &["sampled"], &["shingle"], None)?.select(vec![
        col("shingle"),
        col("documents"),
        share.alias("share"),
        col("group"),
        col("sample"),
    ])?)
}
