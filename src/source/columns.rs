//! The columns of a format -> those that every format has.

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::utils::datafusion_strsim::normalized_levenshtein;
use datafusion::functions::string::expr_fn::concat_ws;
use datafusion::logical_expr::{Expr, and, cast, lit, when};

use crate::error::{Error, Result};
use crate::job::{Id, Source};
use crate::schema::{self, IdType, SourceColumn};

/// The columns that the job's id and text need and those that it carries, each once, in the order in which it names them.
pub(super) fn needed(source: &Source) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let id: &[String] = match &source.id {
        Id::Columns(columns) => columns,
        Id::RowNumber | Id::Path => &[],
    };
    for name in id.iter().chain(&source.text).chain(&source.columns) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names
}

/// The job's names for its columns, each with the expression that gives its value.
pub(super) type Values = Vec<(String, Expr)>;

/// The column `name` of a plan, whatever letters it is made of.
pub(super) fn column(name: impl Into<String>) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

fn value(values: &Values, name: &str) -> Result<Expr> {
    values
        .iter()
        .find(|(known, _)| known == name)
        .map(|(_, expr)| expr.clone())
        .ok_or_else(|| Error::bug(format!("no value was made for column `{name}`")))
}

/// The columns that the job carries, as these types, under the names by which they travel.
pub(super) fn carried(values: &Values, columns: &[SourceColumn]) -> Result<Vec<Expr>> {
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

/// The id (Utf8View, or Int64 where `kind` says so): null where a part of it is null.
///
/// `several` files put the file's name before the row number, which is only unique within a file.
pub(super) fn id(source: &Source, values: &Values, several: bool, kind: IdType) -> Result<Expr> {
    let id = match &source.id {
        Id::Columns(names) if kind == IdType::Int64 => {
            let [name] = names.as_slice() else {
                return Err(Error::bug("an id of several columns is not a number"));
            };
            return Ok(cast(value(values, name)?, DataType::Int64));
        }
        Id::Columns(names) => {
            let parts = names
                .iter()
                .map(|name| Ok(cast(value(values, name)?, DataType::Utf8View)))
                .collect::<Result<Vec<_>>>()?;
            joined(
                &source.id_separator,
                parts.clone(),
                parts.into_iter().map(|part| part.is_null()).reduce(Expr::or),
            )?
        }
        Id::RowNumber => {
            let row = cast(column("position"), DataType::Utf8View);
            if several { joined(":", vec![column("name"), row], None)? } else { row }
        }
        Id::Path => column("name"),
    };
    Ok(cast(id, DataType::Utf8View))
}

/// The text (Utf8View): the parts that are there, a newline between them; null if there is none.
pub(super) fn text(source: &Source, values: &Values) -> Result<Expr> {
    let parts = source.text.iter().map(|name| value(values, name)).collect::<Result<Vec<_>>>()?;
    let none = parts.iter().cloned().map(Expr::is_null).reduce(and);
    Ok(cast(joined("\n", parts, none)?, DataType::Utf8View))
}

/// `parts` with `separator` between those that are not null; null where `null` says so.
fn joined(separator: &str, mut parts: Vec<Expr>, null: Option<Expr>) -> Result<Expr> {
    if parts.len() == 1 {
        // One part is its own value, without a copy.
        return Ok(parts.swap_remove(0));
    }
    let all = concat_ws(lit(separator), parts);
    Ok(match null {
        Some(null) => when(!null, all).end()?,
        None => all,
    })
}

/// The job asks for a column that is not there.
pub(super) fn missing(name: &str, place: &str, there: impl IntoIterator<Item = String>) -> Error {
    let mut there: Vec<String> = there.into_iter().collect();
    let likeness = |other: &String| normalized_levenshtein(&name.to_lowercase(), &other.to_lowercase());
    // A stable sort: columns that are equally unlike keep the file's order.
    there.sort_by(|a, b| likeness(b).total_cmp(&likeness(a)));
    let shown: Vec<String> = there.iter().take(20).map(|c| format!("`{c}`")).collect();
    let more = match there.len().saturating_sub(shown.len()) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    Error::job(format!("there is no column `{name}` in {place}; there are {}{more}", shown.join(", ")))
}
