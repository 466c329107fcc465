//! Reads Parquet files in scans of DataFusion. Refuses files that changed since the listing, and checks footers and pages.

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{DataType, Fields, SchemaRef};
use bytes::Bytes;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{
    ParquetFileMetrics, ParquetFileReaderFactory, ParquetRowSelection,
};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result as DfResult;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::scalar::ScalarValue;
use futures::future::{BoxFuture, FutureExt};
use object_store::ObjectStore;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, RowSelection, RowSelector};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ParquetMetaData;

use super::file::{read_footer, with_bytes, without_foreign_schema};
use crate::error::Error;
use crate::machine::being_read::BeingRead;
use crate::parquet_headers;
use crate::plan::file_scan;
use crate::source::identity::Checksums;
use crate::source::rows::selection::RowSet;
use crate::source::rows::split::{Split, next_run};

/// Returns the index of the split to which a file of a scan belongs. The index is the value of the scan's partition column.
pub(super) fn split_index(file: &PartitionedFile) -> Option<usize> {
    match file.partition_values.last() {
        Some(ScalarValue::UInt32(Some(split))) => Some(*split as usize),
        _ => None,
    }
}

/// Changes a scan of Parquet files so that it reads its `splits` with [`Readers`] and skips unwanted rows. Other plans are returned
/// unchanged. The bytes of files that are read completely are added to `checksums`.
pub(crate) fn pinned_scan(
    input: Arc<dyn ExecutionPlan>,
    runtime: &RuntimeEnv,
    splits: &Arc<[Split]>,
    checksums: Option<Arc<Checksums>>,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let Some(scan) = file_scan(&input) else { return Ok(input) };
    let Some(parquet) = scan.file_source().downcast_ref::<ParquetSource>() else { return Ok(input) };
    let readers = Readers {
        store: runtime.object_store(&scan.object_store_url)?,
        cache: runtime.cache_manager.get_file_metadata_cache(),
        splits: Arc::clone(splits),
        checksums,
        page_limit: match runtime.memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        },
        bytes: has_bytes(scan.file_schema().fields()).then(|| Arc::clone(scan.file_schema())),
    };
    let source = parquet.clone().with_parquet_file_reader_factory(Arc::new(readers));
    let selected = |file: &PartitionedFile| {
        let split = splits.get(split_index(file)?)?;
        let rows = row_selection(split.wanted.as_ref()?, split.file_rows?);
        Some(file.clone().with_extension(ParquetRowSelection::new(rows)))
    };
    let groups = scan.file_groups.iter().map(|group| {
        group.iter().map(|file| selected(file).unwrap_or_else(|| file.clone())).collect::<Vec<_>>().into()
    });
    let groups = groups.collect();
    let scan = FileScanConfigBuilder::from(scan.clone())
        .with_source(Arc::new(source))
        .with_file_groups(groups)
        .build();
    Ok(DataSourceExec::from_data_source(scan))
}

/// Returns the wanted rows of a file as runs of rows that the Parquet reader reads or skips.
fn row_selection(wanted: &RowSet, file_rows: u64) -> RowSelection {
    let mut selectors = Vec::new();
    let mut at = 0;
    while let Some(run) = next_run(wanted, at) {
        selectors.push(RowSelector::skip((run.start - at) as usize));
        selectors.push(RowSelector::select((run.end - run.start) as usize));
        at = run.end;
    }
    selectors.push(RowSelector::skip(file_rows.saturating_sub(at) as usize));
    selectors.retain(|selector| selector.row_count > 0);
    selectors.into()
}

/// Whether a column, or a field of a column, is read as bytes.
fn has_bytes(fields: &Fields) -> bool {
    fields.iter().any(|field| match field.data_type() {
        DataType::BinaryView => true,
        DataType::Struct(inner) => has_bytes(inner),
        _ => false,
    })
}

#[derive(Debug, Clone)]
struct Readers {
    store: Arc<dyn ObjectStore>,
    cache: Arc<FileMetadataCache>,
    splits: Arc<[Split]>,
    checksums: Option<Arc<Checksums>>,
    /// The maximum size of a decompressed page, in bytes.
    page_limit: usize,
    /// The columns that are read, or `None` if none of them is read as bytes.
    bytes: Option<SchemaRef>,
}

impl ParquetFileReaderFactory for Readers {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        _: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> DfResult<Box<dyn AsyncFileReader + Send>> {
        let Some(split) = split_index(&file).and_then(|split| self.splits.get(split)) else {
            return Err(Error::bug("a scan has a file that is in no split").into());
        };
        Ok(Box::new(PinnedReader {
            _reading: BeingRead::begin(Arc::clone(&split.file.path)),
            metrics: ParquetFileMetrics::new(partition, split.file.pin.location.as_ref(), metrics),
            split: split.clone(),
            shared: self.clone(),
            metadata: None,
        }))
    }
}

struct PinnedReader {
    _reading: BeingRead,
    metrics: ParquetFileMetrics,
    split: Split,
    shared: Readers,
    metadata: Option<Arc<ParquetMetaData>>,
}

impl PinnedReader {
    async fn read(&self, ranges: &[Range<u64>]) -> ParquetResult<Vec<Bytes>> {
        let total: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        self.metrics.bytes_scanned.add(total as usize);
        let file = &self.split.file;
        let read = file.pin.get_ranges(self.shared.store.as_ref(), ranges).await.map_err(external)?;
        if let Some(checksums) = self.shared.checksums.as_ref().filter(|_| self.split.wanted.is_none()) {
            ranges.iter().zip(&read).for_each(|(range, bytes)| checksums.add(file, range.start, bytes));
        }
        Ok(read)
    }
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl AsyncFileReader for PinnedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
        async move { Ok(self.read(&[range]).await?.pop().unwrap_or_default()) }.boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, ParquetResult<Vec<Bytes>>> {
        async move {
            let read = self.read(&ranges).await?;
            // Page indexes are not used, so each range is a column chunk.
            for (range, chunk) in ranges.iter().zip(&read) {
                let column = || {
                    let groups = self.metadata.iter().flat_map(|footer| footer.row_groups());
                    groups
                        .flat_map(|group| group.columns())
                        .find(|column| column.byte_range() == (range.start, range.end - range.start))
                        .cloned()
                };
                parquet_headers::check_pages(chunk, self.shared.page_limit, column).map_err(external)?;
            }
            Ok(read)
        }
        .boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
        async move {
            let Readers { store, cache, bytes, .. } = &self.shared;
            let (footer, _) =
                read_footer(store.as_ref(), &self.split.file, cache.as_ref()).await.map_err(external)?;
            let footer = match bytes {
                Some(columns) => with_bytes(&footer, columns).map(Arc::new).map_err(external)?,
                None => without_foreign_schema(footer),
            };
            self.metadata = Some(Arc::clone(&footer));
            Ok(footer)
        }
        .boxed()
    }
}
