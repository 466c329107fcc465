//! Checks of `clusters.keep`: resolves each name to a column, and verifies that the column's values can be ordered.

use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::logical_expr::{Expr, ExprFunctionExt, ident};
use datafusion::prelude::{SessionContext, lit};
use datafusion::scalar::ScalarValue;

use super::context::StageContext;
use crate::error::{Error, Result};
use crate::frames::keep;
use crate::job::{Job, Prefer, Preference, SourceId};
use crate::schema::Table;
use crate::source;
use crate::udf::values::shown;

/// Resolves the names in `clusters.keep`. A name without brackets refers to the column of the data with this name, which documents then
/// carry. If the data has no such column, the name refers to the value that the program computes.
pub(crate) async fn settled(session: &SessionContext, job: &Job) -> Result<Job> {
    let mut job = job.clone();
    let reads_texts = job.reads_texts();
    for preference in &mut job.clusters.keep {
        let Preference::Column { column, .. } = preference else { continue };
        let Some(own) = Preference::own(column).filter(|_| !job.source.columns.contains(column)) else {
            continue;
        };
        let is_id = matches!(&job.source.id, SourceId::Columns(columns) if *columns == [column.as_str()]);
        if reads_texts && !is_id && source::has_column(session, &job.source, column).await? {
            tracing::info!("clusters.keep: `{column}` is the column of the data; `{own}` is this program's");
            job.source.columns.push(column.clone());
        } else {
            *column = own.to_owned();
        }
    }
    Ok(job)
}

/// Refuses columns that mix numbers and texts with `Kind::Input`. Warns of entries in `clusters.keep` that have no effect.
pub(super) async fn check(cx: &StageContext<'_>) -> Result<()> {
    let (order, group) = (cx.job.clusters.order(), cx.job.source.group.as_deref());
    let entries: Vec<_> = keep::data_preferences(&order).collect();
    if entries.is_empty() {
        return Ok(());
    }
    let given = |name: &str, value: Expr| value.is_not_null().alias(format!("given_{name}"));
    let mut columns = keep::order_columns(&order, group)?;
    columns.extend(entries.iter().map(|(name, column, _)| given(name, keep::stored(column, group))));
    let own = cx.table(Table::Documents)?.select(columns)?;
    let names = entries.iter().flat_map(|(name, ..)| [ident(name), ident(format!("given_{name}"))]);
    let mut all = own.clone().select(names.collect::<Vec<_>>())?;
    if let Some(reference) = cx.reference {
        let names = entries.iter().flat_map(|(name, ..)| [ident(name), given(name, ident(name))]);
        all = all.union(reference.in_order(cx, &own)?.0.select(names.collect::<Vec<_>>())?)?;
    }
    for (name, column, prefer) in entries {
        let (value, one) = (ident(&name), || count(lit(1)));
        let is_nan = ident(format!("given_{name}")).and(value.clone().is_null());
        let mut counts = vec![min(value.clone()), max(value.clone()), one(), one().filter(is_nan).build()?];
        if let Prefer::In(listed) = prefer {
            for at in 0..listed.len() as u64 {
                counts.push(one().filter(value.clone().eq(lit(at))).build()?);
            }
        }
        let counts: Vec<Expr> =
            counts.into_iter().enumerate().map(|(at, count)| count.alias(format!("count_{at}"))).collect();
        for batch in all.clone().aggregate(vec![], counts)?.collect().await? {
            let found = batch.columns().iter().map(|of| ScalarValue::try_from_array(of, 0));
            verdict(column, prefer, &found.collect::<Result<Vec<_>, _>>()?)?;
        }
    }
    Ok(())
}

/// Checks the values of the entry's column. Warns if the entry has no effect. `found` contains the minimum, the maximum, the number of
/// documents, and the number of documents with NaN. For a list of values, it also contains the number of documents with each listed
/// value.
fn verdict(column: &str, prefer: &Prefer, found: &[ScalarValue]) -> Result<()> {
    const KEY: &str = "clusters.keep";
    let [least, most, documents, nan, listed @ ..] = found else {
        return Err(Error::bug("a count is missing"));
    };
    let is_zero = |count: &ScalarValue| *count == ScalarValue::Int64(Some(0));
    if let Prefer::In(values) = prefer {
        let absent = values.iter().zip(listed).filter(|(_, count)| is_zero(count));
        for (value, _) in absent {
            tracing::warn!("{KEY}: no document has the value `{value}` of `{column}`");
        }
        return Ok(());
    }
    if !is_zero(nan) {
        tracing::warn!("{KEY}: `{column}` is NaN in {nan} documents, which come last");
    }
    match (least, most) {
        (ScalarValue::Binary(Some(least)), ScalarValue::Binary(Some(most)))
            if shown(least).0 != shown(most).0 =>
        {
            return Err(Error::input(format!(
                "{KEY} orders documents by `{column}`, which has numbers and texts, such as {} and {}: these have no common order; \
                 correct the values, leave such rows out (source.where), or write a list, as in \"{column} in (A, B)\"",
                shown(least).1,
                shown(most).1
            )));
        }
        (least, _) if least.is_null() => {
            tracing::warn!("{KEY}: no document has a value of `{column}`, so it decides nothing");
        }
        (least, most) if least == most && *documents != ScalarValue::Int64(Some(1)) => {
            let value = match least {
                ScalarValue::Binary(Some(key)) => shown(key).1,
                other => other.to_string(),
            };
            tracing::warn!("{KEY}: all documents with a `{column}` have the same one, {value}");
        }
        _ => {}
    }
    Ok(())
}
