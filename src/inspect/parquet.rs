//! The columns of Parquet files, and values of their first rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field};
use datafusion::execution::context::SessionContext;
use datafusion::prelude::ident;
use futures::TryStreamExt;

use super::column::{ColumnSample, InspectedColumn};
use crate::error::Result;
use crate::source::{self, Listed, ParquetFile, ReadRequest, SourceFile, is_string, named_fields};
use crate::{job, schema};

/// Rows from which columns are known.
const SAMPLED: usize = 1000;
/// Columns of a plan. Its time grows with their square, and each plan reads the names of all columns.
const AT_ONCE: usize = 768;

/// The columns of `file`, one of those of `source`; a field `b` of the struct `a` is `a.b`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read.
pub(super) async fn columns(
    ctx: &SessionContext,
    source: &job::Source,
    file: &SourceFile,
) -> Result<Vec<InspectedColumn>> {
    let schema = ParquetFile::open(ctx, file).await?.schema(None)?;
    let fields = named_fields(schema.fields());
    let names = readable(&fields);
    let text = fields.iter().find(|(name, field)| is_string(field.data_type()) && names.contains(name));
    let mut values = BTreeMap::new();
    if let Some((text, _)) = text {
        for names in names.chunks(AT_ONCE) {
            values.extend(names.iter().zip(sample(ctx, source, file, text, names).await?));
        }
    }
    let column = |(name, field): &(String, &Field)| {
        let values = values.remove(name).unwrap_or_default();
        values.column(name, &field.data_type().to_string(), is_string(field.data_type()))
    };
    Ok(fields.iter().map(column).collect())
}

/// The columns that may be a text or an id: strings and integers whose name no other column has.
fn readable(fields: &[(String, &Field)]) -> Vec<String> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let mut named_so: BTreeMap<&str, usize> = BTreeMap::new();
    fields.iter().for_each(|(name, _)| *named_so.entry(name).or_default() += 1);
    let readable = fields.iter().filter(|(name, field)| {
        let is_whole = matches!(field.data_type(), Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32);
        (is_whole || is_string(field.data_type())) && named_so.get(name.as_str()) == Some(&1)
    });
    readable.map(|(name, _)| name.clone()).collect()
}

/// The values of the columns `names` in the first rows of `file`.
async fn sample(
    ctx: &SessionContext,
    source: &job::Source,
    file: &SourceFile,
    text: &str,
    names: &[String],
) -> Result<Vec<ColumnSample>> {
    let source = job::Source { text: vec![text.to_owned()], columns: names.to_vec(), ..source.clone() };
    let ctx = in_order(ctx);
    let listed = Listed::of(std::slice::from_ref(file));
    let frame = source::read(&ctx, &source, &listed, ReadRequest::all()).await?.frame;
    let columns: Vec<_> = (0..names.len()).map(|at| ident(schema::carried(at))).collect();
    let mut rows = frame.select(columns)?.limit(0, Some(SAMPLED))?.execute_stream().await?;
    let mut values: Vec<ColumnSample> = names.iter().map(|_| ColumnSample::default()).collect();
    while let Some(batch) = rows.try_next().await? {
        for (column, values) in batch.columns().iter().zip(&mut values) {
            let texts = cast(column, &DataType::Utf8View)?;
            texts.as_string_view().iter().for_each(|value| values.add(value));
        }
    }
    Ok(values)
}

/// A session over the stores of `ctx` that reads one partition after the other.
pub(super) fn in_order(ctx: &SessionContext) -> SessionContext {
    let state = ctx.state();
    let config = state.config().clone().with_target_partitions(1);
    SessionContext::new_with_config_rt(config, Arc::clone(state.runtime_env()))
}
