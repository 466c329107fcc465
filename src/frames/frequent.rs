//! frequent: the shingles that too many documents have, and sets without them.

use arrow::datatypes::DataType;
use datafusion::common::{JoinType, UnnestOptions};
use datafusion::functions_aggregate::expr_fn::{array_agg, count, min};
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::functions_nested::expr_fn::{array_append, array_length};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{ExprFunctionExt, WindowFunctionDefinition, expr::WindowFunction, ident};
use datafusion::prelude::{DataFrame, Expr, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::{by_group, shingles_of_text};
use crate::error::Result;
use crate::job::Shingle;
use crate::operator::without_frequent::WithoutFrequent;
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::{document_key, shingle_samples};

/// Documents of a sample, in which shingles are counted.
pub(crate) const SAMPLE: u64 = 100_000;

/// A shingle in this many documents or fewer is not frequent. In a small collection or group, two copies are a large share.
const MIN_DOCUMENTS: u64 = 10;

/// (doc, reason, ..) -> the same rows with `group_key: UInt64`. `group` is the column with the group, if documents have one.
pub(crate) fn with_group(documents: DataFrame, group: Option<&str>) -> Result<DataFrame> {
    Ok(documents.with_column("group_key", by_group::key(by_group::group(group).unalias()).unalias())?)
}

/// [`with_group`] -> (group_key, documents: UInt64): the number of documents of each group that are not rejected.
pub(crate) fn group_sizes(documents: DataFrame) -> Result<DataFrame> {
    let counted = documents
        .filter(col("reason").is_null())?
        .aggregate(vec![col("group_key")], vec![count(lit(1)).alias("rows")])?;
    Ok(counted.select(vec![col("group_key"), cast(col("rows"), DataType::UInt64).alias("documents")])?)
}

/// [`with_group`], [`group_sizes`] -> about [`SAMPLE`] documents of each group, or all of a group that has no more. A document's key
/// decides whether it is drawn.
pub(crate) fn sampled(documents: DataFrame, sizes: DataFrame) -> Result<DataFrame> {
    let columns: Vec<Expr> = documents.schema().columns().into_iter().map(Expr::Column).collect();
    let sizes = sizes.select(vec![col("group_key").alias("sized"), col("documents").alias("size")])?;
    let real = |name: &str| cast(col(name), DataType::Float64);
    // Keys are spread evenly over 2^64 numbers.
    let is_drawn = (real("doc") * real("size")).lt(lit(SAMPLE as f64 * 2_f64.powi(64)));
    let rows = sizes.join(documents, JoinType::Inner, &["sized"], &["group_key"], None)?;
    Ok(rows.filter(is_drawn)?.select(columns)?)
}

/// A sample (doc, text, reason, group_key, ..) -> (shingle, documents, of_documents, doc: UInt64): the shingles that are in more than
/// the share `max_frequency` of the documents of a group, each with its count in the group in which its share is the largest, the
/// number of documents of this group that have shingles, and one document that has it.
pub(crate) fn frequent(sample: DataFrame, shingle: &Shingle, max_frequency: f64) -> Result<DataFrame> {
    // A rejected text is not cut: it may be anything.
    let text = when(col("reason").is_null(), col("text")).end()?;
    let set = shingles_of_text(&sample, text, shingle)?.alias("shingles");
    let sets = sample.select(vec![col("group_key"), col("doc"), set])?;
    // The row without a shingle counts the documents of the group.
    let each = array_append(col("shingles"), lit(ScalarValue::UInt64(None)));
    let each = when(array_length(col("shingles")).gt(lit(0_u64)), each).end()?.alias("shingle");
    let counted = sets
        .select(vec![col("group_key"), col("doc"), each])?
        .unnest_columns_with_options(&["shingle"], UnnestOptions::new().with_preserve_nulls(false))?
        .aggregate(
            vec![col("group_key"), col("shingle")],
            vec![count(lit(1)).alias("rows"), min(col("doc")).alias("first_doc")],
        )?
        .filter(col("shingle").is_null().or(col("rows").gt(lit(MIN_DOCUMENTS))))?;
    let rows = when(col("shingle").is_null(), col("rows")).end()?;
    let sum = WindowFunction::new(WindowFunctionDefinition::AggregateUDF(sum_udaf()), vec![rows]);
    let of_rows = Expr::from(sum).partition_by(vec![col("group_key")]).build()?.alias("of_rows");
    let number = |name: &str| cast(col(name), DataType::UInt64);
    let shares = counted.window(vec![of_rows])?.select(vec![
        col("group_key"),
        col("shingle"),
        number("rows").alias("documents"),
        number("of_rows").alias("of_documents"),
        col("first_doc").alias("doc"),
    ])?;
    let real = |name: &str| cast(col(name), DataType::Float64);
    let is_frequent = real("documents").gt(lit(max_frequency) * real("of_documents"));
    let largest = vec![
        (real("documents") / real("of_documents")).sort(false, false),
        col("documents").sort(false, false),
        col("group_key").sort(true, false),
    ];
    let place = row_number().partition_by(vec![col("shingle")]).order_by(largest).build()?.alias("place");
    Ok(shares
        .filter(col("shingle").is_not_null().and(is_frequent))?
        .window(vec![place])?
        .filter(col("place").eq(lit(1_u64)))?
        .select(["shingle", "documents", "of_documents", "doc"].map(col).to_vec())?)
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

/// [`frequent`], (doc, text, group) of their documents -> the columns of `schemas/frequent_shingles.toml`.
pub(crate) fn with_samples(frequent: DataFrame, texts: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    let wanted = frequent
        .clone()
        .select(vec![col("doc").alias("of_doc"), col("shingle")])?
        .aggregate(vec![col("of_doc")], vec![array_agg(col("shingle")).alias("sampled")])?;
    let samples = wanted
        .join(texts, JoinType::Inner, &["of_doc"], &["doc"], None)?
        .select(vec![
            col("sampled"),
            col("group"),
            shingle_samples(col("text"), col("sampled"), shingle).alias("sample"),
        ])?
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
