//! The columns of Parquet files, and values of their first rows.

use std::sync::Arc;

use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Schema};
use datafusion::execution::context::SessionContext;
use datafusion::prelude::ident;
use futures::TryStreamExt;

use super::column::{Column, Values};
use super::in_order::in_order;
use crate::error::Result;
use crate::job;
use crate::schema;
use crate::source::{self, Listed, ParquetFile, Request, SourceFile, is_string};

/// Rows from which columns are known.
const SAMPLED: usize = 1000;

/// The columns of `file`, one of those of `source`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read.
pub(super) async fn columns(
    ctx: &SessionContext,
    source: &job::Source,
    file: &SourceFile,
) -> Result<Vec<Column>> {
    let schema = ParquetFile::open(ctx, file).await?.schema(None)?;
    let names = readable(&schema);
    let mut values = match names.iter().find(|name| is_text(&schema, name)) {
        Some(text) => sample(ctx, source, file, text, &names).await?,
        None => Vec::new(),
    };
    let column = |field: &Arc<arrow::datatypes::Field>| {
        let at = names.iter().position(|name| name == field.name());
        let values = at.and_then(|at| values.get_mut(at)).map(std::mem::take).unwrap_or_default();
        values.column(field.name(), &field.data_type().to_string(), is_string(field.data_type()))
    };
    Ok(schema.fields().iter().map(column).collect())
}

fn is_text(schema: &Schema, name: &str) -> bool {
    schema.field_with_name(name).is_ok_and(|field| is_string(field.data_type()))
}

/// The columns that may be a text or an id: strings and integers whose name no other column has.
fn readable(schema: &Schema) -> Vec<String> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let fields = schema.fields().iter().filter(|field| {
        let is_whole = matches!(field.data_type(), Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32);
        let named_so = schema.fields().iter().filter(|other| other.name() == field.name()).count();
        (is_whole || is_string(field.data_type())) && named_so == 1
    });
    fields.map(|field| field.name().clone()).collect()
}

/// The values of the columns `names` in the first rows of `file`.
async fn sample(
    ctx: &SessionContext,
    source: &job::Source,
    file: &SourceFile,
    text: &str,
    names: &[String],
) -> Result<Vec<Values>> {
    let source = job::Source { text: vec![text.to_owned()], columns: names.to_vec(), ..source.clone() };
    let ctx = in_order(ctx);
    let listed = Listed::of(std::slice::from_ref(file));
    let frame = source::read(&ctx, &source, &listed, Request::all()).await?.frame;
    let columns: Vec<_> = (0..names.len()).map(|at| ident(schema::carried(at))).collect();
    let mut rows = frame.select(columns)?.limit(0, Some(SAMPLED))?.execute_stream().await?;
    let mut values: Vec<Values> = names.iter().map(|_| Values::default()).collect();
    while let Some(batch) = rows.try_next().await? {
        for (column, values) in batch.columns().iter().zip(&mut values) {
            let texts = cast(column, &DataType::Utf8View)?;
            texts.as_string_view().iter().for_each(|value| values.add(value));
        }
    }
    Ok(values)
}
