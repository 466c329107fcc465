//! Parquet files, which DataFusion scans. Above the scan, `number_rows` adds the position of each row.

mod columns;
mod file;
mod number_rows;
mod reader;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::config::TableParquetOptions;
use datafusion::datasource::TableType;
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result as DfResult;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, lit, try_cast, when};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::scalar::ScalarValue;
use futures::stream::{self, StreamExt, TryStreamExt};

use self::columns::{NestedPath, TypedFile};
use crate::error::{Error, Result};
use crate::job;
use crate::plan::OperatorExec;
use crate::schema::{IdType, SourceColumn, SourceTypes};
use crate::source::file::SourceFile;
use crate::source::format::{Reading, Rewriting, SourceFormat};
use crate::source::identity::Checksums;
use crate::source::rows::columns::{NamedExpressions, NeededColumns, numbered_schema, project};
use crate::source::rows::filter::{KnownRows, sample_known_rows};
use crate::source::rows::selection::{RowSet, Selection, too_few};
use crate::source::rows::split::{Split, batch_rows, distribute};

pub(crate) use self::columns::{is_string, named_fields};
pub(crate) use self::file::{ParquetFile, decoded_arrow_schema};
pub(crate) use self::number_rows::NumberRows;
#[cfg(test)]
pub(crate) use self::number_rows::SPLIT_COLUMN;
pub(in crate::source) use self::number_rows::rows_read;
#[cfg(feature = "cluster")]
pub(crate) use self::reader::pinned_scan;

pub(super) const PARQUET: SourceFormat = SourceFormat {
    title: "Parquet",
    endings: job::Format::Parquet.rules().endings,
    reading: Reading::ParquetScan,
    rewriting: Rewriting::ParquetValues,
};

/// Delta tables: the Parquet files of one version of a table.
pub(super) const DELTA: SourceFormat = SourceFormat { title: "Delta", ..PARQUET };

/// The number of footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;
/// The maximum number of rows in a batch.
const BATCH_ROWS: usize = 8192;
/// The unit of INT96 timestamps, which consist of days and nanoseconds of a day. Nanoseconds in 64 bits end in the year 2262, but such
/// timestamps occur up to the year 9999. The programs that write INT96 use microseconds.
const INT96_UNIT: &str = "us";

pub(in crate::source) struct ParquetRows {
    pub table: ParquetTable,
    pub values: NamedExpressions,
    pub types: SourceTypes,
    /// The defect of a row, or `None` if no row can have a defect.
    pub defect: Option<Expr>,
}

/// Returns the `wanted` rows of `files`, or all rows, with their `columns`. Fails with `Kind::Input` if a file is not Parquet or lacks a
/// column that other files have. Fails with `Kind::Job` if no file has a column of the job, or if a column has an unsupported type.
pub(in crate::source) async fn table(
    ctx: &SessionContext,
    source: &job::Source,
    columns: &NeededColumns<'_>,
    files: &[Arc<SourceFile>],
    wanted: Option<Selection>,
) -> Result<ParquetRows> {
    // A name refers to a column or to a field in a column.
    let roots: HashSet<&str> =
        columns.in_files.iter().flat_map(|name| [*name, columns::root(name)]).collect();
    let open = async |file: Arc<SourceFile>| -> Result<TypedFile> {
        let parquet = ParquetFile::open(ctx, &file).await?;
        let fields = parquet.schema(None)?.fields;
        let named = fields.iter().filter(|field| roots.contains(field.name().as_str())).cloned();
        Ok(TypedFile { schema: Schema::new(named.collect::<Fields>()), parquet })
    };
    let files: Vec<TypedFile> =
        stream::iter(files.iter().cloned()).map(open).buffered(CONCURRENT_FOOTERS).try_collect().await?;
    let names = &columns.in_files;
    let id = match &source.id {
        job::SourceId::Columns(ids) if ids.iter().any(|id| columns.in_paths.contains(id)) => IdType::Utf8,
        _ => columns::id_type(source, &files)?,
    };
    let to_read = columns::types_to_read(source, names, &files, id)?;
    let schema = Arc::new(columns::columns_to_read(&to_read));
    let carried = source.columns.iter().map(|name| {
        if columns.in_paths.contains(name) {
            return Ok(SourceColumn { name: name.clone(), data_type: DataType::Utf8 });
        }
        columns::carried_column(name, &files)
    });
    let types = SourceTypes { id, columns: carried.collect::<Result<_>>()? };

    let mut scans: Vec<StoreScan> = Vec::new();
    for TypedFile { parquet, .. } in &files {
        let splits = splits(parquet, &to_read)?;
        let longest_row = splits.iter().filter_map(|split| split.weight.checked_div(split.rows?)).max();
        let store = &parquet.file.store;
        let at = scans.iter().position(|scan| &scan.store == store).unwrap_or_else(|| {
            scans.push(StoreScan { store: store.clone(), batch_rows: BATCH_ROWS, splits: Vec::new() });
            scans.len() - 1
        });
        scans[at].batch_rows = scans[at].batch_rows.min(batch_rows(longest_row.unwrap_or(0), BATCH_ROWS));
        scans[at].splits.extend(splits);
    }
    let known = files.iter().map(|TypedFile { parquet, .. }| {
        let SourceFile { path, name, .. } = parquet.file.as_ref();
        KnownRows { path, name, rows: parquet.rows() }
    });
    let wanted = wanted.or_else(|| sample_known_rows(source, &known.collect::<Vec<_>>()));
    let mut values = NamedExpressions::with_capacity(names.len());
    let mut damaged = None;
    for (name, (path, data_type)) in names.iter().zip(&to_read) {
        let value = match data_type {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let path = columns::path_of(name, files.iter().map(|file| &file.schema));
                columns::texts_in_lists(&schema, &path)
            }
            _ => columns::value_at(&schema, path),
        };
        let mut value = value.ok_or_else(|| Error::bug(format!("column `{name}` was lost")))?;
        let is_text = source.text.iter().any(|text| text == name);
        if data_type == &DataType::BinaryView && is_text {
            let text = try_cast(value.clone(), DataType::Utf8View);
            let is_damaged = value.is_not_null().and(text.clone().is_null());
            damaged = damaged.into_iter().chain([is_damaged]).reduce(Expr::or);
            value = text;
        }
        values.push((name.to_string(), value));
    }
    let defect = damaged.map(|damaged| when(damaged, lit("invalid_utf8")).end()).transpose()?;
    let value_types = schema.fields().iter().map(|field| field.data_type());
    let table = ParquetTable {
        schema: numbered_schema(value_types, columns.in_paths.len()),
        values: schema,
        partition_columns: columns.in_paths.clone(),
        scans,
        wanted,
    };
    Ok(ParquetRows { table, values, types, defect })
}

/// Returns the row groups of a file as splits. DataFusion reads a row group if its first page starts in the given byte range.
fn splits(parquet: &ParquetFile, to_read: &[(NestedPath, DataType)]) -> Result<Vec<Split>> {
    let roots: HashSet<_> = to_read.iter().filter_map(|(path, _)| path.first()).collect();
    let is_read = |parts: &[String]| {
        parts.first().is_some_and(|root| roots.contains(root))
            && to_read.iter().any(|(path, _)| parts.starts_with(path))
    };
    let groups = parquet.metadata.row_groups();
    let mut found: Vec<(i64, Split)> = Vec::with_capacity(groups.len());
    let mut first_row = 0;
    for group in groups {
        let rows = u64::try_from(group.num_rows()).map_err(|_| {
            Error::input(format!("{} has a row group of {} rows", parquet.path(), group.num_rows()))
        })?;
        let Some(first) = group.columns().first() else { continue };
        let read = group.columns().iter().filter(|column| is_read(column.column_path().parts()));
        let weight = read.map(|column| u64::try_from(column.uncompressed_size()).unwrap_or(0)).sum();
        if rows > 0 {
            let start = first.dictionary_page_offset().unwrap_or_else(|| first.data_page_offset());
            let whole = Split::whole(&parquet.file);
            found.push((start, Split { first_row, rows: Some(rows), weight, ..whole }));
        }
        first_row += rows;
    }
    let file_rows = Some(first_row);
    if !found.is_sorted_by(|a, b| a.0 < b.0) {
        // Byte ranges cannot distinguish these row groups, so the file is not split.
        let weight = found.iter().map(|(_, split)| split.weight).sum();
        return Ok(vec![Split { rows: file_rows, file_rows, weight, ..Split::whole(&parquet.file) }]);
    }
    let size = i64::try_from(parquet.size()).unwrap_or(i64::MAX);
    let ends: Vec<i64> = found.iter().skip(1).map(|(start, _)| *start).chain([size]).collect();
    let ranged = |((start, split), end)| Split { range: Some(FileRange { start, end }), file_rows, ..split };
    Ok(found.into_iter().zip(ends).map(ranged).collect())
}

/// Rows of Parquet files, with the columns of [`NumberRows`].
#[derive(Debug)]
pub(in crate::source) struct ParquetTable {
    schema: SchemaRef,
    /// The columns that are read from the files.
    values: SchemaRef,
    partition_columns: Vec<String>,
    scans: Vec<StoreScan>,
    /// The rows that are read, or `None` for all.
    wanted: Option<Selection>,
}

/// The files in one object store. One scan reads them.
#[derive(Debug)]
struct StoreScan {
    store: ObjectStoreUrl,
    batch_rows: usize,
    splits: Vec<Split>,
}

impl ParquetTable {
    /// Returns the splits of a scan that contain wanted rows.
    fn splits(&self, scan: &StoreScan) -> DfResult<Vec<Split>> {
        let Some(wanted) = &self.wanted else { return Ok(scan.splits.clone()) };
        for Split { file, file_rows, .. } in &scan.splits {
            let last = wanted.rows(&file.path).and_then(RowSet::last);
            if let Some((last, rows)) = last.zip(*file_rows).filter(|(last, rows)| last >= rows) {
                return Err(too_few(&file.path, rows, last).into());
            }
        }
        Ok(scan.splits.iter().cloned().filter_map(|split| split.select(wanted)).collect())
    }

    /// Plans a scan and the node above it that numbers the rows. `values` are the projected values.
    fn plan(
        &self,
        state: &dyn Session,
        scan: &StoreScan,
        splits: &[Split],
        values: &[usize],
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let (mut numbered, mut groups) = (Vec::new(), Vec::new());
        for group in distribute(splits, state.config().target_partitions()) {
            let mut files = Vec::with_capacity(group.len());
            for split in group {
                let index = ScalarValue::UInt32(Some(numbered.len() as u32));
                let mut file = PartitionedFile::new_from_meta(split.file.pin.meta());
                file = file.with_partition_values(vec![index]);
                file.range = split.range.clone();
                files.push(file);
                // Neighbouring splits were joined, so their rows are selected again.
                numbered.extend(match &self.wanted {
                    Some(wanted) => split.select(wanted),
                    None => Some(split),
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
            // Without this option, idle partitions would take files from other partitions. The order of splits in a partition shows which
            // file an error concerns.
            .with_preserve_order(true)
            // Without declared partitions, the optimizer would cut the scan into byte ranges. Rows in such pieces cannot be numbered.
            .with_output_partitioning(Some(Partitioning::UnknownPartitioning(partitions)))
            .with_projection_indices(Some(projection))?
            .build();
        let splits: Arc<[Split]> = numbered.into();
        let input = DataSourceExec::from_data_source(config);
        let input =
            reader::pinned_scan(input, state.runtime_env(), &splits, Checksums::find(state.config()))?;
        let partition_columns = self.partition_columns.clone();
        OperatorExec::plan(NumberRows { splits, batch_rows: scan.batch_rows, partition_columns }, vec![input])
    }

    fn source(&self) -> Arc<dyn FileSource> {
        let split = Arc::new(Field::new(number_rows::SPLIT_COLUMN, DataType::UInt32, false));
        let schema =
            TableSchema::builder(Arc::clone(&self.values)).with_table_partition_cols(vec![split]).build();
        let mut options = TableParquetOptions::default();
        // Page indexes are useful only for predicates.
        options.global.enable_page_index = false;
        options.global.coerce_int96 = Some(INT96_UNIT.to_owned());
        Arc::new(ParquetSource::new(schema).with_table_parquet_options(options))
    }
}

#[async_trait]
impl TableProvider for ParquetTable {
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
        let wanted = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let values: Vec<usize> = (0..self.values.fields().len()).filter(|i| wanted.contains(i)).collect();
        let mut plans = Vec::with_capacity(self.scans.len());
        for scan in &self.scans {
            let splits = self.splits(scan)?;
            if !splits.is_empty() {
                plans.push(self.plan(state, scan, &splits, &values)?);
            }
        }
        let plan = match plans.len() {
            0 => return Ok(Arc::new(EmptyExec::new(Arc::new(self.schema.project(&wanted)?)))),
            1 => plans.remove(0),
            _ => UnionExec::try_new(plans)?,
        };
        // The node below returns the projected values first, then its own columns.
        let place = |i: usize| match values.iter().position(|value| *value == i) {
            Some(place) => place,
            None => values.len() + (i - self.values.fields().len()),
        };
        project(plan, &self.schema, &wanted, place)
    }
}
