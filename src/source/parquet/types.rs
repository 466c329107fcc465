//! The types of columns: those in the files, those in which they are read, and those of the tables of a run.

use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};

use super::file::ParquetFile;
use super::nested;
use crate::error::{Error, Result};
use crate::job;
use crate::schema::{IdType, SourceColumn};
use crate::source::columns::missing;

/// A Parquet file with the Arrow types of the columns that a job names.
pub(super) struct TypedFile {
    pub parquet: ParquetFile,
    pub schema: Schema,
}

impl TypedFile {
    fn path(&self) -> &str {
        self.parquet.path()
    }
}

/// The places of the needed columns with the types in which they are read: text as views, which have no 2 GiB limit in a batch.
pub(super) fn types_to_read(
    source: &job::Source,
    names: &[&str],
    files: &[TypedFile],
    id: IdType,
) -> Result<Vec<(nested::NestedPath, DataType)>> {
    let mut values = Vec::with_capacity(names.len());
    for name in names {
        let path = nested::path_of(name, files.iter().map(|file| &file.schema));
        for file in files {
            let root = path.first();
            if file.schema.fields().iter().filter(|field| Some(field.name()) == root).count() > 1 {
                return Err(Error::job(format!("{} has more than one column `{name}`", file.path())));
            }
        }
        let is_text = source.text.iter().any(|text| text == name);
        let is_id = ids(source).iter().any(|id| id == name);
        let find = |file: &TypedFile| match is_text {
            true => nested::text_at(&file.schema, &path).cloned(),
            false => nested::at(&file.schema, &path).map(|field| field.data_type().clone()),
        };
        let Some((first, data_type)) = files.iter().find_map(|file| Some((file, find(file)?))) else {
            let place = files.first().map_or("the input", |file| file.path());
            let mut there = Vec::new();
            if let Some(file) = files.first() {
                there = nested::names(file.parquet.schema(None)?.fields());
                there.extend(file.parquet.file.partitions.names().cloned());
            }
            return Err(missing(source, name, place, there));
        };
        let mut read_as = read_as(&data_type);
        for file in files {
            let Some(data_type) = find(file) else {
                return Err(Error::input(format!(
                    "{} has no column `{name}`, but {} has it: all files must have it",
                    file.path(),
                    first.path()
                )));
            };
            if is_text && !is_readable_text(&data_type) {
                return Err(Error::job(format!(
                    "text column `{name}` of {} is of type {data_type}, not text",
                    file.path()
                )));
            }
            // Arrow has no months for an interval of Parquet.
            let is_whole = !matches!(data_type, DataType::Interval(_));
            if is_id && !(is_whole && can_cast_types(&data_type, &DataType::Utf8View)) {
                return Err(Error::job(format!(
                    "id column `{name}` of {} is of type {data_type}, which cannot be written as text",
                    file.path()
                )));
            }
            // The library checks no bytes that it reads as strings, so bytes stay bytes until they are cast.
            if is_bytes(&data_type) {
                read_as = DataType::BinaryView;
            } else if read_as != self::read_as(&data_type) && read_as != DataType::BinaryView {
                read_as = DataType::Utf8View;
            }
        }
        if is_text {
            let list = files.iter().find_map(|file| nested::list_at(&file.schema, &path));
            if let Some(column) = list {
                values.push((path[..1].to_vec(), column.data_type().clone()));
                continue;
            }
            // The library refuses a page with a string that is not UTF-8. Bytes are checked row by row.
            read_as = match source.on_error {
                job::OnError::Error if read_as != DataType::BinaryView => DataType::Utf8View,
                _ => DataType::BinaryView,
            };
        }
        if is_id && id == IdType::Int64 {
            read_as = DataType::Int64;
        }
        values.push((path, read_as));
    }
    Ok(values)
}

fn ids(source: &job::Source) -> &[String] {
    match &source.id {
        job::SourceId::Columns(names) => names,
        job::SourceId::RowNumber | job::SourceId::Path => &[],
    }
}

/// The type of the job's ids: numbers, where the id is one column of integers that 64 bits with a sign hold. The first file
/// says so, and the others must agree: ids of two kinds have no order in common.
pub(super) fn id_type(source: &job::Source, files: &[TypedFile]) -> Result<IdType> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32};
    let [name] = ids(source) else { return Ok(IdType::Utf8) };
    let kind = |data_type: &DataType| match data_type {
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 => IdType::Int64,
        _ => IdType::Utf8,
    };
    let path = nested::path_of(name, files.iter().map(|file| &file.schema));
    let of = |file: &TypedFile| nested::at(&file.schema, &path).map(|field| field.data_type().clone());
    let mut found = files.iter().filter_map(|file| Some((file, of(file)?)));
    // A missing column is reported where the columns are checked.
    let Some((first, of_first)) = found.next() else { return Ok(IdType::Utf8) };
    match found.find(|(_, data_type)| kind(data_type) != kind(&of_first)) {
        None => Ok(kind(&of_first)),
        Some((other, of_other)) => Err(Error::input(format!(
            "id column `{name}` is of type {of_first} in {}, and of type {of_other} in {}: write it with one type in \
             all files, either text or signed integers of at most 64 bits",
            first.path(),
            other.path()
        ))),
    }
}

/// The column `name` as `documents` carries it.
pub(super) fn carried_column(name: &str, files: &[TypedFile]) -> Result<SourceColumn> {
    let mut carried: Option<(&TypedFile, DataType)> = None;
    let path = nested::path_of(name, files.iter().map(|file| &file.schema));
    for file in files {
        let Some(data_type) = nested::at(&file.schema, &path).map(Field::data_type) else { continue };
        let Some(written) = written_as(data_type) else {
            return Err(Error::job(format!(
                "column `{name}` of {} is of type {data_type}, which `source.columns` cannot carry: expected strings, numbers, \
                 booleans, dates or timestamps",
                file.path()
            )));
        };
        match &carried {
            None => carried = Some((file, written)),
            Some((_, of_first)) if *of_first == written => {}
            Some((first, of_first)) => {
                return Err(Error::input(format!(
                    "column `{name}` of `source.columns` is of type {of_first} in {}, and of type {data_type} in {}: write it \
                     with one type in all files",
                    first.path(),
                    file.path()
                )));
            }
        }
    }
    match carried {
        Some((_, data_type)) => Ok(SourceColumn { name: name.to_owned(), data_type }),
        None => Err(Error::job(format!("column `{name}` is in lists, which `source.columns` cannot carry"))),
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

/// Whether texts can be read from values of a type: strings, their bytes, or nulls alone.
fn is_readable_text(data_type: &DataType) -> bool {
    is_string(data_type) || is_bytes(data_type) || data_type == &DataType::Null
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Whether values of a type are strings, in which a text can be.
pub(crate) fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_string(values),
        _ => false,
    }
}
