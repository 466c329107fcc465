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
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::union::UnionExec;
use datafusion::scalar::ScalarValue;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};

use super::chunks::{Piece, spread};
use super::footer::{INT96_UNIT, Readers};
use super::number_rows::{NumberRows, numbered_schema};
use super::numbering::{CHUNK_COLUMN, Chunk, Wanted, chunk_of, file_scan};
use super::pin::Pins;
use super::selection::{RowSet, Selection, too_few};
use crate::plan::OperatorExec;

/// Rows of files of one format; columns as [`NumberRows`] has them.
#[derive(Debug)]
pub(super) struct FileTable {
    /// All columns of the files, in the files' order where order matters.
    file_schema: SchemaRef,
    /// The columns of `file_schema` that are this table's values.
    columns: Vec<usize>,
    scans: Vec<Scan>,
    /// The rows that are read; none for all.
    wanted: Option<Selection>,
    schema: SchemaRef,
}

/// Files that one scan can read: of one store.
#[derive(Debug)]
pub(super) struct Scan {
    pub store: ObjectStoreUrl,
    /// Rows of a batch.
    pub batch_rows: usize,
    /// What there is to read, by file and row.
    pub pieces: Vec<Piece>,
}

impl FileTable {
    pub(crate) fn new(file_schema: SchemaRef, columns: Vec<usize>, scans: Vec<Scan>) -> Self {
        let schema = numbered_schema(columns.iter().map(|i| file_schema.field(*i).data_type()));
        Self { file_schema, columns, scans, wanted: None, schema }
    }

    /// Only the `wanted` rows, where it says which.
    pub(crate) fn only(self, wanted: Option<Selection>) -> Self {
        Self { wanted, ..self }
    }

    /// What is to be read of a scan's files.
    fn pieces(&self, scan: &Scan) -> DfResult<Vec<Piece>> {
        let Some(wanted) = &self.wanted else { return Ok(scan.pieces.clone()) };
        for Piece { file, file_rows, .. } in &scan.pieces {
            let last = wanted.of(&file.path).and_then(RowSet::last);
            if let Some((last, rows)) = last.zip(*file_rows).filter(|(last, rows)| last >= rows) {
                return Err(too_few(&file.path, rows, last).into());
            }
        }
        Ok(scan.pieces.iter().filter_map(|piece| Some(piece.only(wanted)?.1)).collect())
    }

    /// One scan: the files read, and above it the numbers of the rows. `values` are the wanted ones of `columns`.
    fn plan(
        &self,
        state: &dyn Session,
        scan: &Scan,
        pieces: &[Piece],
        values: &[usize],
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let mut chunks = Vec::new();
        let mut groups = Vec::new();
        for group in spread(pieces, state.config().target_partitions()) {
            let mut files = Vec::with_capacity(group.len());
            for piece in group {
                let wanted = self.wanted.as_ref().and_then(|wanted| piece.only(wanted));
                let mut file = PartitionedFile::new_from_meta(piece.file.meta.clone())
                    .with_partition_values(vec![ScalarValue::UInt32(Some(chunks.len() as u32))]);
                file.range = piece.range;
                files.push(file);
                chunks.push(Chunk {
                    source: piece.file.path.as_str().into(),
                    name: piece.file.name.as_str().into(),
                    first_row: piece.first_row,
                    rows: piece.rows,
                    wanted: wanted
                        .zip(piece.file_rows)
                        .map(|((rows, _), file_rows)| Wanted { rows, file_rows }),
                    pin: piece.file.pin(),
                });
            }
            groups.push(FileGroup::new(files));
        }
        let mut projection: Vec<usize> = values.iter().map(|i| self.columns[*i]).collect();
        projection.push(self.file_schema.fields().len());
        let partitions = groups.len();
        let config = FileScanConfigBuilder::new(scan.store.clone(), self.source())
            .with_file_groups(groups)
            .with_batch_size(Some(scan.batch_rows))
            // Idle partitions would otherwise take files from others, and a chunk's place in its partition
            // is what an error is explained by.
            .with_preserve_order(true)
            // A scan that declares its partitions is not cut into byte ranges by the optimizer, which asks nobody
            // above it; the rows of a file in pieces could not be numbered.
            .with_output_partitioning(Some(Partitioning::UnknownPartitioning(partitions)))
            .with_projection_indices(Some(projection))?
            .build();
        let input = pinned_scan(DataSourceExec::from_data_source(config), state.runtime_env(), &chunks)?;
        OperatorExec::plan(NumberRows { chunks: chunks.into(), batch_rows: scan.batch_rows }, vec![input])
    }

    fn source(&self) -> Arc<dyn FileSource> {
        let chunk = Arc::new(Field::new(CHUNK_COLUMN, DataType::UInt32, false));
        let schema = TableSchema::builder(Arc::clone(&self.file_schema))
            .with_table_partition_cols(vec![chunk])
            .build();
        let mut options = TableParquetOptions::default();
        // Without predicates page indexes are bytes read for nothing.
        options.global.enable_page_index = false;
        options.global.coerce_int96 = Some(INT96_UNIT.to_owned());
        Arc::new(ParquetSource::new(schema).with_table_parquet_options(options))
    }
}

/// `input`, where it is a scan of Parquet files: they are read as `chunks` say that they were listed, their footers with
/// distrust, and of their rows those that are wanted.
///
/// Other scans take their stores from the context in which they run, which [`NumberRows`] holds to the same.
///
/// # Errors
/// Where there is no store for the scan's URL.
pub(crate) fn pinned_scan(
    input: Arc<dyn ExecutionPlan>,
    runtime: &RuntimeEnv,
    chunks: &[Chunk],
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let Some(scan) = file_scan(&input) else { return Ok(input) };
    let Some(parquet) = scan.file_source().downcast_ref::<ParquetSource>() else { return Ok(input) };
    let store = runtime.object_store(&scan.object_store_url)?;
    let store = Pins::new(chunks.iter().map(|chunk| &chunk.pin)).over(store);
    let readers = Readers::new(store, runtime.cache_manager.get_file_metadata_cache());
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

/// The wanted rows as the reader is told of them: every row of the file is either read or passed over.
fn row_selection(wanted: &Wanted) -> RowSelection {
    let mut selectors = Vec::new();
    let mut at = 0;
    for run in wanted.rows.runs() {
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
        let values: Vec<usize> = (0..self.columns.len()).filter(|i| wanted.contains(i)).collect();
        let mut plans = self
            .scans
            .iter()
            .map(|scan| Ok((scan, self.pieces(scan)?)))
            .filter(|found| !matches!(found, Ok((_, pieces)) if pieces.is_empty()))
            .map(|found: DfResult<_>| {
                found.and_then(|(scan, pieces)| self.plan(state, scan, &pieces, &values))
            })
            .collect::<DfResult<Vec<_>>>()?;
        let Some(mut plan) = plans.pop() else {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(&wanted)?))));
        };
        if !plans.is_empty() {
            plans.push(plan);
            plan = UnionExec::try_new(plans)?;
        }
        // The node below has the wanted values first, then its own three columns.
        let place = |i: usize| match values.iter().position(|value| *value == i) {
            Some(place) => place,
            None => values.len() + (i - self.columns.len()),
        };
        project(plan, &self.schema, &wanted, place)
    }
}

/// The columns `wanted` of `schema`, which are `plan`'s columns at `place`.
pub(super) fn project(
    plan: Arc<dyn ExecutionPlan>,
    schema: &SchemaRef,
    wanted: &[usize],
    place: impl Fn(usize) -> usize,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let inner = plan.schema();
    if wanted.len() == inner.fields().len() && wanted.iter().enumerate().all(|(to, from)| place(*from) == to)
    {
        let same = wanted.iter().zip(inner.fields()).all(|(i, f)| schema.field(*i).name() == f.name());
        if same {
            return Ok(plan);
        }
    }
    let columns = wanted.iter().map(|i| {
        let from = place(*i);
        ProjectionExpr {
            expr: Arc::new(Column::new(inner.field(from).name(), from)),
            alias: schema.field(*i).name().clone(),
        }
    });
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}
