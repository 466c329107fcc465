//! The columns that are added after the columns of a file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, encode_arrow_schema};
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};
use serde_json::{Value, json};

use super::super::annotations::{Annotation, annotated};
use super::super::decisions::{Decisions, TextColumns};
use super::blocking::Waiter;
use crate::error::{Error, Result};
use crate::schema::IdType;
use crate::source::decoded_arrow_schema;

/// The key of Spark's schema.
const SPARK_SCHEMA: &str = "org.apache.spark.sql.parquet.row.metadata";

/// Rows of a batch of added columns.
const BATCH_ROWS: usize = 8192;

/// The columns that are added to a file.
pub(super) struct Added {
    pub annotations: Arc<[Annotation]>,
    pub id: IdType,
    pub decisions: Decisions,
}

impl Added {
    /// The names and types of the columns.
    fn columns(&self) -> impl Iterator<Item = (&'static str, DataType)> {
        self.annotations.iter().flat_map(|annotation| annotation.columns(self.id))
    }

    /// A schema with the annotation columns after its own.
    ///
    /// # Errors
    /// If a column of the schema is invalid, which is a bug.
    pub(super) fn schema(&self, own: &Type) -> Result<TypePtr> {
        let column = |(name, data_type): (&str, DataType)| {
            let of = match data_type {
                DataType::Boolean => PhysicalType::BOOLEAN,
                DataType::Int64 => PhysicalType::INT64,
                _ => PhysicalType::BYTE_ARRAY,
            };
            let text = (of == PhysicalType::BYTE_ARRAY).then_some(LogicalType::String);
            let column = Type::primitive_type_builder(name, of)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(text);
            Ok(Arc::new(column.build()?))
        };
        let added = self.columns().map(column);
        let fields = own.get_fields().iter().cloned().map(Ok).chain(added).collect::<Result<_>>()?;
        Ok(Arc::new(Type::group_type_builder(own.name()).with_fields(fields).build()?))
    }

    /// The key-value metadata of a file with the columns. Some of it describes all columns, and readers prefer that to the schema of
    /// the file, so it is extended or removed.
    pub(super) fn extended(&self, pairs: Vec<KeyValue>) -> Vec<KeyValue> {
        let extend = |pair: KeyValue| {
            let value = pair.value.as_deref().unwrap_or_default();
            let value = match pair.key.as_str() {
                ARROW_SCHEMA_META_KEY => self.arrow_schema(value)?,
                SPARK_SCHEMA => self.spark_schema(value)?,
                _ => return Some(pair),
            };
            Some(KeyValue { value: Some(value), ..pair })
        };
        pairs.into_iter().filter_map(extend).collect()
    }

    /// `None` if the schema has types that this program's Arrow does not have; readers then take the types of Parquet.
    fn arrow_schema(&self, encoded: &str) -> Option<String> {
        let own = decoded_arrow_schema(encoded)?;
        Some(encode_arrow_schema(&annotated(&own, &self.annotations, self.id)))
    }

    fn spark_schema(&self, text: &str) -> Option<String> {
        let mut schema: Value = serde_json::from_str(text).ok()?;
        let columns = schema.get_mut("fields")?.as_array_mut()?;
        columns.extend(self.columns().map(|(name, data_type)| {
            let of = match data_type {
                DataType::Boolean => "boolean",
                DataType::Int64 => "long",
                _ => "string",
            };
            json!({"name": name, "type": of, "nullable": true, "metadata": {}})
        }));
        Some(schema.to_string())
    }

    /// The encoded columns of the documents at `positions` of the file `path`: the bytes of each, and their metadata.
    ///
    /// # Errors
    /// When the decisions cannot be read.
    pub(super) fn encoded(
        &self,
        path: &str,
        positions: impl Iterator<Item = u64>,
        schema: &SchemaDescriptor,
        properties: &WriterPropertiesPtr,
        waiter: &Waiter,
    ) -> Result<Vec<(Bytes, ColumnCloseResult)>> {
        let mut rows = TextColumns::new(self.columns().map(|(_, data_type)| data_type));
        let count = self.columns().count();
        let first = schema.num_columns() - count;
        let mut sinks: Vec<TrackedWrite<Vec<u8>>> =
            (0..count).map(|_| TrackedWrite::new(Vec::new())).collect();
        let mut writers = Vec::with_capacity(count);
        for (at, sink) in sinks.iter_mut().enumerate() {
            let pages = Box::new(SerializedPageWriter::new(sink));
            writers.push(get_column_writer(schema.column(first + at), Arc::clone(properties), pages));
        }
        let mut positions = positions.peekable();
        while positions.peek().is_some() {
            waiter.wait(async {
                for position in positions.by_ref().take(BATCH_ROWS) {
                    rows.push([], &self.decisions.at(path, position).await?.added);
                }
                Ok(())
            })?;
            for (writer, column) in writers.iter_mut().zip(&rows.finish()?) {
                write(writer, column)?;
            }
        }
        let closed = writers.into_iter().map(ColumnWriter::close).collect::<Result<Vec<_>, _>>()?;
        sinks.into_iter().zip(closed).map(|(sink, closed)| Ok((sink.into_inner()?.into(), closed))).collect()
    }
}

/// Writes a column of optional values.
fn write(to: &mut ColumnWriter<'_>, column: &ArrayRef) -> Result<()> {
    let defined: Vec<i16> = (0..column.len()).map(|row| i16::from(column.is_valid(row))).collect();
    let written = match to {
        ColumnWriter::ByteArrayColumnWriter(to) => column.as_string_opt::<i32>().map(|texts| {
            let texts: Vec<ByteArray> = texts.iter().flatten().map(ByteArray::from).collect();
            to.write_batch(&texts, Some(&defined), None)
        }),
        ColumnWriter::Int64ColumnWriter(to) => column.as_primitive_opt::<Int64Type>().map(|numbers| {
            let numbers: Vec<i64> = numbers.iter().flatten().collect();
            to.write_batch(&numbers, Some(&defined), None)
        }),
        ColumnWriter::BoolColumnWriter(to) => column.as_boolean_opt().map(|flags| {
            let flags: Vec<bool> = flags.iter().flatten().collect();
            to.write_batch(&flags, Some(&defined), None)
        }),
        _ => None,
    };
    match written {
        Some(written) => Ok(written.map(|_| ())?),
        None => Err(Error::bug("an added column is of another type")),
    }
}
