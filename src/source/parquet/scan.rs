//! A table over Parquet files, which the engine itself reads.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result as DfResult;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::scalar::ScalarValue;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::footer::{FilesToCheck, INT96_UNIT, Readers};
use super::number_rows::NumberRows;
use super::number_rows::{CHUNK_COLUMN, Chunk, WantedRows, chunk_of};
use crate::plan::{OperatorExec, file_scan};
use crate::source::checksums::Checksums;
use crate::source::columns::numbered_schema;
use crate::source::columns::project;
use crate::source::pin::Pins;
use crate::source::selection::{RowSet, Selection, too_few};
use crate::source::split::{Split, spread};

/// Rows of Parquet files; columns as [`NumberRows`] has them.
#[derive(Debug)]
pub(in crate::source) struct FileTable {
    /// The columns of the files that are the values.
    values: SchemaRef,
    partition_columns: Vec<String>,
    scans: Vec<Scan>,
    /// The rows that are read; `None` for all.
    wanted: Option<Selection>,
    schema: SchemaRef,
}

/// The files of one store, which one scan can read.
#[derive(Debug)]
pub(super) struct Scan {
    pub store: ObjectStoreUrl,
    /// Rows of a batch.
    pub batch_rows: usize,
    pub splits: Vec<Split>,
}

impl FileTable {
    pub(super) fn new(
        values: SchemaRef,
        partition_columns: Vec<String>,
        scans: Vec<Scan>,
        wanted: Option<Selection>,
    ) -> Self {
        let types = values.fields().iter().map(|field| field.data_type());
        let schema = numbered_schema(types, partition_columns.len());
        Self { values, partition_columns, scans, wanted, schema }
    }

    /// The splits of a scan with wanted rows.
    fn splits(&self, scan: &Scan) -> DfResult<Vec<Split>> {
        let Some(wanted) = &self.wanted else { return Ok(scan.splits.clone()) };
        for Split { file, file_rows, .. } in &scan.splits {
            let last = wanted.of(&file.path).and_then(RowSet::last);
            if let Some((last, rows)) = last.zip(*file_rows).filter(|(last, rows)| last >= rows) {
                return Err(too_few(&file.path, rows, last).into());
            }
        }
        Ok(scan.splits.iter().filter_map(|split| Some(split.only(wanted)?.1)).collect())
    }

    /// A scan, and above it the node that numbers the rows. `values` are the projected ones.
    fn plan(
        &self,
        state: &dyn Session,
        scan: &Scan,
        splits: &[Split],
        values: &[usize],
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let mut chunks = Vec::new();
        let mut groups = Vec::new();
        for group in spread(splits, state.config().target_partitions()) {
            let mut files = Vec::with_capacity(group.len());
            for split in group {
                let wanted = self.wanted.as_ref().and_then(|wanted| split.only(wanted));
                let mut file = PartitionedFile::new_from_meta(split.file.meta.clone())
                    .with_partition_values(vec![ScalarValue::UInt32(Some(chunks.len() as u32))]);
                file.range = split.range;
                files.push(file);
                chunks.push(Chunk {
                    source: split.file.path.as_str().into(),
                    name: split.file.name.as_str().into(),
                    first_row: split.first_row,
                    rows: split.rows,
                    wanted: wanted
                        .zip(split.file_rows)
                        .map(|((rows, _), file_rows)| WantedRows { rows, file_rows }),
                    pin: split.file.pin(),
                    partitions: split.file.partition_values(&self.partition_columns),
                });
            }
            groups.push(FileGroup::new(files));
        }
        let mut projection = values.to_vec();
        projection.push(self.values.fields().len());
        let partitions = groups.len();
        let config = FileScanConfigBuilder::new(scan.store.clone(), self.source())
            .with_file_groups(groups)
            .with_batch_size(Some(scan.batch_rows))
            // Idle partitions would otherwise take files from others, and the order of chunks in a partition tells which file an
            // error is about.
            .with_preserve_order(true)
            // The optimizer cuts a scan into byte ranges unless it declares its partitions. The rows of such pieces could not be
            // numbered.
            .with_output_partitioning(Some(Partitioning::UnknownPartitioning(partitions)))
            .with_projection_indices(Some(projection))?
            .build();
        let checksums = Checksums::of(state.config());
        let input = DataSourceExec::from_data_source(config);
        let input = pinned_scan(input, state.runtime_env(), &chunks, checksums)?;
        OperatorExec::plan(NumberRows { chunks: chunks.into(), batch_rows: scan.batch_rows }, vec![input])
    }

    fn source(&self) -> Arc<dyn FileSource> {
        let chunk = Arc::new(Field::new(CHUNK_COLUMN, DataType::UInt32, false));
        let schema =
            TableSchema::builder(Arc::clone(&self.values)).with_table_partition_cols(vec![chunk]).build();
        let mut options = TableParquetOptions::default();
        // Without predicates page indexes are bytes read for nothing.
        options.global.enable_page_index = false;
        options.global.coerce_int96 = Some(INT96_UNIT.to_owned());
        Arc::new(ParquetSource::new(schema).with_table_parquet_options(options))
    }
}

/// `input`; where it is a scan of Parquet files, one that reads the files as they were listed, checks their footers, and skips
/// unwanted rows.
///
/// The bytes that are read of files whose rows are all read are added to `checksums`, if there are any. Other scans take their
/// stores from the context in which they run, to which [`NumberRows`] adds the same pins.
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

#[async_trait]
impl TableProvider for FileTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let wanted = match projection {
            Some(wanted) => wanted.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let values: Vec<usize> = (0..self.values.fields().len()).filter(|i| wanted.contains(i)).collect();
        let mut plans = self
            .scans
            .iter()
            .map(|scan| Ok((scan, self.splits(scan)?)))
            .filter(|found| !matches!(found, Ok((_, splits)) if splits.is_empty()))
            .map(|found: DfResult<_>| {
                found.and_then(|(scan, splits)| self.plan(state, scan, &splits, &values))
            })
            .collect::<DfResult<Vec<_>>>()?;
        let Some(mut plan) = plans.pop() else {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(&wanted)?))));
        };
        if !plans.is_empty() {
            plans.push(plan);
            plan = UnionExec::try_new(plans)?;
        }
        // The node below has the wanted values first, then its own columns.
        let place = |i: usize| match values.iter().position(|value| *value == i) {
            Some(place) => place,
            None => values.len() + (i - self.values.fields().len()),
        };
        project(plan, &self.schema, &wanted, place)
    }
}
