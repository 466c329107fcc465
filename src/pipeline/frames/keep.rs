//! keep: which document of a cluster is wanted most.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, SortExpr, ident};
use datafusion::prelude::{DataFrame, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::by_group::group;
use crate::error::Result;
use crate::job::{Prefer, Preference};

/// The name of the column by which preference number `at` orders documents: the least value is wanted most, or the greatest one
/// where the greatest are.
pub(crate) fn name(at: usize) -> String {
    format!("keep_{at}")
}

/// What orders documents, of a frame that has the columns of `documents` and those that it carries.
///
/// # Errors
/// When the engine refuses the expression.
pub(crate) fn columns(keep: &[Preference], of_group: Option<&str>) -> Result<Vec<Expr>> {
    let column = |(at, Preference { column, prefer }): (usize, &Preference)| -> Result<Expr> {
        let value = match column.as_str() {
            "length" => col("shingle_count"),
            "group" if of_group.is_some() => group(of_group).unalias(),
            _ => ident(column),
        };
        let value = match prefer {
            Prefer::Least | Prefer::Most => value,
            Prefer::In(values) => place(value, values)?,
        };
        Ok(value.alias(name(at)))
    };
    keep.iter().enumerate().map(column).collect()
}

/// The place of a value among `values`, counted from 0, all others behind them; null for no value.
fn place(value: Expr, values: &[String]) -> Result<Expr> {
    let mut places = values.iter().zip(0_u64..);
    let text = cast(value, DataType::Utf8);
    let Some((first, at)) = places.next() else { return Ok(lit(ScalarValue::UInt64(None))) };
    let mut place = when(text.clone().eq(lit(first.as_str())), lit(at));
    for (value, at) in places {
        place = place.when(text.clone().eq(lit(value.as_str())), lit(at));
    }
    Ok(place.when(text.is_not_null(), lit(values.len() as u64)).end()?)
}

/// The order of documents, by [`columns`], those that are wanted most first.
pub(crate) fn order(keep: &[Preference]) -> Vec<SortExpr> {
    let by =
        |(at, preference): (usize, &Preference)| col(name(at)).sort(preference.prefer != Prefer::Most, false);
    let mut order: Vec<SortExpr> = match keep.is_empty() {
        true => vec![col("shingle_count").sort(false, false)],
        false => keep.iter().enumerate().map(by).collect(),
    };
    order.push(col("id").sort(true, false));
    order
}

/// Documents of a second source, which carry nothing, with null in the columns of [`columns`] that they lack: of the types that
/// `like` has.
///
/// # Errors
/// When `like` lacks its columns.
pub(crate) fn without_carried(
    documents: DataFrame,
    keep: &[Preference],
    like: &DataFrame,
) -> Result<DataFrame> {
    let mut documents = documents;
    for (at, preference) in keep.iter().enumerate() {
        let is_there = Preference::OWN.contains(&preference.column.as_str());
        let kind = like.schema().as_arrow().field_with_name(&name(at))?.data_type().clone();
        let value = match is_there {
            true => columns(std::slice::from_ref(preference), Some("group"))?.remove(0).unalias(),
            false => lit(ScalarValue::try_from(&kind)?),
        };
        documents = documents.with_column(&name(at), cast(value, kind))?;
    }
    Ok(documents)
}
