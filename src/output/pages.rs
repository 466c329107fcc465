//! The pages of the files of a table in which commands look few rows up.
//!
//! Such a look-up reads the bounds of all pages, which stand together in a file, and then the pages that may have its rows
//! (`wanted_pages`). Smaller pages are fewer bytes for each row that is looked up, and more bounds.

use parquet::basic::Encoding;
use parquet::file::properties::{EnabledStatistics, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::schema::Table;

/// The pages of a table's files.
struct PageSettings {
    /// The most rows of a page.
    rows: usize,
    /// The columns whose pages have bounds.
    bounds: &'static [&'static str],
    /// The column of numbers by which the rows are sorted, if there is one. It is written as differences.
    sorted_by: Option<&'static str>,
}

/// The pages of a table; `None` for tables that are read as a whole, whose pages are as large as the library makes them.
fn pages(table: Table) -> Option<PageSettings> {
    match table {
        // Sixteen buckets in a table of 160,000,000 rows: about 3 MB of pages and 2 MB of bounds.
        Table::Buckets => Some(PageSettings { rows: 8_192, bounds: &["bucket"], sorted_by: Some("bucket") }),
        // A signature has 256 bytes, so a page of them 256 KB.
        Table::Documents => {
            Some(PageSettings { rows: 1_024, bounds: &["id", "source", "position"], sorted_by: None })
        }
        _ => None,
    }
}

/// `properties` with the pages of the table of this name.
pub(super) fn with_pages(properties: WriterPropertiesBuilder, table: &str) -> WriterPropertiesBuilder {
    let Some(PageSettings { rows, bounds, sorted_by }) = Table::named(table).and_then(pages) else {
        return properties;
    };
    let properties = properties
        .set_data_page_row_count_limit(rows)
        // The paths of files may differ only in their last letters.
        .set_column_index_truncate_length(None);
    let properties = bounds.iter().fold(properties, |properties, column| {
        properties.set_column_statistics_enabled(ColumnPath::from(*column), EnabledStatistics::Page)
    });
    match sorted_by {
        Some(column) => {
            properties.set_column_encoding(ColumnPath::from(column), Encoding::DELTA_BINARY_PACKED)
        }
        None => properties,
    }
}
