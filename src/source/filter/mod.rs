//! `source.where` and `source.limit`: which rows of a source are documents.
//!
//! `condition` makes an expression of the SQL, `sample` chooses documents by a hash of their places, and `files` leaves out files
//! by the values in their paths.

mod condition;
mod files;
mod sample;

use arrow::datatypes::DataType;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions::string::expr_fn::{concat, concat_ws};
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::logical_expr::{ExprFunctionExt, cast, lit, when};
use datafusion::prelude::{DataFrame, SessionContext};

use self::condition::{Converted, Typed};
use super::columns::{NamedExpressions, column};
use crate::error::Result;
use crate::job::{LimitSize, Source};

pub(super) use self::files::files;
pub(super) use self::sample::{KnownRows, of_known_rows};

/// The rows of `rows` that are documents.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where the condition does not fit the columns. When the rows cannot be read, if the
/// limit is a number: they are read once to find which documents it takes.
pub(super) async fn documents(
    ctx: &SessionContext,
    source: &Source,
    rows: DataFrame,
    values: &NamedExpressions,
) -> Result<DataFrame> {
    let rows = match matching(ctx, source, &rows, values)? {
        Some(matching) => rows.filter(matching.meets)?,
        None => rows,
    };
    let Some(limit) = &source.limit else { return Ok(rows) };
    match sample::last(&rows, limit).await? {
        Some(last) => Ok(rows.filter(sample::rank(limit.seed).lt_eq(lit(last)))?),
        None => Ok(rows),
    }
}

/// A row with the numbers of the rows of `rows` that are no documents: (by_where: UInt64, by_limit: UInt64, unread: Utf8). `unread`
/// names the texts that the condition cannot convert; it is empty if there are none.
///
/// # Errors
/// As [`documents`].
pub(super) async fn left_out(
    ctx: &SessionContext,
    source: &Source,
    rows: DataFrame,
    values: &NamedExpressions,
) -> Result<DataFrame> {
    let (matching, converted) = match matching(ctx, source, &rows, values)? {
        Some(Typed { meets, converted }) => (Some(meets), converted),
        None => (None, Vec::new()),
    };
    let last = match &source.limit {
        Some(limit) if let LimitSize::Percent(_) = limit.size => {
            sample::last(&rows, limit).await?.map(|last| sample::rank(limit.seed).lt_eq(lit(last)))
        }
        _ => None,
    };
    let chosen = last.map(|in_sample| match &matching {
        Some(matching) => matching.clone().and(in_sample),
        None => in_sample,
    });
    let mut counts = vec![count(lit(1)).alias("rows")];
    for (name, condition) in [("matching", &matching), ("chosen", &chosen)] {
        if let Some(condition) = condition {
            counts.push(count(lit(1)).filter(condition.clone()).build()?.alias(name));
        }
    }
    let mut unread = Vec::with_capacity(converted.len());
    for (at, Converted { name, text, value }) in converted.into_iter().enumerate() {
        let fails = text.clone().is_not_null().and(value.is_null());
        let (number, example) = (format!("unread_{at}"), format!("example_{at}"));
        counts.push(count(lit(1)).filter(fails.clone()).build()?.alias(&number));
        counts.push(min(text).filter(fails).build()?.alias(&example));
        let shown = concat(vec![
            lit(format!("`{name}` in ")),
            cast(column(&number), DataType::Utf8),
            lit(" rows, such as \""),
            column(&example),
            lit("\""),
        ]);
        unread.push(when(column(&number).gt(lit(0_i64)), cast(shown, DataType::Utf8)).end()?);
    }
    let unread = match unread.is_empty() {
        true => lit(""),
        false => concat_ws(lit(", "), unread),
    };
    let number = |name: &str| cast(column(name), DataType::UInt64);
    let rows_count = number("rows");
    let matching = matching.map_or(rows_count.clone(), |_| number("matching"));
    let chosen = chosen.map_or(matching.clone(), |_| number("chosen"));
    let chosen = match source.limit.map(|limit| limit.size) {
        Some(LimitSize::Documents(most)) => {
            when(chosen.clone().gt(lit(most)), lit(most)).otherwise(chosen)?
        }
        Some(LimitSize::Percent(_)) | None => chosen,
    };
    Ok(rows.aggregate(vec![], counts)?.select(vec![
        (rows_count - matching.clone()).alias("by_where"),
        (matching - chosen).alias("by_limit"),
        cast(unread, DataType::Utf8).alias("unread"),
    ])?)
}

/// Whether a row meets the condition of the source, if it has one. A row that cannot be read does: it is rejected.
fn matching(
    ctx: &SessionContext,
    source: &Source,
    rows: &DataFrame,
    values: &NamedExpressions,
) -> Result<Option<Typed>> {
    let Some(condition) = &source.condition else { return Ok(None) };
    // Null instead of false: the nullability of a comparison is not the same in logical and physical plans.
    let Typed { meets, converted } = condition::expression(ctx, condition, values, rows.schema())?;
    let meets = nullif(meets, lit(false));
    let meets = match rows.schema().has_column_with_unqualified_name("defect") {
        true => column("defect").is_not_null().or(meets),
        false => meets,
    };
    Ok(Some(Typed { meets, converted }))
}
