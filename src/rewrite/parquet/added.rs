//! The annotation columns, after those of the file.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::{SchemaDescriptor, Type, TypePtr};

use super::super::annotations::{AnnotationColumn, Cursor};
use super::blocking::Waiter;
use crate::error::{Error, Result};

/// Rows of a batch of annotations.
const BATCH_ROWS: usize = 8192;

/// The annotation columns of a file that is being written.
pub(super) struct Added(pub Cursor);

impl Added {
    /// A schema with the annotation columns after its own.
    ///
    /// # Errors
    /// If a column of the schema is invalid, which is a bug.
    pub(super) fn schema(&self, own: &Type) -> Result<TypePtr> {
        let column = |added: &AnnotationColumn| {
            let of = match added.data_type {
                DataType::Boolean => PhysicalType::BOOLEAN,
                DataType::Int64 => PhysicalType::INT64,
                _ => PhysicalType::BYTE_ARRAY,
            };
            let text = (of == PhysicalType::BYTE_ARRAY).then_some(LogicalType::String);
            let column = Type::primitive_type_builder(added.name, of)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(text);
            Ok(Arc::new(column.build()?))
        };
        let added = self.0.columns.iter().map(column);
        let fields = own.get_fields().iter().cloned().map(Ok).chain(added).collect::<Result<_>>()?;
        Ok(Arc::new(Type::group_type_builder(own.name()).with_fields(fields).build()?))
    }

    /// The encoded columns of the documents at `positions`: the bytes of each, and their metadata.
    ///
    /// # Errors
    /// When a table of annotations cannot be read.
    pub(super) fn encoded(
        &mut self,
        positions: impl Iterator<Item = u64>,
        schema: &SchemaDescriptor,
        properties: &WriterPropertiesPtr,
        waiter: &Waiter,
    ) -> Result<Vec<(Bytes, ColumnCloseResult)>> {
        let count = self.0.columns.len();
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
            let batch = UInt64Array::from_iter_values(positions.by_ref().take(BATCH_ROWS));
            let columns = waiter.wait(self.0.columns_at(&batch))?;
            for (writer, column) in writers.iter_mut().zip(&columns) {
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
