//! The columns of a format -> the columns that every format has.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Column;
use datafusion::error::Result as DfResult;
use datafusion::functions::string::expr_fn::{concat_ws, replace};
use datafusion::logical_expr::{Expr, and, cast, lit, when};
use datafusion::physical_expr::expressions::Column as PhysicalColumn;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use super::file::SourceFile;
use crate::error::spelling::sort_by_likeness;
use crate::error::{Error, Result};
use crate::job::{Condition, Source, SourceId};
use crate::schema::{self, IdType, SourceColumn};

/// The columns that a job needs, each once, in the order in which it names them.
#[derive(Debug)]
pub(super) struct NeededColumns<'a> {
    /// Columns of the files.
    pub of_files: Vec<&'a str>,
    /// Partition columns, which every file has: see [`Partitions`](super::file::Partitions).
    pub of_paths: Vec<String>,
}

impl<'a> NeededColumns<'a> {
    /// The columns of the id, the text, the carried ones and those of the condition. A partition column precedes a column of the
    /// files.
    pub(super) fn of(source: &'a Source, files: &[Arc<SourceFile>]) -> Self {
        let id: &[String] = match &source.id {
            SourceId::Columns(columns) => columns,
            SourceId::RowNumber | SourceId::Path => &[],
        };
        let condition = source.condition.iter().flat_map(Condition::columns);
        let mut needed = Self { of_files: Vec::new(), of_paths: Vec::new() };
        for name in id.iter().chain(&source.text).chain(&source.columns).chain(condition) {
            let is_known = needed.of_files.contains(&name.as_str()) || needed.of_paths.contains(name);
            match !files.is_empty() && files.iter().all(|file| file.partitions.value(name).is_some()) {
                _ if is_known => {}
                true => needed.of_paths.push(name.clone()),
                false => needed.of_files.push(name),
            }
        }
        needed
    }

    /// The names of the partition columns, each with the expression that gives its value.
    pub(super) fn path_values(&self) -> impl Iterator<Item = (String, Expr)> {
        self.of_paths.iter().enumerate().map(|(at, name)| (name.clone(), column(partition_name(at))))
    }
}

/// The schema of numbered rows with values of these types, and so many partition columns.
pub(super) fn numbered_schema<'a>(
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

/// The i-th value's name: the files' own names could be `source` or `position`.
pub(super) fn value_name(i: usize) -> String {
    format!("value_{i}")
}

/// The i-th partition column's name.
pub(super) fn partition_name(i: usize) -> String {
    format!("partition_{i}")
}

/// The job's names for its columns, each with the expression that gives its value.
pub(super) type NamedExpressions = Vec<(String, Expr)>;

/// The column `name` of a plan, without the parsing of dots and letter case.
pub(super) fn column(name: impl Into<String>) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// The value of the job's column `name`.
pub(super) fn value(values: &NamedExpressions, name: &str) -> Result<Expr> {
    values
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, expr)| expr.clone())
        .ok_or_else(|| Error::bug(format!("column `{name}` has no value")))
}

/// The carried columns, cast to their types, under the names that they have in plans.
pub(super) fn carried(values: &NamedExpressions, columns: &[SourceColumn]) -> Result<Vec<Expr>> {
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

/// The id, as Utf8View or Int64: null where a part of it is null.
///
/// The name of the file precedes the row number, which is unique only within a file, so an id stays what it is when another file
/// comes.
pub(super) fn id(source: &Source, values: &NamedExpressions, kind: IdType) -> Result<Expr> {
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

/// A part of an id with a backslash before each backslash and each character of `separator`, which holds no backslash. Different
/// parts then have different ids.
fn escaped(part: Expr, separator: &str) -> Expr {
    let special: BTreeSet<char> = separator.chars().collect();
    // The backslash comes first, because the others add backslashes.
    std::iter::once('\\')
        .chain(special)
        .fold(part, |part, c| replace(part, lit(c.to_string()), lit(format!("\\{c}"))))
}

/// The text (Utf8View): the parts that are not null, joined by newlines; null if there are none.
pub(super) fn text(source: &Source, values: &NamedExpressions) -> Result<Expr> {
    let parts = source.text.iter().map(|name| value(values, name)).collect::<Result<Vec<_>>>()?;
    let none = parts.iter().cloned().map(Expr::is_null).reduce(and);
    Ok(cast(joined("\n", parts, none)?, DataType::Utf8View))
}

/// The parts that are not null, joined by `separator`; null where `null` holds.
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

/// The error for a column of `source` that does not exist in `place`, which has the columns `there`.
pub(super) fn missing(
    source: &Source,
    name: &str,
    place: &str,
    there: impl IntoIterator<Item = String>,
) -> Error {
    let mut there: Vec<String> = there.into_iter().collect();
    sort_by_likeness(name, &mut there);
    let shown: Vec<String> = there.iter().take(20).map(|c| format!("`{c}`")).collect();
    let more = match there.len().saturating_sub(shown.len()) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let delimiter = other_delimiter(&there).unwrap_or_default();
    let is_quoted = source.condition.as_ref().is_some_and(|by| by.text().contains(&format!("\"{name}\"")));
    let quotes = match is_quoted {
        true => format!("; in source.where, double quotes enclose columns, and single ones texts: '{name}'"),
        false => String::new(),
    };
    Error::job(format!(
        "there is no column `{name}` in {place}; there are {}{more}{delimiter}{quotes}",
        shown.join(", ")
    ))
}

/// A sentence on the delimiter, where a file's only column has a name with another one in it.
fn other_delimiter(there: &[String]) -> Option<String> {
    let [only] = there else { return None };
    let delimiter = [';', '\t', '|', ','].into_iter().find(|delimiter| only.contains(*delimiter))?;
    Some(format!(
        "; the fields are separated by {delimiter:?}: set source.delimiter = \"{}\"",
        delimiter.escape_default()
    ))
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
            expr: Arc::new(PhysicalColumn::new(inner.field(from).name(), from)),
            alias: schema.field(*i).name().clone(),
        }
    });
    Ok(Arc::new(ProjectionExec::try_new(columns, plan)?))
}
