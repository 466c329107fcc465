//! Parquet files: their footers, then a scan of their row groups by the engine.
//!
//! The engine reads the files as they were listed ([`Pins`](super::pin::Pins)), with footers that were checked (`footer`).
//! `number_rows` is the node above the scan that adds the position of each row.

mod file;
mod footer;
mod nested;
mod number_rows;
mod numbering;
mod pinned;
mod scan;
mod types;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Fields, Schema};
use datafusion::datasource::listing::FileRange;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, lit, try_cast, when};
use futures::stream::{self, StreamExt, TryStreamExt};

use self::scan::{FileTable, StoreScan};
use self::types::{TypedFile, carried_column, id_type, types_to_read};
use crate::error::{Error, Result};
use crate::job;
use crate::schema::{IdType, SourceColumn, SourceTypes};
use crate::source::columns::{NamedExpressions, NeededColumns};
use crate::source::file::SourceFile;
use crate::source::filter::{self, KnownRows};
use crate::source::selection::Selection;
use crate::source::split::{Split, batch_rows};

pub(crate) use self::file::ParquetFile;
pub(crate) use self::footer::decoded as decoded_arrow_schema;
pub(crate) use self::nested::named_fields;
pub(crate) use self::number_rows::NumberRows;
pub(super) use self::number_rows::rows_read;
#[cfg(test)]
pub(crate) use self::numbering::CHUNK_COLUMN;
#[cfg(feature = "cluster")]
pub(crate) use self::numbering::Chunk;
#[cfg(feature = "cluster")]
pub(crate) use self::pinned::pinned_scan;
pub(crate) use self::types::is_string;

/// Footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;
/// Rows that a batch holds at most.
const BATCH_ROWS: usize = 8192;

/// Rows of Parquet files.
pub(super) struct ParquetRows {
    pub table: FileTable,
    /// The job's columns in the table.
    pub values: NamedExpressions,
    /// The types of the tables of a run.
    pub types: SourceTypes,
    /// Why a row cannot be compared, as [`Documents`](super::Documents) has it; `None` if all rows can.
    pub defect: Option<Expr>,
}

/// The `wanted` rows of `files` (`None` for all), with their `columns`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) for a file that is not Parquet or lacks a column that others have;
/// [`Kind::Job`](crate::error::Kind::Job) for a column that no file has, a text column of another type, an id that has no text
/// form, and a carried column that not every engine can read.
pub(super) async fn table(
    ctx: &SessionContext,
    source: &job::Source,
    columns: &NeededColumns<'_>,
    files: &[Arc<SourceFile>],
    wanted: Option<Selection>,
) -> Result<ParquetRows> {
    // A name may be that of a column, or of a field in one.
    let roots: HashSet<&str> = columns.of_files.iter().flat_map(|name| [*name, nested::root(name)]).collect();
    let open = async |file: Arc<SourceFile>| -> Result<TypedFile> {
        let parquet = ParquetFile::open(ctx, &file).await?;
        let fields = parquet.schema(None)?.fields;
        let named = fields.iter().filter(|field| roots.contains(field.name().as_str())).cloned();
        Ok(TypedFile { schema: Schema::new(named.collect::<Fields>()), parquet })
    };
    let files: Vec<TypedFile> =
        stream::iter(files.iter().cloned()).map(open).buffered(CONCURRENT_FOOTERS).try_collect().await?;
    let names = &columns.of_files;
    let id = match &source.id {
        job::SourceId::Columns(ids) if ids.iter().any(|id| columns.of_paths.contains(id)) => IdType::Utf8,
        _ => id_type(source, &files)?,
    };
    let to_read = types_to_read(source, names, &files, id)?;
    let schema = Arc::new(nested::columns_to_read(&to_read));
    let carried = source.columns.iter().map(|name| match columns.of_paths.contains(name) {
        true => Ok(SourceColumn { name: name.clone(), data_type: DataType::Utf8 }),
        false => carried_column(name, &files),
    });
    let types = SourceTypes { id, columns: carried.collect::<Result<_>>()? };

    let mut scans: Vec<StoreScan> = Vec::new();
    for TypedFile { parquet, .. } in &files {
        let splits = splits(parquet, &to_read)?;
        let rows = batch_rows(row_bytes(&splits), BATCH_ROWS);
        let scan = scan_of(&mut scans, &parquet.file.store);
        scan.batch_rows = scan.batch_rows.min(rows);
        scan.splits.extend(splits);
    }
    let known = files.iter().map(|TypedFile { parquet, .. }| {
        let SourceFile { path, name, .. } = parquet.file.as_ref();
        KnownRows { path, name, rows: parquet.rows() }
    });
    let wanted = wanted.or_else(|| filter::of_known_rows(source, &known.collect::<Vec<_>>()));
    let mut values = NamedExpressions::with_capacity(names.len());
    let mut damaged = None;
    for (name, (path, data_type)) in names.iter().zip(&to_read) {
        let value = match data_type {
            DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
                let path = nested::path_of(name, files.iter().map(|file| &file.schema));
                nested::texts_in_lists(&schema, &path)
            }
            _ => nested::value_at(&schema, path),
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
    let table = FileTable::new(schema, columns.of_paths.clone(), scans, wanted);
    Ok(ParquetRows { table, values, types, defect })
}

fn scan_of<'a>(scans: &'a mut Vec<StoreScan>, store: &ObjectStoreUrl) -> &'a mut StoreScan {
    let at = scans.iter().position(|scan| &scan.store == store).unwrap_or_else(|| {
        scans.push(StoreScan { store: store.clone(), batch_rows: BATCH_ROWS, splits: Vec::new() });
        scans.len() - 1
    });
    &mut scans[at]
}

/// The row groups of a file. The engine reads those whose first page starts in a byte range.
fn splits(parquet: &ParquetFile, to_read: &[(nested::NestedPath, DataType)]) -> Result<Vec<Split>> {
    let groups = parquet.metadata.row_groups();
    let path = parquet.path();
    let roots: HashSet<_> = to_read.iter().filter_map(|(path, _)| path.first()).collect();
    let is_read = |parts: &[String]| {
        parts.first().is_some_and(|root| roots.contains(root))
            && to_read.iter().any(|(path, _)| parts.starts_with(path))
    };
    let mut found: Vec<(i64, Split)> = Vec::with_capacity(groups.len());
    let mut first_row = 0;
    for group in groups {
        let rows = u64::try_from(group.num_rows())
            .map_err(|_| Error::input(format!("{path} has a row group of {} rows", group.num_rows())))?;
        let Some(first) = group.columns().first() else { continue };
        let weight = group
            .columns()
            .iter()
            .filter(|c| is_read(c.column_path().parts()))
            .map(|c| u64::try_from(c.uncompressed_size()).unwrap_or(0))
            .sum();
        if rows > 0 {
            let start = first.dictionary_page_offset().unwrap_or_else(|| first.data_page_offset());
            let whole = Split::whole(&parquet.file);
            found.push((start, Split { first_row, rows: Some(rows), weight, ..whole }));
        }
        first_row += rows;
    }
    let file_rows = Some(first_row);
    if found.is_sorted_by(|a, b| a.0 < b.0) {
        let starts: Vec<i64> = found.iter().map(|(start, _)| *start).collect();
        let size = i64::try_from(parquet.file.meta.size).unwrap_or(i64::MAX);
        return Ok(found
            .into_iter()
            .enumerate()
            .map(|(i, (start, split))| {
                let end = starts.get(i + 1).copied().unwrap_or(size);
                Split { range: Some(FileRange { start, end }), file_rows, ..split }
            })
            .collect());
    }
    // Row groups that are not laid out in their order cannot be distinguished by ranges; the file stays whole.
    let weight = found.iter().map(|(_, split)| split.weight).sum();
    Ok(vec![Split { rows: file_rows, file_rows, weight, ..Split::whole(&parquet.file) }])
}

/// Bytes of a row in the row group whose rows are longest.
fn row_bytes(splits: &[Split]) -> u64 {
    splits.iter().filter_map(|split| split.weight.checked_div(split.rows?)).max().unwrap_or(0)
}
