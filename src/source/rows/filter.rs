//! `source.where` and `source.limit` select the rows of a source that are documents. The condition also excludes files by their partition
//! columns. A limit draws a random sample: the documents with the smallest ranks. The rank is a hash of the seed, the name of the file and
//! the position. So the sample depends neither on threads nor on the order in which files are read.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringViewArray, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::cast::as_uint64_array;
use datafusion::functions::core::expr_fn::nullif;
use datafusion::functions::string::expr_fn::{concat, concat_ws};
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::logical_expr::{Expr, ExprFunctionExt, cast, lit, when};
use datafusion::prelude::{DataFrame, SessionContext};

use super::columns::{NamedExpressions, NeededColumns, column, partition_name};
use super::condition::{self, Converted, Typed};
use super::selection::Selection;
use crate::error::{Error, Result};
use crate::job::{Limit, LimitSize, Source};
use crate::kernel::hash::document_key;
use crate::source::file::SourceFile;
use crate::udf::expr_fn;

/// Returns the rows that are documents. If the limit is a number of documents, the rows are read once more to find the sample. Fails with
/// `Kind::Job` if the condition does not fit the columns.
pub(in crate::source) async fn documents(
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
    match last_rank(&rows, limit).await? {
        Some(last) => Ok(rows.filter(rank(limit.seed).lt_eq(lit(last)))?),
        None => Ok(rows),
    }
}

/// Counts the rows that are not documents: one row (by_where: UInt64, by_limit: UInt64, unread: Utf8). `unread` names the texts that the
/// condition cannot convert, or is empty.
pub(in crate::source) async fn left_out(
    ctx: &SessionContext,
    source: &Source,
    rows: DataFrame,
    values: &NamedExpressions,
) -> Result<DataFrame> {
    let Typed { meets, converted } = matching(ctx, source, &rows, values)?
        .unwrap_or_else(|| Typed { meets: lit(true), converted: Vec::new() });
    let last = match &source.limit {
        Some(limit) if let LimitSize::Percent(_) = limit.size => {
            last_rank(&rows, limit).await?.zip(Some(limit))
        }
        _ => None,
    };
    let in_sample = last.map_or(lit(true), |(last, limit)| rank(limit.seed).lt_eq(lit(last)));
    // DataFusion takes a count without a filter from the statistics of a file.
    let count_where = |condition: Expr| {
        if condition == lit(true) { Ok(count(lit(1))) } else { count(lit(1)).filter(condition).build() }
    };
    let mut counts = vec![
        count(lit(1)).alias("rows"),
        count_where(meets.clone())?.alias("matching"),
        count_where(if meets == lit(true) { in_sample } else { meets.and(in_sample) })?.alias("chosen"),
    ];
    let mut unread = Vec::with_capacity(converted.len());
    for (at, Converted { name, text, value }) in converted.into_iter().enumerate() {
        let fails = text.clone().is_not_null().and(value.is_null());
        let (number, example) = (format!("unread_{at}"), format!("example_{at}"));
        counts.push(count_where(fails.clone())?.alias(&number));
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
    let unread = if unread.is_empty() { lit("") } else { concat_ws(lit(", "), unread) };
    let [all, matching, chosen] =
        ["rows", "matching", "chosen"].map(|name| cast(column(name), DataType::UInt64));
    let chosen = match source.limit.map(|limit| limit.size) {
        Some(LimitSize::Documents(most)) => {
            when(chosen.clone().gt(lit(most)), lit(most)).otherwise(chosen)?
        }
        Some(LimitSize::Percent(_)) | None => chosen,
    };
    Ok(rows.aggregate(vec![], counts)?.select(vec![
        (all - matching.clone()).alias("by_where"),
        (matching - chosen).alias("by_limit"),
        cast(unread, DataType::Utf8).alias("unread"),
    ])?)
}

/// Returns the condition of the source. A row that cannot be read always meets the condition and is rejected later.
fn matching(
    ctx: &SessionContext,
    source: &Source,
    rows: &DataFrame,
    values: &NamedExpressions,
) -> Result<Option<Typed>> {
    let Some(condition) = &source.condition else { return Ok(None) };
    // A false result becomes null, because the nullability of a comparison differs between logical and physical plans.
    let Typed { meets, converted } = condition::expression(ctx, condition, values, rows.schema())?;
    let meets = nullif(meets, lit(false));
    let has_defect = rows.schema().has_column_with_unqualified_name("defect");
    let meets = if has_defect { column("defect").is_not_null().or(meets) } else { meets };
    Ok(Some(Typed { meets, converted }))
}

/// Returns the files whose partition columns `names` meet the condition. If no file meets the condition, returns the first file, because it
/// determines the columns. Fails with `Kind::Job` if the condition does not fit the columns.
pub(in crate::source) async fn matching_files(
    ctx: &SessionContext,
    source: &Source,
    names: &[String],
    files: &[Arc<SourceFile>],
) -> Result<Vec<Arc<SourceFile>>> {
    let condition = source.condition.as_ref().map(|condition| condition.over(names)).transpose()?.flatten();
    let Some(condition) = condition.filter(|_| !files.is_empty()) else { return Ok(files.to_vec()) };
    let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..files.len() as u64));
    let mut columns = vec![("file".to_owned(), numbers, true)];
    let mut values = NamedExpressions::new();
    for (at, name) in names.iter().enumerate() {
        let partitions = files.iter().map(|file| file.partitions.get(name)?.as_deref());
        columns.push((partition_name(at), Arc::new(StringViewArray::from_iter(partitions)), true));
        values.push((name.clone(), column(partition_name(at))));
    }
    let all = ctx.read_batch(RecordBatch::try_from_iter_with_nullable(columns)?)?;
    let meets = condition::expression(ctx, &condition, &values, all.schema())?.meets.is_true();
    let mut found: Vec<u64> = Vec::new();
    for batch in all.filter(meets)?.select(vec![column("file")])?.collect().await? {
        found.extend_from_slice(as_uint64_array(batch.column(0))?.values());
    }
    found.sort_unstable();
    if found.is_empty() {
        found.push(0);
    }
    Ok(found.into_iter().filter_map(|at| files.get(at as usize).cloned()).collect())
}

/// Returns the files that are not read because their partition columns do not meet the condition of `source`.
pub(in crate::source) async fn files_left_out(
    ctx: &SessionContext,
    source: &Source,
    files: &[Arc<SourceFile>],
) -> Result<Vec<Arc<SourceFile>>> {
    let columns = NeededColumns::new(source, files);
    let chosen = matching_files(ctx, source, &columns.in_paths, files).await?;
    let is_left_out =
        |file: &&Arc<SourceFile>| chosen.binary_search_by(|other| other.path.cmp(&file.path)).is_err();
    Ok(files.iter().filter(is_left_out).cloned().collect())
}

/// The maximum number of rows in a source whose sample becomes a [`Selection`], which then takes 4 MiB in memory and in plans.
const MOST_KNOWN_ROWS: u64 = 1 << 25;

fn rank(seed: u64) -> Expr {
    let position = cast(column("position"), DataType::Utf8View);
    expr_fn::document_key(concat(vec![lit(format!("{seed}:")), column("name"), lit(":"), position]))
}

/// Returns the [`rank`] of a row in the file `name`.
fn rank_of(seed: u64, name: &str, position: u64) -> u64 {
    document_key(&format!("{seed}:{name}:{position}"))
}

/// Returns the largest rank in the sample of `rows`, or `None` if the sample contains all rows.
async fn last_rank(rows: &DataFrame, limit: &Limit) -> Result<Option<u64>> {
    let most = match limit.size {
        LimitSize::Percent(percent) => return Ok(last_rank_of_share(percent / 100.0)),
        LimitSize::Documents(most) => most,
    };
    let fetch = usize::try_from(most).unwrap_or(usize::MAX);
    let least = rows
        .clone()
        .select(vec![rank(limit.seed).alias("rank")])?
        .sort(vec![column("rank").sort(true, false)])?
        .limit(0, Some(fetch))?
        .aggregate(
            vec![],
            vec![max(column("rank")).alias("last"), cast(count(lit(1)), DataType::UInt64).alias("rows")],
        )?;
    let batches = least.collect().await?;
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() == 1) else {
        return Err(Error::bug("an aggregate has no row"));
    };
    let (last, rows) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
    Ok((rows.value(0) >= most).then(|| last.value(0)))
}

/// Returns the largest rank in a sample of this share of all rows, or `None` if the sample contains all rows.
fn last_rank_of_share(share: f64) -> Option<u64> {
    let ranks = share * 2f64.powi(64);
    (share < 1.0).then(|| (ranks as u64).saturating_sub(1))
}

/// A file whose number of rows is known before it is read.
pub(in crate::source) struct KnownRows<'a> {
    pub path: &'a str,
    pub name: &'a str,
    pub rows: u64,
}

/// Returns the sample of the rows in these files. Returns `None` if the source has a condition or no limit, if there are too many rows, or
/// if the sample contains all rows.
pub(in crate::source) fn sample_known_rows(source: &Source, files: &[KnownRows<'_>]) -> Option<Selection> {
    let limit = source.limit.filter(|_| source.condition.is_none())?;
    let rows = files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.rows))?;
    let last = (rows <= MOST_KNOWN_ROWS).then(|| last_known_rank(&limit, files)).flatten()?;
    let mut sample = Selection::default();
    for KnownRows { path, name, rows } in files {
        let chosen = (0..*rows).filter(|position| rank_of(limit.seed, name, *position) <= last);
        chosen.for_each(|position| sample.insert(path, position));
    }
    Some(sample)
}

fn last_known_rank(limit: &Limit, files: &[KnownRows<'_>]) -> Option<u64> {
    let most = match limit.size {
        LimitSize::Percent(percent) => return last_rank_of_share(percent / 100.0),
        LimitSize::Documents(most) => usize::try_from(most).ok()?,
    };
    let mut least: Vec<u64> = Vec::new();
    let keep_least = |least: &mut Vec<u64>| {
        least.select_nth_unstable(most - 1);
        least.truncate(most);
    };
    for KnownRows { name, rows, .. } in files {
        for position in 0..*rows {
            least.push(rank_of(limit.seed, name, position));
            if least.len() >= most.saturating_mul(2) {
                keep_least(&mut least);
            }
        }
    }
    if least.len() < most {
        return None;
    }
    keep_least(&mut least);
    least.last().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_of_known_rows_has_the_smallest_ranks() {
        let files = [("a", 40), ("b/c", 0), ("d", 60)];
        let mut ranks: Vec<u64> = files
            .iter()
            .flat_map(|(name, rows)| (0..*rows).map(move |row| document_key(&format!("7:{name}:{row}"))))
            .collect();
        ranks.sort();
        let files = files.map(|(name, rows)| KnownRows { path: "path", name, rows });
        for most in [1, 2, 37, 99, 100] {
            let limit = Limit { size: LimitSize::Documents(most), seed: 7 };
            assert_eq!(last_known_rank(&limit, &files), Some(ranks[most as usize - 1]), "{most}");
        }
        let more = Limit { size: LimitSize::Documents(101), seed: 7 };
        assert_eq!(last_known_rank(&more, &files), None);
        let half = Limit { size: LimitSize::Percent(50.0), seed: 7 };
        assert_eq!(last_known_rank(&half, &files), Some(u64::MAX / 2));
    }
}
