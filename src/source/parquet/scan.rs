//! A table over Parquet files, which the engine itself reads.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result as DfResult;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::scalar::ScalarValue;

use super::footer::INT96_UNIT;
use super::number_rows::NumberRows;
use super::numbering::{CHUNK_COLUMN, Chunk, WantedRows};
use super::pinned::pinned_scan;
use crate::plan::OperatorExec;
use crate::source::checksums::Checksums;
use crate::source::columns::{numbered_schema, project};
use crate::source::selection::{RowSet, Selection, too_few};
use crate::source::split::{Split, spread};

/// Rows of Parquet files; columns as [`NumberRows`] has them.
#[derive(Debug)]
pub(in crate::source) struct FileTable {
    /// The columns of the files that are the values.
    values: SchemaRef,
    partition_columns: Vec<String>,
    scans: Vec<StoreScan>,
    /// The rows that are read; `None` for all.
    wanted: Option<Selection>,
    schema: SchemaRef,
}

/// The files of one store, which one scan can read.
#[derive(Debug)]
pub(super) struct StoreScan {
    pub store: ObjectStoreUrl,
    /// Rows of a batch.
    pub batch_rows: usize,
    pub splits: Vec<Split>,
}

impl FileTable {
    pub(super) fn new(
        values: SchemaRef,
        partition_columns: Vec<String>,
        scans: Vec<StoreScan>,
        wanted: Option<Selection>,
    ) -> Self {
        let types = values.fields().iter().map(|field| field.data_type());
        let schema = numbered_schema(types, partition_columns.len());
        Self { values, partition_columns, scans, wanted, schema }
    }

    /// The splits of a scan with wanted rows.
    fn splits(&self, scan: &StoreScan) -> DfResult<Vec<Split>> {
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
        scan: &StoreScan,
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
