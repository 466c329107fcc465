//! Parquet files: footers first, then row groups.

use std::sync::Arc;

use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::datasource::listing::FileRange;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::stream::{self, StreamExt, TryStreamExt};
use parquet::file::metadata::ParquetMetaData;

use super::chunks::{Piece, batch_rows};
use super::columns::{self, Values, missing, needed};
use super::footer;
use super::listing::File;
use super::number_rows::value_name;
use super::pin::Pins;
use super::scan::{FileTable, Scan};
use crate::error::{Error, Result};
use crate::job;
use crate::schema::{IdType, SourceColumn, SourceTypes};

/// Footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;
/// Rows that a batch holds at most.
const BATCH_ROWS: usize = 8192;

struct Footer {
    file: Arc<File>,
    metadata: Arc<ParquetMetaData>,
    schema: Schema,
}

/// The table of `files`, the job's columns in it, and the types that those of them have that go into the tables.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) for a file that is no Parquet or lacks a column that others have;
/// [`Kind::Job`](crate::error::Kind::Job) for a column that none has or whose type is not a text (id: has no text form; carried:
/// has no form that every engine reads).
pub(super) async fn table(
    ctx: &SessionContext,
    source: &job::Source,
    files: &[Arc<File>],
) -> Result<(FileTable, Values, SourceTypes)> {
    let footers: Vec<Footer> = stream::iter(files.iter().cloned())
        .map(|file| read_footer(ctx, file))
        .buffered(CONCURRENT_FOOTERS)
        .try_collect()
        .await?;
    let names = needed(source);
    let id = id_type(source, &footers)?;
    let schema = table_schema(source, &names, &footers, id)?;
    let column = |name: &String| carried_column(name, &footers);
    let types = SourceTypes { id, columns: source.columns.iter().map(column).collect::<Result<_>>()? };

    let mut scans: Vec<Scan> = Vec::new();
    for footer in &footers {
        let pieces = pieces(footer, &names)?;
        let rows = batch_rows(row_bytes(&pieces), BATCH_ROWS);
        let scan = scan_of(&mut scans, &footer.file.store);
        scan.batch_rows = scan.batch_rows.min(rows);
        scan.pieces.extend(pieces);
    }
    let value = |(i, name): (usize, &&str)| (name.to_string(), columns::column(value_name(i)));
    let values = names.iter().enumerate().map(value).collect();
    Ok((FileTable::new(schema, (0..names.len()).collect(), scans), values, types))
}

fn scan_of<'a>(scans: &'a mut Vec<Scan>, store: &ObjectStoreUrl) -> &'a mut Scan {
    let at = scans.iter().position(|scan| &scan.store == store).unwrap_or_else(|| {
        scans.push(Scan { store: store.clone(), batch_rows: BATCH_ROWS, pieces: Vec::new() });
        scans.len() - 1
    });
    &mut scans[at]
}

async fn read_footer(ctx: &SessionContext, file: Arc<File>) -> Result<Footer> {
    let runtime = ctx.runtime_env();
    let store = Pins::new([&file.pin()].into_iter()).over(runtime.object_store(&file.store)?);
    let cache = runtime.cache_manager.get_file_metadata_cache();
    let metadata = footer::read(store.as_ref(), &file.meta, &file.path, cache.as_ref()).await?;
    let schema = footer::schema(&metadata, &file.meta, &file.path, None)?;
    Ok(Footer { file, metadata, schema })
}

/// The needed columns with the types in which they are read: text as views, which have no 2 GiB limit in a batch.
fn table_schema(source: &job::Source, names: &[&str], footers: &[Footer], id: IdType) -> Result<SchemaRef> {
    let mut fields = Vec::with_capacity(names.len());
    for name in names {
        for footer in footers {
            if footer.schema.fields().iter().filter(|field| field.name() == name).count() > 1 {
                return Err(Error::job(format!("{} has more than one column `{name}`", footer.file.path)));
            }
        }
        let of = |footer: &Footer| type_of(footer, name);
        let Some((first, data_type)) = footers.iter().find_map(|footer| Some((footer, of(footer)?))) else {
            let place = footers.first().map_or("the input", |footer| footer.file.path.as_str());
            let there =
                footers.iter().take(1).flat_map(|f| f.schema.fields().iter().map(|f| f.name().clone()));
            return Err(missing(name, place, there));
        };
        let is_text = source.text.iter().any(|text| text == name);
        let is_id = ids(source).iter().any(|id| id == name);
        let mut read_as = read_as(&data_type);
        for footer in footers {
            let Some(data_type) = of(footer) else {
                return Err(Error::input(format!(
                    "{} has no column `{name}`, but {} has it: all files must have it",
                    footer.file.path, first.file.path
                )));
            };
            if is_text && !is_string(&data_type) {
                return Err(Error::job(format!(
                    "text column `{name}` of {} is of type {data_type}, not text",
                    footer.file.path
                )));
            }
            // Arrow has no months for an interval of Parquet.
            let is_whole = !matches!(data_type, DataType::Interval(_));
            if is_id && !(is_whole && can_cast_types(&data_type, &DataType::Utf8View)) {
                return Err(Error::job(format!(
                    "id column `{name}` of {} is of type {data_type}, which cannot be written as text",
                    footer.file.path
                )));
            }
            if read_as != self::read_as(&data_type) {
                read_as = DataType::Utf8View;
            }
        }
        if is_id && id == IdType::Int64 {
            read_as = DataType::Int64;
        }
        fields.push(Field::new(*name, read_as, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn type_of(footer: &Footer, name: &str) -> Option<DataType> {
    footer.schema.field_with_name(name).ok().map(|field| field.data_type().clone())
}

fn ids(source: &job::Source) -> &[String] {
    match &source.id {
        job::Id::Columns(names) => names,
        job::Id::RowNumber | job::Id::Path => &[],
    }
}

/// The type of the job's ids: numbers, where the id is one column of integers that 64 bits with a sign hold. The first file
/// says so, and the others must agree: ids of two kinds have no order in common.
fn id_type(source: &job::Source, footers: &[Footer]) -> Result<IdType> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let [name] = ids(source) else { return Ok(IdType::Utf8) };
    let kind = |data_type: &DataType| match data_type {
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 => IdType::Int64,
        _ => IdType::Utf8,
    };
    let mut found = footers.iter().filter_map(|footer| Some((footer, type_of(footer, name)?)));
    // That there is none is said where the columns are looked at.
    let Some((first, of_first)) = found.next() else { return Ok(IdType::Utf8) };
    match found.find(|(_, data_type)| kind(data_type) != kind(&of_first)) {
        None => Ok(kind(&of_first)),
        Some((other, of_other)) => Err(Error::input(format!(
            "id column `{name}` is of type {of_first} in {}, and of type {of_other} in {}: write it with one type in \
             all files, either text or signed integers of at most 64 bits",
            first.file.path, other.file.path
        ))),
    }
}

/// The column `name` as `documents` carries it.
fn carried_column(name: &str, footers: &[Footer]) -> Result<SourceColumn> {
    let mut carried: Option<(&Footer, DataType)> = None;
    for footer in footers {
        let Some(data_type) = type_of(footer, name) else { continue };
        let Some(written) = written_as(&data_type) else {
            return Err(Error::job(format!(
                "column `{name}` of {} is of type {data_type}, which `source.columns` cannot carry: expected strings, numbers, \
                 booleans, dates or timestamps",
                footer.file.path
            )));
        };
        match &carried {
            None => carried = Some((footer, written)),
            Some((_, of_first)) if *of_first == written => {}
            Some((first, of_first)) => {
                return Err(Error::input(format!(
                    "column `{name}` of `source.columns` is of type {of_first} in {}, and of type {data_type} in {}: write it \
                     with one type in all files",
                    first.file.path, footer.file.path
                )));
            }
        }
    }
    match carried {
        Some((_, data_type)) => Ok(SourceColumn { name: name.to_owned(), data_type }),
        None => Err(Error::bug(format!("column `{name}` was found and is not there"))),
    }
}

/// The type in which a column is carried: its own, or the next that every engine reads; none for other types.
fn written_as(data_type: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match data_type {
        text if is_string(text) => T::Utf8,
        T::Boolean
        | T::Int8
        | T::Int16
        | T::Int32
        | T::Int64
        | T::Float32
        | T::Float64
        | T::Date32
        | T::Decimal128(_, _)
        | T::Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond, _) => {
            data_type.clone()
        }
        T::UInt8 => T::Int16,
        T::UInt16 => T::Int32,
        T::UInt32 => T::Int64,
        T::UInt64 => T::Decimal128(20, 0),
        T::Float16 => T::Float32,
        T::Date64 => T::Date32,
        T::Timestamp(TimeUnit::Second, zone) => T::Timestamp(TimeUnit::Millisecond, zone.clone()),
        _ => return None,
    })
}

fn read_as(data_type: &DataType) -> DataType {
    if is_string(data_type) { DataType::Utf8View } else { data_type.clone() }
}

fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_string(values),
        _ => false,
    }
}

/// The row groups of a file. The engine reads those whose first page starts in a byte range.
fn pieces(footer: &Footer, names: &[&str]) -> Result<Vec<Piece>> {
    let groups = footer.metadata.row_groups();
    let path = &footer.file.path;
    let mut found: Vec<(i64, Piece)> = Vec::with_capacity(groups.len());
    let mut first_row = 0;
    for group in groups {
        let rows = u64::try_from(group.num_rows())
            .map_err(|_| Error::input(format!("{path} has a row group of {} rows", group.num_rows())))?;
        let Some(first) = group.columns().first() else { continue };
        let weight = group
            .columns()
            .iter()
            .filter(|c| c.column_path().parts().first().is_some_and(|root| names.contains(&root.as_str())))
            .map(|c| u64::try_from(c.uncompressed_size()).unwrap_or(0))
            .sum();
        if rows > 0 {
            let start = first.dictionary_page_offset().unwrap_or_else(|| first.data_page_offset());
            let whole = Piece::whole(&footer.file);
            found.push((start, Piece { first_row, rows: Some(rows), weight, ..whole }));
        }
        first_row += rows;
    }
    let file_rows = Some(first_row);
    if found.is_sorted_by(|a, b| a.0 < b.0) {
        let starts: Vec<i64> = found.iter().map(|(start, _)| *start).collect();
        let size = i64::try_from(footer.file.meta.size).unwrap_or(i64::MAX);
        return Ok(found
            .into_iter()
            .enumerate()
            .map(|(i, (start, piece))| {
                let end = starts.get(i + 1).copied().unwrap_or(size);
                Piece { range: Some(FileRange { start, end }), file_rows, ..piece }
            })
            .collect());
    }
    // Row groups that are not laid out in their order cannot be told apart by ranges; the file stays whole.
    let weight = found.iter().map(|(_, piece)| piece.weight).sum();
    Ok(vec![Piece { rows: file_rows, file_rows, weight, ..Piece::whole(&footer.file) }])
}

/// Bytes of a row in the row group whose rows are longest.
fn row_bytes(pieces: &[Piece]) -> u64 {
    pieces.iter().filter_map(|piece| piece.weight.checked_div(piece.rows?)).max().unwrap_or(0)
}
