//! Columns that are added after the columns of a file, and the writer properties of an existing file.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter, encode_arrow_schema};
use parquet::basic::{ConvertedType, Encoding, Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, KeyValue, ParquetMetaData, RowGroupMetaData, SortingColumn,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{Type as SchemaType, TypePtr};
use serde_json::{Value, json};

use super::blocking::Waiter;
use crate::error::Result;
use crate::rewrite::decisions::{Annotation, Decisions, TextColumns, annotated};
use crate::schema::IdType;
use crate::source::decoded_arrow_schema;

/// The metadata key under which Spark stores its schema.
const SPARK_SCHEMA: &str = "org.apache.spark.sql.parquet.row.metadata";

/// The number of rows per batch of added columns.
const BATCH_ROWS: usize = 8192;

pub(super) struct Added {
    pub annotations: Arc<[Annotation]>,
    pub id: IdType,
    pub decisions: Decisions,
}

impl Added {
    fn columns(&self) -> Schema {
        annotated(&Schema::empty(), &self.annotations, self.id)
    }

    pub(super) fn schema(&self, own: &SchemaType) -> Result<TypePtr> {
        let added = ArrowSchemaConverter::new().convert(&self.columns())?;
        let fields = own.get_fields().iter().chain(added.root_schema().get_fields()).cloned().collect();
        Ok(Arc::new(SchemaType::group_type_builder(own.name()).with_fields(fields).build()?))
    }

    /// Adapts the key-value metadata of a file to the added columns. Readers prefer the schemas in this metadata to the schema of the file,
    /// so these schemas are extended or removed.
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

    /// Extends the Arrow schema. Returns `None` if the schema contains types that this version of Arrow does not know. Readers then use the
    /// types of Parquet.
    fn arrow_schema(&self, encoded: &str) -> Option<String> {
        let own = decoded_arrow_schema(encoded)?;
        Some(encode_arrow_schema(&annotated(&own, &self.annotations, self.id)))
    }

    fn spark_schema(&self, text: &str) -> Option<String> {
        let mut schema: Value = serde_json::from_str(text).ok()?;
        let columns = schema.get_mut("fields")?.as_array_mut()?;
        columns.extend(self.columns().fields().iter().map(|field| {
            let kind = match field.data_type() {
                DataType::Boolean => "boolean",
                DataType::Int64 => "long",
                DataType::Float64 => "double",
                _ => "string",
            };
            json!({"name": field.name(), "type": kind, "nullable": true, "metadata": {}})
        }));
        Some(schema.to_string())
    }

    pub(super) fn writers(&self, properties: &WriterPropertiesPtr) -> Result<ArrowRowGroupWriterFactory> {
        let columns = self.columns();
        let schema = ArrowSchemaConverter::new().convert(&columns)?.root_schema_ptr();
        // The factory copies its settings from a file writer.
        let file = SerializedFileWriter::new(Vec::new(), schema, Arc::clone(properties))?;
        Ok(ArrowRowGroupWriterFactory::new(&file, Arc::new(columns)))
    }

    /// Encodes the added columns for the documents at `positions` in the file `path`.
    pub(super) fn encoded(
        &self,
        writers: &ArrowRowGroupWriterFactory,
        path: &str,
        positions: impl Iterator<Item = u64>,
        waiter: &Waiter,
    ) -> Result<Vec<ArrowColumnChunk>> {
        let columns = self.columns();
        let mut rows = TextColumns::new(columns.fields().iter().map(|field| field.data_type().clone()));
        let mut writers = writers.create_column_writers(0)?;
        let mut positions = positions.peekable();
        while positions.peek().is_some() {
            waiter.wait(async {
                for position in positions.by_ref().take(BATCH_ROWS) {
                    rows.push([], &self.decisions.at(path, position).await?.added);
                }
                Ok(())
            })?;
            for ((writer, field), column) in writers.iter_mut().zip(columns.fields()).zip(&rows.finish()?) {
                for leaf in compute_leaves(field, column)? {
                    writer.write(&leaf)?;
                }
            }
        }
        writers.into_iter().map(|writer| Ok(writer.close()?)).collect()
    }
}

/// Returns the encoding that the writer of the file chose for a column. Returns `None` if it used the default encoding.
fn chosen_encoding(column: &ColumnChunkMetaData) -> Option<Encoding> {
    use Type::{BYTE_ARRAY, DOUBLE, FIXED_LEN_BYTE_ARRAY, FLOAT, INT32, INT64};
    let of = column.column_type();
    column.encodings().find(|encoding| match encoding {
        Encoding::DELTA_BINARY_PACKED => matches!(of, INT32 | INT64),
        Encoding::DELTA_LENGTH_BYTE_ARRAY => of == BYTE_ARRAY,
        Encoding::DELTA_BYTE_ARRAY => matches!(of, BYTE_ARRAY | FIXED_LEN_BYTE_ARRAY),
        Encoding::BYTE_STREAM_SPLIT => matches!(of, INT32 | INT64 | FLOAT | DOUBLE | FIXED_LEN_BYTE_ARRAY),
        _ => false,
    })
}

/// Returns properties that reproduce the compression, dictionaries, encodings, Bloom filters and sort order of the largest row group in
/// `metadata`. `pairs` is the key-value metadata. The values in the leaf `edited` change, so the file is not declared as sorted by this
/// leaf.
pub(super) fn properties(
    metadata: &ParquetMetaData,
    pairs: Option<Vec<KeyValue>>,
    edited: Option<usize>,
) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("resemblance ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(pairs);
    let groups = metadata.row_groups();
    let Some(largest) = groups.iter().max_by_key(|group| group.num_rows()) else { return properties.build() };
    if groups.iter().all(|group| group.sorting_columns() == largest.sorting_columns()) {
        // The remaining rows keep their order.
        let is_same = |column: &&SortingColumn| usize::try_from(column.column_idx).ok() != edited;
        let sorted = largest.sorting_columns().map(|columns| columns.iter().take_while(is_same).cloned());
        let sorted = sorted.map(Iterator::collect::<Vec<_>>).filter(|columns| !columns.is_empty());
        properties = properties.set_sorting_columns(sorted);
    }
    if let Some(column) = largest.columns().first() {
        // Added columns are compressed like the first column.
        properties = properties.set_compression(column.compression());
    }
    largest
        .columns()
        .iter()
        .fold(properties, |properties, column| column_properties(properties, largest, column))
        .build()
}

fn column_properties(
    properties: WriterPropertiesBuilder,
    group: &RowGroupMetaData,
    column: &ColumnChunkMetaData,
) -> WriterPropertiesBuilder {
    let path = column.column_path();
    let is = |encoding: Encoding| column.encodings().any(|of_column| of_column == encoding);
    let has_dictionary = column.dictionary_page_offset().is_some()
        || is(Encoding::RLE_DICTIONARY)
        // The name of the encoding in old files.
        || is(Encoding::PLAIN_DICTIONARY);
    let mut properties = properties
        .set_column_compression(path.clone(), column.compression())
        .set_column_dictionary_enabled(path.clone(), has_dictionary);
    if let Some(encoding) = chosen_encoding(column) {
        properties = properties.set_column_encoding(path.clone(), encoding);
    }
    // An interval has several representations. DuckDB adds all of them to a filter and records this in the metadata. With a filter from
    // another program, DuckDB would not find all rows.
    let has_forms = column.column_descr().converted_type() == ConvertedType::INTERVAL;
    if column.bloom_filter_offset().is_some() && !has_forms {
        // The writer shrinks the filter to the number of distinct values.
        let rows = group.num_rows().max(1).cast_unsigned();
        properties = properties
            .set_column_bloom_filter_enabled(path.clone(), true)
            .set_column_bloom_filter_max_ndv(path.clone(), rows);
    }
    properties
}
