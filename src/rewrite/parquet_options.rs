//! How a Parquet file is written that is to be like another one.

use std::sync::Arc;

use arrow::datatypes::Schema;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowSchemaConverter};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::source::ParquetFile;

/// The options by which rows in `schema` are written like `parquet`: its Parquet types, key-value metadata, compression,
/// dictionaries, Bloom filters and order, and row groups of as many rows as its largest one. `schema` has its columns, and
/// perhaps more behind them.
///
/// # Errors
/// When a type of `schema` has no form in Parquet.
pub(super) fn options(parquet: &ParquetFile, schema: &Schema) -> Result<ArrowWriterOptions> {
    let about = parquet.metadata.file_metadata();
    let is_longer = schema.fields().len() > parquet.schema().fields().len();
    // The Arrow schema of the file knows nothing of added columns; the writer makes another one then.
    let known_to_arrow = about
        .key_value_metadata()
        .is_some_and(|pairs| pairs.iter().any(|pair| pair.key == ARROW_SCHEMA_META_KEY));
    let options = ArrowWriterOptions::new()
        .with_properties(properties(parquet, is_longer))
        .with_skip_arrow_metadata(!(known_to_arrow && is_longer));
    let converted = ArrowSchemaConverter::new().with_coerce_types(false).convert(schema)?;
    let own = match is_longer {
        true => longer(about.schema_descr(), &converted)?,
        false => SchemaDescriptor::new(about.schema_descr().root_schema_ptr()),
    };
    Ok(match same_layout(&own, &converted) {
        true => options.with_parquet_schema(own),
        // Types that Arrow's writer no longer has, such as the 96-bit times of old files, are written as their successors.
        false => options,
    })
}

/// The columns of `own`, and behind them those that only `converted` has.
fn longer(own: &SchemaDescriptor, converted: &SchemaDescriptor) -> Result<SchemaDescriptor> {
    let root = own.root_schema();
    let added = converted.root_schema().get_fields().iter().skip(root.get_fields().len());
    let fields = root.get_fields().iter().chain(added).cloned().collect();
    let root = Type::group_type_builder(root.name()).with_fields(fields).build()?;
    Ok(SchemaDescriptor::new(Arc::new(root)))
}

/// Whether values that are made for one schema can be written by the other.
fn same_layout(a: &SchemaDescriptor, b: &SchemaDescriptor) -> bool {
    a.num_columns() == b.num_columns()
        && a.columns().iter().zip(b.columns()).all(|(a, b)| {
            (a.physical_type(), a.type_length()) == (b.physical_type(), b.type_length())
                && (a.max_def_level(), a.max_rep_level()) == (b.max_def_level(), b.max_rep_level())
        })
}

fn properties(parquet: &ParquetFile, is_longer: bool) -> WriterProperties {
    let groups = parquet.metadata.row_groups();
    let largest = groups.iter().filter_map(|group| usize::try_from(group.num_rows()).ok()).max();
    let pairs = parquet.metadata.file_metadata().key_value_metadata().cloned();
    let pairs = match is_longer {
        true => {
            pairs.map(|pairs| pairs.into_iter().filter(|pair| pair.key != ARROW_SCHEMA_META_KEY).collect())
        }
        false => pairs,
    };
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("resemblance ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_coerce_types(false)
        .set_key_value_metadata(pairs);
    if let Some(rows) = largest.filter(|rows| *rows > 0) {
        properties = properties.set_max_row_group_row_count(Some(rows));
    }
    let Some(first) = groups.first() else { return properties.build() };
    if groups.iter().all(|group| group.sorting_columns() == first.sorting_columns()) {
        // Rows that are left out leave the others in order.
        properties = properties.set_sorting_columns(first.sorting_columns().cloned());
    }
    if let Some(column) = first.columns().first() {
        // What is added is compressed as the first column is.
        properties = properties.set_compression(column.compression());
    }
    for column in first.columns() {
        let path = column.column_path();
        properties = properties
            .set_column_compression(path.clone(), column.compression())
            .set_column_dictionary_enabled(path.clone(), column.dictionary_page_offset().is_some());
        if column.bloom_filter_offset().is_some() {
            properties = properties.set_column_bloom_filter_enabled(path.clone(), true);
        }
    }
    properties.build()
}
