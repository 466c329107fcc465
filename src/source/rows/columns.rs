//! Converts the columns of each format into the columns that all formats share.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, StringViewBuilder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Column;
use datafusion::error::Result as DfResult;
use datafusion::functions::string::expr_fn::{concat_ws, replace};
use datafusion::logical_expr::{Expr, and, cast, lit, when};
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::error::spelling::sort_by_likeness;
use crate::error::{Error, Result};
use crate::job::{Condition, Source, SourceId};
use crate::schema::{self, IdType, SourceColumn};
use crate::source::file::SourceFile;
use crate::source::other_files::first_names;

/// The columns that a job needs, without duplicates, in the order of the job.
#[derive(Debug)]
pub(in crate::source) struct NeededColumns<'a> {
    pub in_files: Vec<&'a str>,
    /// Partition columns that every file has.
    pub in_paths: Vec<String>,
}

impl<'a> NeededColumns<'a> {
    /// Returns the columns of the id, the text and the condition, and the carried columns. A partition column hides a file column with the
    /// same name.
    pub(in crate::source) fn new(source: &'a Source, files: &[Arc<SourceFile>]) -> Self {
        let condition = source.condition.iter().flat_map(Condition::columns);
        let mut needed = Self { in_files: Vec::new(), in_paths: Vec::new() };
        for name in source.id.columns().iter().chain(&source.text).chain(&source.columns).chain(condition) {
            if needed.in_files.contains(&name.as_str()) || needed.in_paths.contains(name) {
                continue;
            }
            if is_in_paths(name, files) {
                needed.in_paths.push(name.clone());
            } else {
                needed.in_files.push(name);
            }
        }
        needed
    }

    pub(in crate::source) fn path_values(&self) -> impl Iterator<Item = (String, Expr)> {
        self.in_paths.iter().enumerate().map(|(at, name)| (name.clone(), column(partition_name(at))))
    }
}

/// Whether `name` is a partition column of every file.
pub(in crate::source) fn is_in_paths(name: &str, files: &[Arc<SourceFile>]) -> bool {
    !files.is_empty() && files.iter().all(|file| file.partitions.contains_key(name))
}

/// Builds the columns with the origin of rows: `source`, `name`, `position` and the partition columns.
pub(in crate::source) struct OriginColumns {
    sources: StringViewBuilder,
    names: StringViewBuilder,
    positions: UInt64Builder,
    partition_columns: Vec<String>,
    partitions: Vec<StringViewBuilder>,
}

impl OriginColumns {
    pub(in crate::source) fn new(partition_columns: &[String]) -> Self {
        // A batch contains rows from few files, so their paths are deduplicated.
        let paths = || StringViewBuilder::new().with_deduplicate_strings();
        Self {
            sources: paths(),
            names: paths(),
            positions: UInt64Builder::new(),
            partitions: partition_columns.iter().map(|_| paths()).collect(),
            partition_columns: partition_columns.to_vec(),
        }
    }

    /// Appends rows of `file`, and returns the number of these rows.
    pub(in crate::source) fn append(
        &mut self,
        file: &SourceFile,
        positions: impl IntoIterator<Item = u64>,
    ) -> Result<usize> {
        let before = self.positions.values_slice().len();
        positions.into_iter().for_each(|position| self.positions.append_value(position));
        let count = self.positions.values_slice().len() - before;
        self.sources.try_append_value_n(&*file.path, count)?;
        self.names.try_append_value_n(&*file.name, count)?;
        for (builder, value) in self.partitions.iter_mut().zip(file.partition_values(&self.partition_columns))
        {
            match value {
                Some(value) => builder.try_append_value_n(value, count)?,
                None => (0..count).for_each(|_| builder.append_null()),
            }
        }
        Ok(count)
    }

    /// Returns the columns, and empties the builders.
    pub(in crate::source) fn finish(&mut self) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.sources.finish()),
            Arc::new(self.names.finish()),
            Arc::new(self.positions.finish()),
        ];
        columns.extend(self.partitions.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef));
        columns
    }
}

/// Returns the schema of rows with values of these types, the columns of [`OriginColumns`], and this number of partition columns.
pub(in crate::source) fn numbered_schema<'a>(
    values: impl Iterator<Item = &'a DataType>,
    partition_columns: usize,
) -> SchemaRef {
    let mut fields: Vec<Field> =
        values.enumerate().map(|(i, t)| Field::new(value_name(i), t.clone(), true)).collect();
    fields.push(Field::new("source", DataType::Utf8View, false));
    fields.push(Field::new("name", DataType::Utf8View, false));
    fields.push(Field::new("position", DataType::UInt64, false));
    fields.extend((0..partition_columns).map(|i| Field::new(partition_name(i), DataType::Utf8View, true)));
    Arc::new(Schema::new(fields))
}

/// Returns the name of the i-th value in a plan. The names in the files can collide with `source` or `position`.
pub(in crate::source) fn value_name(i: usize) -> String {
    format!("value_{i}")
}

pub(in crate::source) fn partition_name(i: usize) -> String {
    format!("partition_{i}")
}

/// The names of the job's columns, with the expressions of their values.
pub(in crate::source) type NamedExpressions = Vec<(String, Expr)>;

/// Returns the column `name` of a plan. Dots and upper-case letters in the name have no special meaning.
pub(in crate::source) fn column(name: impl Into<String>) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

pub(in crate::source) fn value(values: &NamedExpressions, name: &str) -> Result<Expr> {
    values
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, expr)| expr.clone())
        .ok_or_else(|| Error::bug(format!("column `{name}` has no value")))
}

/// Returns the carried columns with their types and their names in plans.
pub(in crate::source) fn carried(values: &NamedExpressions, columns: &[SourceColumn]) -> Result<Vec<Expr>> {
    let one = |(at, column): (usize, &SourceColumn)| {
        let value = value(values, &column.name)?;
        let value = match column.data_type {
            DataType::Utf8 => value,
            _ => cast(value, column.data_type.clone()),
        };
        Ok(value.alias(schema::carried(at)))
    };
    columns.iter().enumerate().map(one).collect()
}

/// Returns the id as Utf8View or Int64. The id is null if a part of the id is null. A row number is unique only within its file, so the id
/// starts with the file's name. Ids therefore do not change when files are added.
pub(in crate::source) fn id(source: &Source, values: &NamedExpressions, kind: IdType) -> Result<Expr> {
    let id = match &source.id {
        SourceId::Columns(names) if kind == IdType::Int64 => {
            let [name] = names.as_slice() else {
                return Err(Error::bug("an id of several columns is not a number"));
            };
            return Ok(cast(value(values, name)?, DataType::Int64));
        }
        SourceId::Columns(names) => {
            let part = |name: &String| Ok(cast(value(values, name)?, DataType::Utf8View));
            let mut parts = names.iter().map(part).collect::<Result<Vec<_>>>()?;
            let null = parts.iter().cloned().map(Expr::is_null).reduce(Expr::or);
            if parts.len() > 1 {
                parts = parts.into_iter().map(|part| escaped(part, &source.id_separator)).collect();
            }
            joined(&source.id_separator, parts, null)?
        }
        SourceId::RowNumber => {
            let row = cast(column("position"), DataType::Utf8View);
            joined(":", vec![column("name"), row], None)?
        }
        SourceId::Path => column("name"),
    };
    Ok(cast(id, DataType::Utf8View))
}

/// Escapes each backslash and each character of `separator`, so that different parts give different ids. A separator contains no backslash.
fn escaped(part: Expr, separator: &str) -> Expr {
    let special: BTreeSet<char> = separator.chars().collect();
    // Backslashes are replaced first, because the other replacements add backslashes.
    std::iter::once('\\')
        .chain(special)
        .fold(part, |part, c| replace(part, lit(c.to_string()), lit(format!("\\{c}"))))
}

/// Returns the text as Utf8View: all non-null parts, joined by newlines. The text is null if all parts are null.
pub(in crate::source) fn text(source: &Source, values: &NamedExpressions) -> Result<Expr> {
    let parts = source.text.iter().map(|name| value(values, name)).collect::<Result<Vec<_>>>()?;
    let none = parts.iter().cloned().map(Expr::is_null).reduce(and);
    Ok(cast(joined("\n", parts, none)?, DataType::Utf8View))
}

/// Joins the non-null parts with `separator`. The result is null if `null` is true.
fn joined(separator: &str, mut parts: Vec<Expr>, null: Option<Expr>) -> Result<Expr> {
    if parts.len() == 1 {
        // A single part is not copied.
        return Ok(parts.swap_remove(0));
    }
    let all = concat_ws(lit(separator), parts);
    Ok(match null {
        Some(null) => when(!null, all).end()?,
        None => all,
    })
}

/// Returns the error for a column of `source` that does not exist in `place`. `there` contains the names of the existing columns.
pub(in crate::source) fn missing(
    source: &Source,
    name: &str,
    place: &str,
    there: impl IntoIterator<Item = String>,
) -> Error {
    let mut there: Vec<String> = there.into_iter().collect();
    sort_by_likeness(name, &mut there);
    let quoted: Vec<String> = there.iter().map(|name| format!("`{name}`")).collect();
    let delimiter = other_delimiter(&there).unwrap_or_default();
    let is_quoted = source.condition.as_ref().is_some_and(|by| by.text().contains(&format!("\"{name}\"")));
    let quotes = if is_quoted {
        format!("; in source.where, double quotes enclose columns, and single quotes texts: '{name}'")
    } else {
        String::new()
    };
    let there = first_names(&quoted);
    Error::job(format!("there is no column `{name}` in {place}; there are {there}{delimiter}{quotes}"))
}

/// Returns advice about the delimiter if there is only one column and its name contains another delimiter.
fn other_delimiter(there: &[String]) -> Option<String> {
    let [only] = there else { return None };
    let delimiter = [';', '\t', '|', ','].into_iter().find(|delimiter| only.contains(*delimiter))?;
    Some(format!(
        "; the fields are separated by {delimiter:?}: set source.delimiter = \"{}\"",
        delimiter.escape_default()
    ))
}

/// Projects `plan` to the columns of `schema` with the indices `wanted`. `place` returns the index in `plan` of a column of `schema`.
pub(in crate::source) fn project(
    plan: Arc<dyn ExecutionPlan>,
    schema: &SchemaRef,
    wanted: &[usize],
    place: impl Fn(usize) -> usize,
) -> DfResult<Arc<dyn ExecutionPlan>> {
    let inner = plan.schema();
    let is_same = |(to, from): (usize, &usize)| {
        place(*from) == to && schema.field(*from).name() == inner.field(to).name()
    };
    if wanted.len() == inner.fields().len() && wanted.iter().enumerate().all(is_same) {
        return Ok(plan);
    }
    let columns = wanted.iter().map(|i| {
        let from = place(*i);
        ProjectionExpr {
            expr: Arc::new(PhysicalColumn::new(inner.field(from).name(), from)),
            alias: schema.field(*i).name().clone(),
        }
    });
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}
