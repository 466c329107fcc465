//! Columns of Parquet files, and fields of columns that are structs, by the names that a job has for them.
//!
//! A name `a.b` is the column of that name where a file has it, or else the field `b` of column `a`. A text may also be in
//! lists: `a[].b` is the field `b` of all structs in the lists of column `a`.

use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::Expr;

use crate::source::columns::{column, value_name};
use crate::udf::expr_fn::joined_texts;

/// The column, the field in it, and so on.
pub(super) type NestedPath = Vec<String>;

/// The path that `name` has in all files, which have these columns.
pub(super) fn path_of<'a>(name: &str, mut files: impl Iterator<Item = &'a Schema>) -> NestedPath {
    match files.any(|schema| schema.field_with_name(name).is_ok()) {
        true => vec![name.to_owned()],
        false => name.split('.').map(|part| part.trim_end_matches("[]").to_owned()).collect(),
    }
}

/// The column that has the field `name`.
pub(super) fn root(name: &str) -> &str {
    name.split('.').next().unwrap_or(name).trim_end_matches("[]")
}

/// The type of the elements of lists, and of the elements of these; any other type as it is.
fn element(mut data_type: &DataType) -> &DataType {
    while let DataType::List(inner) | DataType::LargeList(inner) | DataType::FixedSizeList(inner, _) =
        data_type
    {
        data_type = inner.data_type();
    }
    data_type
}

/// The type of the texts at `path`, also where these are in lists.
pub(super) fn text_at<'a>(schema: &'a Schema, path: &[String]) -> Option<&'a DataType> {
    let (root, rest) = path.split_first()?;
    let mut found = element(schema.field_with_name(root).ok()?.data_type());
    for name in rest {
        let DataType::Struct(fields) = found else { return None };
        found = element(fields.iter().find(|field| field.name() == name)?.data_type());
    }
    Some(found)
}

/// The column with the texts at `path`, if they are in lists.
pub(super) fn list_at<'a>(schema: &'a Schema, path: &[String]) -> Option<&'a Field> {
    text_at(schema, path)?;
    let is_list = (1..=path.len()).any(|names| {
        at(schema, &path[..names]).is_some_and(|field| element(field.data_type()) != field.data_type())
    });
    is_list.then(|| schema.field_with_name(path.first()?).ok()).flatten()
}

/// The field at `path`.
pub(super) fn at<'a>(schema: &'a Schema, path: &[String]) -> Option<&'a Field> {
    let (root, rest) = path.split_first()?;
    let mut found = schema.field_with_name(root).ok()?;
    for name in rest {
        let DataType::Struct(fields) = found.data_type() else { return None };
        found = fields.iter().find(|field| field.name() == name)?;
    }
    Some(found)
}

/// The names by which a job can name the columns, and the fields of structs.
pub(super) fn names(fields: &Fields) -> Vec<String> {
    named_fields(fields).into_iter().map(|(name, _)| name).collect()
}

/// The columns, and the fields of structs instead of the structs, with the names by which a job can name them.
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

/// The texts at `path` in lists of a column, one text for each row.
pub(super) fn texts_in_lists(columns: &Schema, path: &[String]) -> Option<Expr> {
    let (root, rest) = path.split_first()?;
    let root = column(value_name(columns.index_of(root).ok()?));
    Some(joined_texts(root, rest))
}

/// The columns that are read for values at these paths: of structs, only the fields that are needed.
pub(super) fn columns_to_read(values: &[(NestedPath, DataType)]) -> Schema {
    let mut values: Vec<_> = values.iter().collect();
    // Whole columns come first: they have their fields already.
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
            let inner = known.map(|at| fields[at].data_type());
            let mut inner: Vec<Field> = match inner {
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

/// The value at `path` in a plan over `columns`.
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
        assert_eq!(names(columns.fields()), ["id", "doc.body", "doc.meta.lang", "doc.meta.stars"]);
        let lang = ["doc", "meta", "lang"].map(str::to_owned);
        assert_eq!(at(&columns, &lang).unwrap().data_type(), &DataType::Utf8View);
        assert!(at(&columns, &lang[..2]).is_some() && at(&columns, &lang[1..]).is_none());
    }
}
