//! Scans that read Parquet files as they were listed.

use std::sync::Arc;

use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result as DfResult;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::ExecutionPlan;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::footer::{FilesToCheck, Readers};
use super::numbering::{Chunk, WantedRows, chunk_of};
use crate::plan::file_scan;
use crate::source::checksums::Checksums;
use crate::source::pin::Pins;

/// `input`; where it is a scan of Parquet files, one that reads the files as they were listed, checks their footers, and skips
/// unwanted rows.
///
/// The bytes that are read of files whose rows are all read are added to `checksums`, if there are any. Other scans take their
/// stores from the context in which they run, to which [`NumberRows`](super::NumberRows) adds the same pins.
///
/// # Errors
/// Where there is no store for the scan's URL.
pub(crate) fn pinned_scan(
    input: Arc<dyn ExecutionPlan>,
    runtime: &RuntimeEnv,
    chunks: &[Chunk],
    checksums: Option<Arc<Checksums>>,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let Some(scan) = file_scan(&input) else { return Ok(input) };
    let Some(parquet) = scan.file_source().downcast_ref::<ParquetSource>() else { return Ok(input) };
    let store = runtime.object_store(&scan.object_store_url)?;
    let store = Pins::new(chunks.iter().map(|chunk| &chunk.pin)).over(store);
    let checked = |chunk: &Chunk| {
        let location = chunk.wanted.is_none().then(|| chunk.pin.location().ok())??;
        Some((location, (Arc::clone(&chunk.source), chunk.pin.clone())))
    };
    let checksums = checksums.map(|checksums| {
        let files = Arc::new(chunks.iter().filter_map(checked).collect());
        FilesToCheck { files, checksums }
    });
    let page_limit = match runtime.memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes,
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    };
    let cache = runtime.cache_manager.get_file_metadata_cache();
    let read = scan.file_schema();
    let readers = Readers::new(store, cache, checksums, page_limit, read, chunks);
    let source = parquet.clone().with_parquet_file_reader_factory(Arc::new(readers));
    let wanted = |file: &PartitionedFile| {
        let wanted = chunks.get(chunk_of(file)? as usize)?.wanted.as_ref()?;
        Some(file.clone().with_extension(ParquetRowSelection::new(row_selection(wanted))))
    };
    let groups = scan.file_groups.iter().map(|group| {
        group.iter().map(|file| wanted(file).unwrap_or_else(|| file.clone())).collect::<Vec<_>>().into()
    });
    let groups = groups.collect();
    let scan = FileScanConfigBuilder::from(scan.clone())
        .with_source(Arc::new(source))
        .with_file_groups(groups)
        .build();
    Ok(DataSourceExec::from_data_source(scan))
}

/// The wanted rows in the form of the Parquet reader: runs of rows that are read or skipped.
fn row_selection(wanted: &WantedRows) -> RowSelection {
    let mut selectors = Vec::new();
    let mut at = 0;
    while let Some(run) = wanted.next_read(at) {
        selectors.push(RowSelector::skip((run.start - at) as usize));
        selectors.push(RowSelector::select((run.end - run.start) as usize));
        at = run.end;
    }
    selectors.push(RowSelector::skip(wanted.file_rows.saturating_sub(at) as usize));
    selectors.retain(|selector| selector.row_count > 0);
    selectors.into()
}
