//! Columns of Parquet files: their names in a job, their types in the files, and their types in the tables of a run. A name `a.b` refers to
//! the column `a.b` if a file has such a column, and otherwise to the field `b` of column `a`. A text may also be in lists: `a[].b` is the
//! field `b` of all structs in the lists of column `a`.

use arrow::compute::can_cast_types;
use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::Expr;

use super::file::ParquetFile;
use crate::error::{Error, Result};
use crate::job;
use crate::schema::{IdType, SourceColumn};
use crate::source::rows::columns::{column, missing, value_name};
use crate::udf::expr_fn::joined_texts;

/// A Parquet file with the Arrow types of the columns that a job needs.
pub(super) struct TypedFile {
    pub parquet: ParquetFile,
    pub schema: Schema,
}

impl TypedFile {
    fn path(&self) -> &str {
        self.parquet.path()
    }
}

/// Returns the paths of the needed columns and the types with which they are read. Text is read as string views, which avoid the limit of 2
/// GiB per batch.
pub(super) fn types_to_read(
    source: &job::Source,
    names: &[&str],
    files: &[TypedFile],
    id: IdType,
) -> Result<Vec<(NestedPath, DataType)>> {
    let mut values = Vec::with_capacity(names.len());
    for name in names {
        let path = path_of(name, files.iter().map(|file| &file.schema));
        for file in files {
            let root = path.first();
            if file.schema.fields().iter().filter(|field| Some(field.name()) == root).count() > 1 {
                return Err(Error::job(format!("{} has more than one column `{name}`", file.path())));
            }
        }
        let is_text = source.text.iter().any(|text| text == name);
        let is_id = source.id.columns().iter().any(|id| id == name);
        let find = |file: &TypedFile| {
            let found = if is_text { text_at(&file.schema, &path) } else { type_at(&file.schema, &path) };
            found.cloned()
        };
        let Some((first, data_type)) = files.iter().find_map(|file| Some((file, find(file)?))) else {
            let place = files.first().map_or("the input", |file| file.path());
            let mut there = Vec::new();
            if let Some(file) = files.first() {
                there = field_names(file.parquet.schema(None)?.fields());
                there.extend(file.parquet.file.partitions.keys().cloned());
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
            // Arrow cannot represent the months of a Parquet interval.
            let is_whole = !matches!(data_type, DataType::Interval(_));
            if is_id && !(is_whole && can_cast_types(&data_type, &DataType::Utf8View)) {
                return Err(Error::job(format!(
                    "id column `{name}` of {} is of type {data_type}, which cannot be written as text",
                    file.path()
                )));
            }
            // A binary column is read as bytes and cast later. The library would not check the bytes if it read them as strings.
            if is_bytes(&data_type) {
                read_as = DataType::BinaryView;
            } else if read_as != self::read_as(&data_type) && read_as != DataType::BinaryView {
                read_as = DataType::Utf8View;
            }
        }
        if is_text {
            let list = files.iter().find_map(|file| list_at(&file.schema, &path));
            if let Some(column) = list {
                values.push((path[..1].to_vec(), column.data_type().clone()));
                continue;
            }
            // The library rejects a whole page if one string is not UTF-8. Bytes are checked row by row.
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

/// Returns the type of ids. Ids are numbers if the id is one column of integers that fit into a signed 64-bit integer. All files must
/// agree, because numbers and texts have no common order.
pub(super) fn id_type(source: &job::Source, files: &[TypedFile]) -> Result<IdType> {
    let [name] = source.id.columns() else { return Ok(IdType::Utf8) };
    let kind = |data_type: &DataType| match data_type {
        number if number.is_integer() && *number != DataType::UInt64 => IdType::Int64,
        _ => IdType::Utf8,
    };
    let path = path_of(name, files.iter().map(|file| &file.schema));
    let mut found = files.iter().filter_map(|file| Some((file, type_at(&file.schema, &path)?)));
    // `types_to_read` reports a missing column.
    let Some((first, first_type)) = found.next() else { return Ok(IdType::Utf8) };
    match found.find(|(_, data_type)| kind(data_type) != kind(first_type)) {
        None => Ok(kind(first_type)),
        Some((other, other_type)) => Err(Error::input(format!(
            "id column `{name}` is of type {first_type} in {}, and of type {other_type} in {}: write it with one type in \
             all files, either text or signed integers of at most 64 bits",
            first.path(),
            other.path()
        ))),
    }
}

/// Returns the carried column `name` of the table `documents`.
pub(super) fn carried_column(name: &str, files: &[TypedFile]) -> Result<SourceColumn> {
    let mut carried: Option<(&TypedFile, DataType)> = None;
    let path = path_of(name, files.iter().map(|file| &file.schema));
    for file in files {
        let Some(data_type) = type_at(&file.schema, &path) else { continue };
        let Some(written) = written_as(data_type) else {
            return Err(Error::job(format!(
                "column `{name}` of {} is of type {data_type}, which `source.columns` cannot carry: expected strings, numbers, \
                 booleans, dates or timestamps",
                file.path()
            )));
        };
        match &carried {
            None => carried = Some((file, written)),
            Some((_, first_type)) if *first_type == written => {}
            Some((first, first_type)) => {
                return Err(Error::input(format!(
                    "column `{name}` of `source.columns` is of type {first_type} in {}, and of type {data_type} in {}: write it \
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

/// Returns the type in which a carried column is written: its own type, or a larger type that every engine can read. Returns `None` for
/// unsupported types.
fn written_as(data_type: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match data_type {
        text if is_string(text) => T::Utf8,
        number if number.is_signed_integer() => number.clone(),
        T::Boolean
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

/// Whether a type contains strings, bytes that can be strings, or only nulls.
fn is_readable_text(data_type: &DataType) -> bool {
    is_string(data_type) || is_bytes(data_type) || data_type == &DataType::Null
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

pub(crate) fn is_string(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_string(values),
        _ => false,
    }
}

/// The name of a column, then the name of a field in it, and so on.
pub(super) type NestedPath = Vec<String>;

pub(super) fn path_of<'a>(name: &str, mut files: impl Iterator<Item = &'a Schema>) -> NestedPath {
    if files.any(|schema| schema.field_with_name(name).is_ok()) {
        return vec![name.to_owned()];
    }
    name.split('.').map(|part| part.trim_end_matches("[]").to_owned()).collect()
}

/// Returns the name of the column that contains the field `name`.
pub(super) fn root(name: &str) -> &str {
    name.split('.').next().unwrap_or(name).trim_end_matches("[]")
}

/// Returns the type of the innermost elements of a list. Returns other types unchanged.
fn element(mut data_type: &DataType) -> &DataType {
    while let DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) =
        data_type
    {
        data_type = inner.data_type();
    }
    data_type
}

/// Returns the type of the texts at `path`, which may be in lists.
fn text_at<'a>(schema: &'a Schema, path: &[String]) -> Option<&'a DataType> {
    let (root, rest) = path.split_first()?;
    let mut found = element(schema.field_with_name(root).ok()?.data_type());
    for name in rest {
        let DataType::Struct(fields) = found else { return None };
        found = element(fields.iter().find(|field| field.name() == name)?.data_type());
    }
    Some(found)
}

/// Returns the column of the texts at `path` if they are in lists.
fn list_at<'a>(schema: &'a Schema, path: &[String]) -> Option<&'a Field> {
    text_at(schema, path)?;
    let is_list = (1..=path.len()).any(|names| {
        at(schema, &path[..names]).is_some_and(|field| element(field.data_type()) != field.data_type())
    });
    is_list.then(|| schema.field_with_name(path.first()?).ok()).flatten()
}

fn at<'a>(schema: &'a Schema, path: &[String]) -> Option<&'a Field> {
    let (root, rest) = path.split_first()?;
    let mut found = schema.field_with_name(root).ok()?;
    for name in rest {
        let DataType::Struct(fields) = found.data_type() else { return None };
        found = fields.iter().find(|field| field.name() == name)?;
    }
    Some(found)
}

fn type_at<'a>(schema: &'a Schema, path: &[String]) -> Option<&'a DataType> {
    at(schema, path).map(Field::data_type)
}

fn field_names(fields: &Fields) -> Vec<String> {
    named_fields(fields).into_iter().map(|(name, _)| name).collect()
}

/// Returns the columns with their names in a job. A struct is replaced by its fields.
pub(crate) fn named_fields(fields: &Fields) -> Vec<(String, &Field)> {
    let mut all = Vec::new();
    for field in fields {
        match field.data_type() {
            DataType::Struct(inner) => {
                let inner = named_fields(inner).into_iter();
                all.extend(inner.map(|(name, field_in)| (format!("{}.{name}", field.name()), field_in)));
            }
            _ => all.push((field.name().clone(), field.as_ref())),
        }
    }
    all
}

/// Returns the texts at `path` in lists of a column. The texts of a row are joined.
pub(super) fn texts_in_lists(columns: &Schema, path: &[String]) -> Option<Expr> {
    let (root, rest) = path.split_first()?;
    let root = column(value_name(columns.index_of(root).ok()?));
    Some(joined_texts(root, rest))
}

/// Returns the columns to read for the values at these paths. Structs contain only the needed fields.
pub(super) fn columns_to_read(values: &[(NestedPath, DataType)]) -> Schema {
    let mut values: Vec<_> = values.iter().collect();
    // Whole columns come first. A column that is read as a whole already contains its fields.
    values.sort_by_key(|(path, _)| path.len());
    let mut fields = Vec::new();
    for (path, data_type) in values {
        insert(&mut fields, path, data_type);
    }
    Schema::new(fields)
}

fn insert(fields: &mut Vec<Field>, path: &[String], data_type: &DataType) {
    let Some((name, rest)) = path.split_first() else { return };
    let known = fields.iter().position(|field| field.name() == name);
    match (known, rest) {
        (Some(_), []) => {}
        (None, []) => fields.push(Field::new(name, data_type.clone(), true)),
        (known, rest) => {
            let mut inner: Vec<Field> = match known.map(|at| fields[at].data_type()) {
                Some(DataType::Struct(inner)) => inner.iter().map(|field| field.as_ref().clone()).collect(),
                _ => Vec::new(),
            };
            insert(&mut inner, rest, data_type);
            let merged = Field::new(name, DataType::Struct(inner.into()), true);
            match known {
                Some(at) => fields[at] = merged,
                None => fields.push(merged),
            }
        }
    }
}

pub(super) fn value_at(columns: &Schema, path: &[String]) -> Option<Expr> {
    let (root, rest) = path.split_first()?;
    let root = column(value_name(columns.index_of(root).ok()?));
    Some(rest.iter().fold(root, |value, field| get_field(value, field.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_needed_fields_of_structs_are_read() {
        let value =
            |path: &str, data_type| (path.split('.').map(str::to_owned).collect::<NestedPath>(), data_type);
        let columns = columns_to_read(&[
            value("doc.body", DataType::Utf8View),
            value("id", DataType::Int64),
            value("doc.meta.lang", DataType::Utf8View),
            value("doc.meta.stars", DataType::Int32),
        ]);
        let text = |name: &str| Field::new(name, DataType::Utf8View, true);
        let meta = DataType::Struct(vec![text("lang"), Field::new("stars", DataType::Int32, true)].into());
        let doc = DataType::Struct(vec![text("body"), Field::new("meta", meta, true)].into());
        let expected =
            Schema::new(vec![Field::new("id", DataType::Int64, true), Field::new("doc", doc, true)]);
        assert_eq!(columns, expected);
        assert_eq!(field_names(columns.fields()), ["id", "doc.body", "doc.meta.lang", "doc.meta.stars"]);
        let lang = ["doc", "meta", "lang"].map(str::to_owned);
        assert_eq!(at(&columns, &lang).unwrap().data_type(), &DataType::Utf8View);
        assert!(at(&columns, &lang[..2]).is_some() && at(&columns, &lang[1..]).is_none());
    }
}
