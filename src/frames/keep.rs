//! The order of documents in a cluster, by `clusters.keep`.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Expr, SortExpr, ident};
use datafusion::prelude::{DataFrame, cast, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::groups::group;
use super::no_number;
use crate::error::Result;
use crate::job::{Prefer, Preference, Source};
use crate::udf::expr_fn::order_key;
use crate::udf::values::order_key as key_of;

/// The column that orders documents if an order names reference documents. Documents with the smallest number come first.
pub(crate) const BEFORE: &str = "before";

/// The column for the preference with index `at`. Documents with the smallest value come first, or with the largest for [`Prefer::Most`].
fn name(at: usize) -> String {
    format!("keep_{at}")
}

/// The preferences in `order` that need an additional column, with its name. The number of shingles is a column already.
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

pub(crate) fn names(order: &[Preference]) -> Vec<String> {
    by_columns(order).map(|(name, ..)| name).collect()
}

/// The columns that order documents, except for the number of shingles. The frame has the columns of `documents` and the carried columns,
/// and `group` is the name of the column with the group.
pub(crate) fn order_columns(order: &[Preference], group: Option<&str>) -> Result<Vec<Expr>> {
    by_columns(order).map(|(name, column, prefer)| Ok(value(column, prefer, group)?.alias(name))).collect()
}

/// The preferences in `order` for columns of the data, with the names of their order columns.
pub(crate) fn data_preferences(order: &[Preference]) -> impl Iterator<Item = (String, &str, &Prefer)> {
    let is_own = |column: &str| {
        matches!(column, Preference::LENGTH | Preference::SOURCE | Preference::POSITION | Preference::ID)
    };
    by_columns(order).filter(move |(_, column, _)| !is_own(column))
}

/// The value of `column` in the table `documents`.
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

fn value(column: &str, prefer: &Prefer, of_group: Option<&str>) -> Result<Expr> {
    let value = stored(column, of_group);
    match (prefer, column) {
        (Prefer::In(values), _) => place_in(value, values),
        // These columns are ordered by their values.
        (_, Preference::SOURCE | Preference::POSITION | Preference::ID) => Ok(value),
        _ => Ok(order_key(value)),
    }
}

/// The index of a value in `values`: the length of `values` for any other value, and null for a missing value.
fn place_in(value: Expr, values: &[String]) -> Result<Expr> {
    let mut places = values.iter().zip(0_u64..);
    let text = cast(value, DataType::Utf8);
    let key = order_key(text.clone());
    let is = |listed: &String| key.clone().eq(lit(ScalarValue::Binary(key_of(listed))));
    let Some((first, at)) = places.next() else { return Ok(no_number()) };
    let mut place = when(is(first), lit(at));
    for (value, at) in places {
        place = place.when(is(value), lit(at));
    }
    Ok(place.when(text.is_not_null(), lit(values.len() as u64)).end()?)
}

/// Sorts documents by [`order_columns`], preferred documents first, without the preference for reference documents.
pub(crate) fn sorted(order: &[Preference]) -> Vec<SortExpr> {
    sort_exprs(order.iter().enumerate().filter(|(_, preference)| **preference != Preference::Reference))
}

/// Like [`sorted`], but also sorts by the column [`BEFORE`] if the order names reference documents.
pub(crate) fn sorted_with_reference(order: &[Preference]) -> Vec<SortExpr> {
    sort_exprs(order.iter().enumerate())
}

fn sort_exprs<'a>(order: impl Iterator<Item = (usize, &'a Preference)>) -> Vec<SortExpr> {
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
    order.map(by).chain([col("id").sort(true, false)]).collect()
}

/// Adds [`order_columns`] to documents from a second source, which have no carried columns. Columns of the data are null, with the types
/// in `like`.
pub(crate) fn without_carried(
    documents: DataFrame,
    order: &[Preference],
    like: &DataFrame,
) -> Result<DataFrame> {
    let mut documents = documents;
    for (name, column, prefer) in by_columns(order) {
        let kind = like.schema().as_arrow().field_with_name(&name)?.data_type().clone();
        let value = if Preference::OWN.contains(&column) {
            value(column, prefer, Some("group"))?
        } else {
            lit(ScalarValue::try_from(&kind)?)
        };
        documents = documents.with_column(&name, cast(value, kind))?;
    }
    Ok(documents)
}
