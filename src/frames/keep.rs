//! keep: the order of the documents of a cluster, by `clusters.keep`.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, SortExpr, ident};
use datafusion::prelude::{DataFrame, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::by_group::group;
use crate::error::Result;
use crate::job::{Prefer, Preference, Source};
use crate::udf::expr_fn::order_key;
use crate::udf::values::order_key as key_of;

/// The column with the place of a document, if an order names reference documents: the least place comes first.
pub(crate) const BEFORE: &str = "before";

/// The name of the column for preference number `at`. Its least value comes first, or its greatest if the preference is
/// for the greatest.
fn name(at: usize) -> String {
    format!("keep_{at}")
}

/// The preferences of `order` that need a column, with its name. All documents have the number of shingles.
fn by_columns(order: &[Preference]) -> impl Iterator<Item = (String, &str, &Prefer)> {
    order.iter().enumerate().filter_map(|(at, preference)| match preference {
        Preference::Reference => None,
        Preference::Column { column, prefer: Prefer::Least | Prefer::Most }
            if column == Preference::LENGTH =>
        {
            None
        }
        Preference::Column { column, prefer } => Some((name(at), column.as_str(), prefer)),
    })
}

/// The names of [`columns`].
pub(crate) fn names(order: &[Preference]) -> Vec<String> {
    by_columns(order).map(|(name, ..)| name).collect()
}

/// The columns that order documents besides the number of their shingles, of a frame with the columns of `documents`
/// and its carried ones.
///
/// # Errors
/// When the engine refuses the expression.
pub(crate) fn columns(order: &[Preference], of_group: Option<&str>) -> Result<Vec<Expr>> {
    by_columns(order).map(|(name, column, prefer)| Ok(value(column, prefer, of_group)?.alias(name))).collect()
}

/// The preferences of `order` for values of the data, with the names of their columns.
pub(crate) fn of_data(order: &[Preference]) -> impl Iterator<Item = (String, &str, &Prefer)> {
    let is_ours = |column: &str| {
        matches!(column, Preference::LENGTH | Preference::SOURCE | Preference::POSITION | Preference::ID)
    };
    by_columns(order).filter(move |(_, column, _)| !is_ours(column))
}

/// The value of `column` as documents have it.
pub(crate) fn stored(column: &str, of_group: Option<&str>) -> Expr {
    match column {
        Preference::LENGTH => col("shingle_count"),
        Preference::GROUP => group(of_group).unalias(),
        Preference::SOURCE => col("source"),
        Preference::POSITION => col("position"),
        Preference::ID => col("id"),
        _ => ident(Source::stored(column)),
    }
}

/// The value by which `column` orders documents.
fn value(column: &str, prefer: &Prefer, of_group: Option<&str>) -> Result<Expr> {
    let value = stored(column, of_group);
    match (prefer, column) {
        (Prefer::In(values), _) => place(value, values),
        // They have the order that they have in tables.
        (_, Preference::SOURCE | Preference::POSITION | Preference::ID) => Ok(value),
        _ => Ok(order_key(value)),
    }
}

/// The place of a value in `values`, counted from 0, and after them for all others; null for no value.
fn place(value: Expr, values: &[String]) -> Result<Expr> {
    let mut places = values.iter().zip(0_u64..);
    let text = cast(value, DataType::Utf8);
    let key = order_key(text.clone());
    let is = |listed: &String| key.clone().eq(lit(ScalarValue::Binary(key_of(listed))));
    let Some((first, at)) = places.next() else { return Ok(lit(ScalarValue::UInt64(None))) };
    let mut place = when(is(first), lit(at));
    for (value, at) in places {
        place = place.when(is(value), lit(at));
    }
    Ok(place.when(text.is_not_null(), lit(values.len() as u64)).end()?)
}

/// The order of documents by [`columns`], the preferred ones first, if it does not name reference documents.
pub(crate) fn sorted(order: &[Preference]) -> Vec<SortExpr> {
    by(order.iter().enumerate().filter(|(_, preference)| **preference != Preference::Reference))
}

/// The same, and by the column [`BEFORE`] if the order names reference documents.
pub(crate) fn sorted_with_reference(order: &[Preference]) -> Vec<SortExpr> {
    by(order.iter().enumerate())
}

fn by<'a>(order: impl Iterator<Item = (usize, &'a Preference)>) -> Vec<SortExpr> {
    let by = |(at, preference): (usize, &Preference)| match preference {
        Preference::Reference => col(BEFORE).sort(true, false),
        Preference::Column { column, prefer } => {
            let value = match prefer {
                Prefer::Least | Prefer::Most if column == Preference::LENGTH => col("shingle_count"),
                _ => col(name(at)),
            };
            value.sort(*prefer != Prefer::Most, false)
        }
    };
    let mut sorted: Vec<SortExpr> = order.map(by).collect();
    sorted.push(col("id").sort(true, false));
    sorted
}

/// Documents of a second source, which carry no columns, with null for the missing ones of [`columns`], in the types of
/// `like`.
///
/// # Errors
/// When `like` lacks its columns.
pub(crate) fn without_carried(
    documents: DataFrame,
    order: &[Preference],
    like: &DataFrame,
) -> Result<DataFrame> {
    let mut documents = documents;
    for (name, column, prefer) in by_columns(order) {
        let kind = like.schema().as_arrow().field_with_name(&name)?.data_type().clone();
        let value = match Preference::OWN.contains(&column) {
            true => value(column, prefer, Some("group"))?,
            false => lit(ScalarValue::try_from(&kind)?),
        };
        documents = documents.with_column(&name, cast(value, kind))?;
    }
    Ok(documents)
}
