//! The pages of the table `documents`, in which commands and later runs look up few documents.

use parquet::file::properties::{EnabledStatistics, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::schema::Table;

/// The maximum number of documents in a page. A look-up reads whole pages, and the offsets of all pages.
const PAGE_ROWS: usize = 512;

/// The approximate maximum size of a page with signatures or shingles: 32 signatures with 128 values of 16 bits and their length.
const SKETCH_PAGE_BYTES: usize = 32 * 260;

/// Adds the page settings of the table with this name to `properties`.
pub(super) fn with_pages(properties: WriterPropertiesBuilder, table: &str) -> WriterPropertiesBuilder {
    if table != Table::Documents.name() {
        return properties;
    }
    let list = |name: &str| ColumnPath::new([name, "list", "item"].map(str::to_owned).into());
    let sketches = [ColumnPath::from("signature"), list("signature"), list("shingles")];
    sketches
        .into_iter()
        .fold(properties, |properties, path| {
            properties.set_column_data_page_size_limit(path, SKETCH_PAGE_BYTES)
        })
        .set_data_page_row_count_limit(PAGE_ROWS)
        // The writer compares the number of rows with the limit after each of these batches.
        .set_write_batch_size(PAGE_ROWS)
        .set_column_statistics_enabled(ColumnPath::from("id"), EnabledStatistics::Page)
        // Ids can be paths that differ only in their last letters, so bounds are not truncated.
        .set_column_index_truncate_length(None)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, RecordBatch, StringArray};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
    use parquet::file::page_index::column_index::ColumnIndexMetaData;
    use parquet::file::properties::WriterProperties;

    use super::*;

    /// Returns the metadata of a file with 5,000 documents. Its pages have the settings of the table with this name.
    fn metadata(table: &str) -> ParquetMetaData {
        let ids = (0..5_000).map(|row| format!("{}{row:04}", "a folder/".repeat(20)));
        let signatures = (0..5_000_u32).map(|row| row.to_le_bytes().repeat(64));
        let columns: [(&str, ArrayRef); 2] = [
            ("id", Arc::new(StringArray::from_iter_values(ids))),
            ("signature", Arc::new(BinaryArray::from_iter_values(signatures))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let properties = with_pages(WriterProperties::builder(), table).set_dictionary_enabled(false);
        let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties.build())).unwrap();
        writer.write(&rows).unwrap();
        let bytes = Bytes::from(writer.into_inner().unwrap());
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
        reader.parse_and_finish(&bytes).unwrap()
    }

    #[test]
    fn a_look_up_reads_small_pages_of_documents() {
        let metadata = metadata("documents");
        let [ids, signatures] = &metadata.offset_index().unwrap()[0][..] else { panic!("two columns") };
        assert_eq!(ids.page_locations().len(), 10);
        let most = signatures.page_locations().iter().map(|page| page.compressed_page_size).max();
        assert!(most.unwrap() < 2 * SKETCH_PAGE_BYTES as i32, "{most:?}");
        let ColumnIndexMetaData::BYTE_ARRAY(bounds) = &metadata.column_index().unwrap()[0][0] else {
            panic!("ids have bounds")
        };
        assert_eq!(bounds.max_value(0), Some(format!("{}0511", "a folder/".repeat(20)).as_bytes()));
    }
}
