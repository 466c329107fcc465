//! The page settings for tables in which commands look up few rows, and scans that read only some pages.
//!
//! A look-up reads the bounds (least and greatest values) of all pages in a file, and then the pages that can contain the wanted rows. With
//! smaller pages, a look-up reads fewer bytes of pages but more bounds.
//!
//! DataFusion also skips row groups and pages by a predicate, but only for a short list of values. A bucket can contain many documents, so
//! this module compares any number of values with the bounds.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Statistics;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result as DfResult;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::basic::Encoding;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::properties::{EnabledStatistics, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use crate::plan::file_scan;
use crate::schema::Table;

/// The settings for the pages in a table's files.
struct PageSettings {
    /// The maximum number of rows in a page.
    rows: usize,
    /// The columns for which the bounds of pages are written.
    bounds: &'static [&'static str],
    /// The integer column by which the table is sorted, if any. Its values are encoded as differences.
    sorted_by: Option<&'static str>,
}

/// Returns the page settings of a table, or `None` for a table that is read as a whole and has the library's default pages.
fn pages(table: Table) -> Option<PageSettings> {
    match table {
        // A look-up of sixteen buckets in a table with 160,000,000 rows reads about 3 MB of pages and 2 MB of bounds.
        Table::Buckets => Some(PageSettings { rows: 8_192, bounds: &["bucket"], sorted_by: Some("bucket") }),
        // A signature has 256 bytes, so 1,024 signatures take 256 KiB.
        Table::Documents => {
            Some(PageSettings { rows: 1_024, bounds: &["id", "source", "position"], sorted_by: None })
        }
        _ => None,
    }
}

/// Adds the page settings of the table with this name to `properties`.
pub(super) fn with_pages(properties: WriterPropertiesBuilder, table: &str) -> WriterPropertiesBuilder {
    let Some(PageSettings { rows, bounds, sorted_by }) = Table::named(table).and_then(pages) else {
        return properties;
    };
    let properties = properties
        .set_data_page_row_count_limit(rows)
        // Paths of files can differ only in their last letters, so bounds are not truncated.
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

/// Bounds are read from this many files at the same time.
const CONCURRENT_FILES: usize = 16;

#[derive(Debug)]
pub(crate) enum LookedUpRows {
    /// The rows with one of these numbers in this column. The numbers are in ascending order.
    Numbers(&'static str, Vec<i64>),
    /// The rows at these positions in files. The key is the value in the column `source`, as bytes. The positions are in ascending order.
    Places(BTreeMap<Vec<u8>, Vec<i64>>),
}

impl LookedUpRows {
    /// Returns the scan `plan` of a table with only the pages that can contain these rows, by their bounds. The scan returns all of these
    /// rows, and possibly other rows.
    pub(super) async fn scan(
        self: &Arc<Self>,
        state: &dyn Session,
        plan: Arc<dyn ExecutionPlan>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let Some(scan) = file_scan(&plan) else { return Ok(plan) };
        let store = state.runtime_env().object_store(&scan.object_store_url)?;
        let cache = state.runtime_env().cache_manager.get_file_metadata_cache();
        // A scan may contain several ranges of one file.
        let files = scan.file_groups.iter().flat_map(FileGroup::iter);
        let files: BTreeMap<Path, ObjectMeta> =
            files.map(|file| (file.object_meta.location.clone(), file.object_meta.clone())).collect();
        let selected = files
            .into_values()
            .map(|file| selected(Arc::clone(self), Arc::clone(&store), Arc::clone(&cache), file));
        let selected: BTreeMap<Path, RowSelection> =
            stream::iter(selected).buffered(CONCURRENT_FILES).try_collect().await?;
        let wanted = |file: &PartitionedFile| {
            let rows = selected.get(&file.object_meta.location).filter(|rows| rows.selects_any())?;
            let mut file = file.clone().with_extension(ParquetRowSelection::new(rows.clone()));
            // The statistics describe all rows of the file, so they do not apply to the selected rows.
            file.statistics = None;
            Some(file)
        };
        let groups = scan.file_groups.iter().map(|group| group.iter().filter_map(wanted).collect::<Vec<_>>());
        let groups: Vec<FileGroup> = groups.filter(|group| !group.is_empty()).map(FileGroup::new).collect();
        if groups.is_empty() {
            return Ok(Arc::new(EmptyExec::new(plan.schema())));
        }
        let unknown = Statistics::new_unknown(scan.file_schema());
        let config = FileScanConfigBuilder::from(scan.clone()).with_statistics(unknown);
        Ok(DataSourceExec::from_data_source(config.with_file_groups(groups).build()))
    }
}

/// Returns the path of a file, and the rows in pages that can contain wanted rows. The metadata are in the cache, because the scan was
/// planned with them. The scan also reads the page offsets from the cache.
async fn selected(
    wanted: Arc<LookedUpRows>,
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    file: ObjectMeta,
) -> DfResult<(Path, RowSelection)> {
    let metadata = DFParquetMetadata::new(store.as_ref(), &file)
        .with_file_metadata_cache(Some(cache))
        .with_page_index_policy(Some(PageIndexPolicy::Optional))
        .fetch_metadata()
        .await?;
    Ok((file.location, wanted.rows(&metadata)))
}

impl LookedUpRows {
    /// Returns the rows in the pages of a file that can contain wanted rows.
    fn rows(&self, metadata: &ParquetMetaData) -> RowSelection {
        let groups = 0..metadata.num_row_groups();
        groups.flat_map(|group| self.rows_of_group(metadata, group)).collect::<Vec<_>>().into()
    }

    fn rows_of_group(&self, metadata: &ParquetMetaData, group: usize) -> Vec<RowSelector> {
        let (number, text) = match self {
            LookedUpRows::Numbers(number, _) => (*number, None),
            LookedUpRows::Places(_) => ("position", Some("source")),
        };
        let Some(numbers) = Pages::find(metadata, group, number) else {
            // The file has no bounds, so all rows are read.
            return vec![RowSelector::select(metadata.row_group(group).num_rows().max(0) as usize)];
        };
        let texts = text.and_then(|text| Pages::find(metadata, group, text));
        let selected = |page: usize| {
            let rows = numbers.rows_of(page);
            let texts = texts.as_ref().and_then(|texts| texts.texts(&rows));
            if self.may_have(numbers.numbers(page), texts) {
                RowSelector::select(rows.len())
            } else {
                RowSelector::skip(rows.len())
            }
        };
        (0..numbers.pages.len()).map(selected).collect()
    }

    /// Whether a page with these inclusive bounds can contain a wanted row. `None` means that the bounds are unknown.
    fn may_have(&self, numbers: Option<(i64, i64)>, texts: Option<(&[u8], &[u8])>) -> bool {
        let Some((least, greatest)) = numbers else { return true };
        let among = |wanted: &[i64]| {
            let first = wanted.partition_point(|number| *number < least);
            wanted.get(first).is_some_and(|number| *number <= greatest)
        };
        match (self, texts) {
            (LookedUpRows::Numbers(_, wanted), _) => among(wanted),
            (LookedUpRows::Places(_), None) => true,
            (LookedUpRows::Places(wanted), Some((first, last))) => {
                let from_first = wanted.range::<[u8], _>((Bound::Included(first), Bound::Unbounded));
                from_first.take_while(|(text, _)| text.as_slice() <= last).any(|(_, wanted)| among(wanted))
            }
        }
    }
}

struct Pages<'a> {
    bounds: &'a ColumnIndexMetaData,
    pages: &'a [PageLocation],
    /// The number of rows in the row group.
    rows: usize,
}

impl<'a> Pages<'a> {
    /// Returns the pages of the column with this name, or `None` if they have no bounds.
    fn find(metadata: &'a ParquetMetaData, group: usize, name: &str) -> Option<Self> {
        let about = metadata.row_group(group);
        let column = about.columns().iter().position(|column| column.column_path().string() == name)?;
        let bounds = metadata.column_index()?.get(group)?.get(column)?;
        let pages = metadata.offset_index()?.get(group)?.get(column)?.page_locations();
        let rows = about.num_rows().max(0) as usize;
        (!matches!(bounds, ColumnIndexMetaData::NONE)).then_some(Self { bounds, pages, rows })
    }

    /// Returns the rows in a page, counted from the start of the row group.
    fn rows_of(&self, page: usize) -> Range<usize> {
        let first = |page: &PageLocation| (page.first_row_index.max(0) as usize).min(self.rows);
        let start = self.pages.get(page).map_or(self.rows, first);
        start..self.pages.get(page + 1).map_or(self.rows, first).max(start)
    }

    fn numbers(&self, page: usize) -> Option<(i64, i64)> {
        match self.bounds {
            ColumnIndexMetaData::INT64(bounds) if page < bounds.num_pages() as usize => {
                Some((*bounds.min_value(page)?, *bounds.max_value(page)?))
            }
            _ => None,
        }
    }

    /// Returns the minimum and the maximum text in the pages that overlap with these rows of the row group.
    fn texts(&self, rows: &Range<usize>) -> Option<(&'a [u8], &'a [u8])> {
        let ColumnIndexMetaData::BYTE_ARRAY(bounds) = self.bounds else { return None };
        let before = self.pages.partition_point(|page| page.first_row_index <= rows.start as i64);
        let pages = (before.saturating_sub(1)..self.pages.len()).map(|page| (page, self.rows_of(page)));
        let mut all: Option<(&[u8], &[u8])> = None;
        for (page, _) in pages.take_while(|(_, own)| own.start < rows.end) {
            if page >= bounds.num_pages() as usize {
                return None;
            }
            let (least, greatest) = (bounds.min_value(page)?, bounds.max_value(page)?);
            all = Some(match all {
                None => (least, greatest),
                Some((first, last)) => (first.min(least), last.max(greatest)),
            });
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::ParquetMetaDataReader;
    use parquet::file::properties::WriterProperties;

    use super::{with_pages, *};

    /// Returns the metadata of a file with some columns of the table with this name, and with the settings of its pages.
    fn metadata(table: &str, columns: Vec<(&str, ArrayRef)>) -> ParquetMetaData {
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let properties = with_pages(WriterProperties::builder(), table).set_dictionary_enabled(false);
        let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), Some(properties.build())).unwrap();
        for first in (0..rows.num_rows()).step_by(256) {
            writer.write(&rows.slice(first, 256.min(rows.num_rows() - first))).unwrap();
        }
        let bytes = Bytes::from(writer.into_inner().unwrap());
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
        reader.parse_and_finish(&bytes).unwrap()
    }

    fn read(rows: RowSelection) -> Vec<usize> {
        let (mut at, mut read) = (0, Vec::new());
        for selector in rows.iter() {
            if !selector.skip {
                read.extend(at..at + selector.row_count);
            }
            at += selector.row_count;
        }
        read
    }

    /// Documents of three files. By default, Parquet writers truncate bounds to a length at which the paths do not differ yet.
    fn documents(table: &str) -> ParquetMetaData {
        let sources = (0..9_000).map(|row| source(row / 3_000));
        let positions = Int64Array::from_iter_values((0..9_000).map(|row| row % 3_000));
        let sources: ArrayRef = Arc::new(StringArray::from_iter_values(sources));
        metadata(table, vec![("source", sources), ("position", Arc::new(positions))])
    }

    fn source(file: i64) -> String {
        format!("{}{file}", "a folder/".repeat(20))
    }

    #[test]
    fn places_are_in_few_pages_of_files_with_bounds() {
        let wanted = |places: &[(i64, &[i64])]| {
            let places = places.iter().map(|(file, at)| (source(*file).into_bytes(), at.to_vec()));
            read(LookedUpRows::Places(places.collect()).rows(&documents("documents")))
        };
        for (file, position) in [(0, 0), (0, 2_999), (1, 1_500), (2, 0), (2, 2_999)] {
            let rows = wanted(&[(file, &[position])]);
            assert!(rows.contains(&((file * 3_000 + position) as usize)), "{file} {position}");
            // A page that begins in one file and ends in another can contain any position.
            assert!(rows.len() <= 3 * 1_024, "{file} {position}: {} rows", rows.len());
        }
        assert_eq!(wanted(&[]), [0; 0]);
        assert_eq!(wanted(&[(7, &[5])]), [0; 0]);
        let rows = wanted(&[(0, &[3, 2_700]), (2, &[2_999])]);
        assert!([3, 2_700, 8_999].iter().all(|row| rows.contains(row)) && rows.len() < 9_000);
        let places = BTreeMap::from([(source(1).into_bytes(), vec![5])]);
        assert_eq!(read(LookedUpRows::Places(places).rows(&documents("rejects"))).len(), 9_000);
    }

    #[test]
    fn numbers_are_in_few_pages() {
        // Other numbers are between the bounds of a page, or between two pages.
        let numbers = (-30_000..30_000_i64).map(|number| 3 * number);
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(numbers));
        let metadata = metadata("buckets", vec![("bucket", column)]);
        let wanted =
            |numbers: &[i64]| read(LookedUpRows::Numbers("bucket", numbers.to_vec()).rows(&metadata));
        for row in [0, 8_191, 8_192, 29_999, 30_000, 59_999_usize] {
            let rows = wanted(&[3 * (row as i64 - 30_000)]);
            assert!(rows.contains(&row) && rows.len() <= 8_192, "{row}: {} rows", rows.len());
        }
        assert_eq!(wanted(&[i64::MIN, -90_001, 90_000, i64::MAX]), [0; 0]);
        let ends: Vec<usize> = wanted(&[-90_000, 89_997]);
        assert_eq!((ends.first(), ends.last()), (Some(&0), Some(&59_999)));
        assert!(ends.len() <= 2 * 8_192);
    }
}
