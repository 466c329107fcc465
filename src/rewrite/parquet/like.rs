//! The properties with which a file is written like another one.

use parquet::basic::{ConvertedType, Encoding, Type};
use parquet::file::metadata::{
    ColumnChunkMetaData, KeyValue, ParquetMetaData, RowGroupMetaData, SortingColumn,
};
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};

/// An encoding that was chosen for a column; `None` for the default of writers.
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

/// The properties with which rows are written like those of `metadata`: its compression, dictionaries, encodings, Bloom filters
/// and order, those of its largest row group. `pairs` are the key-value metadata. Rows are not in the order of the leaf `edited`
/// any more, whose values change.
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
        .fold(properties, |properties, column| of_column(properties, largest, column))
        .build()
}

fn of_column(
    properties: WriterPropertiesBuilder,
    group: &RowGroupMetaData,
    column: &ColumnChunkMetaData,
) -> WriterPropertiesBuilder {
    let path = column.column_path();
    let is = |encoding: Encoding| column.encodings().any(|of_column| of_column == encoding);
    let has_dictionary = column.dictionary_page_offset().is_some()
        || is(Encoding::RLE_DICTIONARY)
        // The name in old files.
        || is(Encoding::PLAIN_DICTIONARY);
    let mut properties = properties
        .set_column_compression(path.clone(), column.compression())
        .set_column_dictionary_enabled(path.clone(), has_dictionary);
    if let Some(encoding) = chosen_encoding(column) {
        properties = properties.set_column_encoding(path.clone(), encoding);
    }
    // Intervals of one length have several forms: DuckDB puts each into a filter twice, says so in the metadata, and does not
    // find rows by a filter that another program made.
    let has_forms = column.column_descr().converted_type() == ConvertedType::INTERVAL;
    if column.bloom_filter_offset().is_some() && !has_forms {
        // The writer folds it to the number of distinct values.
        let rows = group.num_rows().max(1).cast_unsigned();
        properties = properties
            .set_column_bloom_filter_enabled(path.clone(), true)
            .set_column_bloom_filter_max_ndv(path.clone(), rows);
    }
    properties
}
