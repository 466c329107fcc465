//! `source.where` and `source.limit`: which rows of a source are documents.
//!
//! `condition` makes an expression of the SQL, `sample` chooses documents by a hash of their places, and `files` leaves out files by the
//! values in their paths.

mod condition;
mod files;
mod sample;

use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::{Expr, cast, lit, when};
use datafusion::prelude::{DataFrame, SessionContext};

use super::columns::{Values, column};
use crate::error::Result;
use crate::job::{LimitSize, Source};

pub(super) use self::files::files;
pub(super) use self::sample::{KnownRows, of_known_rows};

/// The rows of `rows` that are documents.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where the condition does not fit the columns. When the rows cannot be read, if the limit is a
/// number: they are read once to find which documents it takes.
pub(super) async fn documents(
    ctx: &SessionContext,
    source: &Source,
    rows: DataFrame,
    values: &Values,
) -> Result<DataFrame> {
    let rows = match matching(ctx, source, &rows, values)? {
        Some(matching) => rows.filter(matching)?,
        None => rows,
    };
    let Some(limit) = &source.limit else { return Ok(rows) };
    match sample::last(&rows, limit).await? {
        Some(last) => Ok(rows.filter(sample::rank(limit.seed).lt_eq(lit(last)))?),
        None => Ok(rows),
    }
}

/// A row with the numbers of the rows of `rows` that are no documents: (by_where: UInt64, by_limit: UInt64).
///
/// # Errors
/// As [`documents`].
pub(super) async fn left_out(
    ctx: &SessionContext,
    source: &Source,
    rows: DataFrame,
    values: &Values,
) -> Result<DataFrame> {
    let matching = matching(ctx, source, &rows, values)?.unwrap_or(lit(true));
    let number = |rows: Expr| -> Result<Expr> {
        let one = when(rows, lit(1)).otherwise(lit(ScalarValue::Int32(None)))?;
        Ok(cast(count(one), DataType::UInt64))
    };
    let chosen = match &source.limit {
        Some(limit) if let LimitSize::Share(_) = limit.size => match sample::last(&rows, limit).await? {
            Some(last) => matching.clone().and(sample::rank(limit.seed).lt_eq(lit(last))),
            None => matching.clone(),
        },
        _ => matching.clone(),
    };
    let counted = rows.aggregate(
        vec![],
        vec![
            number(lit(true))?.alias("rows"),
            number(matching)?.alias("matching"),
            number(chosen)?.alias("chosen"),
        ],
    )?;
    let most = match source.limit.map(|limit| limit.size) {
        Some(LimitSize::Documents(most)) => most,
        Some(LimitSize::Share(_)) | None => u64::MAX,
    };
    let chosen = when(column("chosen").gt(lit(most)), lit(most)).otherwise(column("chosen"))?;
    Ok(counted.select(vec![
        (column("rows") - column("matching")).alias("by_where"),
        (column("matching") - chosen).alias("by_limit"),
    ])?)
}

/// Whether a row meets the condition of the source, if it has one. A row that cannot be read does: it is rejected.
fn matching(
    ctx: &SessionContext,
    source: &Source,
    rows: &DataFrame,
    values: &Values,
) -> Result<Option<Expr>> {
    let Some(condition) = &source.condition else { return Ok(None) };
    let meets = condition::expression(ctx, condition, values, rows.schema())?.is_true();
    Ok(Some(match rows.schema().has_column_with_unqualified_name("defect") {
        true => column("defect").is_not_null().or(meets),
        false => meets,
    }))
}
