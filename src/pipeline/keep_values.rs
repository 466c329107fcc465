//! Checks of `clusters.keep`: resolves each name to a column, and verifies that the column's values can be ordered.

use arrow::datatypes::DataType;
use datafusion::functions::regex::expr_fn::regexp_like;
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::logical_expr::{Expr, ExprFunctionExt, ident};
use datafusion::prelude::{SessionContext, lit, try_cast};
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

/// Matches the sort keys of texts that are dates or numbers, but do not sort as such in alphabetical order: `17.04.2026`, `4/17/26`,
/// `2026-4-17`, `17 Apr 2026`, `1.234,50`, `$9.50`. The first byte of a text's key is 2.
const DISORDERED: &str = r"(?ix)^\x02\s*(?: (?:[a-z]{3,9},?\s+)?(?:
      \d\d?[./\ -]\d\d?[./\ -]\d{4} | \d\d?[./]\d\d?[./]\d\d | \d{4}[./-](?:\d[./-]\d\d?|\d\d[./-]\d) | (?:\d\d?[.\s-]*)?(?:
        jan(?:uary?)?|feb(?:ruary?)?|m(?:ar(?:ch)?|ärz)|apr(?:il)?|ma[iy]|jun[ei]?|jul[iy]?|aug(?:ust)?|sept?(?:ember)?|o[ck]t(?:ober)?
        |nov(?:ember)?|de[cz](?:ember)?)[.,\s-]+(?:\d\d?,?\s+)?(?:\d{4}|\d\d))(?:[T,\s]+\d\d?:.*)?
    | [$€£¥+\s-]*\d+(?:[.,'’\s]\d{3})*(?:[.,]\d+)?[$€£¥%\s]* )$";

/// Refuses columns that mix numbers and texts, and columns with texts that match [`DISORDERED`]. Warns of entries in `clusters.keep` that
/// have no effect.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if a column contains such values. The message shows them.
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
        // Only columns with texts have binary sort keys.
        let disordered = match all.schema().as_arrow().field_with_name(&name)?.data_type() {
            DataType::Binary => regexp_like(try_cast(value.clone(), DataType::Utf8), lit(DISORDERED), None),
            _ => lit(false),
        };
        let disordered = min(value.clone()).filter(disordered).build()?;
        let [least, most] = [min(value.clone()), max(value.clone())];
        let mut counts = vec![disordered, least, most, one(), one().filter(is_nan).build()?];
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

/// Reports what is wrong with the entry for `column`, if anything. `found` contains a value that matches [`DISORDERED`], the minimum and
/// the maximum value, the number of documents, and the number of documents with NaN. For a list, it also contains the number of documents
/// with each listed value.
fn verdict(column: &str, prefer: &Prefer, found: &[ScalarValue]) -> Result<()> {
    const KEY: &str = "clusters.keep";
    let [disordered, least, most, documents, nan, listed @ ..] = found else {
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
        tracing::warn!("{KEY}: `{column}` is NaN in {nan} of the documents, which come last");
    }
    if let ScalarValue::Binary(Some(key)) = disordered {
        return Err(Error::input(format!(
            "{KEY} orders documents by `{column}`, whose values, such as {}, are dates or numbers that sort differently as texts: write \
             dates as 2026-04-17 and numbers as 1234.5, or write a list, as in \"{column} in (A, B)\"",
            shown(key).1
        )));
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
