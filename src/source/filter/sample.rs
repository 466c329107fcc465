//! A random sample of the documents of a source.
//!
//! Each document has a rank, a hash of the seed, the name of its file below the URL, and its place there. A sample has the
//! documents of the least ranks, so that it depends neither on threads nor on the order in which files are read.

use arrow::datatypes::DataType;
use datafusion::common::cast::as_uint64_array;
use datafusion::functions::string::expr_fn::concat;
use datafusion::functions_aggregate::expr_fn::{count, max};
use datafusion::logical_expr::{Expr, cast, lit};
use datafusion::prelude::DataFrame;

use crate::error::{Error, Result};
use crate::job::{Limit, LimitSize, Source};
use crate::kernel::document_key::document_key;
use crate::source::columns::column;
use crate::source::selection::Selection;
use crate::udf::expr_fn;

/// The most rows for which a bit each is held, and sent to a cluster: 4 MiB of bits.
const MOST_KNOWN_ROWS: u64 = 1 << 25;

/// The rank of each row.
pub(super) fn rank(seed: u64) -> Expr {
    let position = cast(column("position"), DataType::Utf8View);
    expr_fn::document_key(concat(vec![lit(format!("{seed}:")), column("name"), lit(":"), position]))
}

/// The rank of a row of the file `name`, as [`rank`] has it.
fn rank_of(seed: u64, name: &str, position: u64) -> u64 {
    document_key(&format!("{seed}:{name}:{position}"))
}

/// The greatest rank in a sample of these rows; `None` if it has all of them.
///
/// # Errors
/// When the rows cannot be read, or there is too little memory for the ranks of the sample.
pub(super) async fn last(rows: &DataFrame, limit: &Limit) -> Result<Option<u64>> {
    let most = match limit.size {
        LimitSize::Percent(percent) => return Ok(last_of_share(percent / 100.0)),
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

/// The greatest rank in a sample of this share of all rows; `None` if it is all of them.
fn last_of_share(share: f64) -> Option<u64> {
    // 2^64 is the number of ranks. The product is less, or it is all of them.
    let ranks = share * 2f64.powi(64);
    (share < 1.0).then(|| (ranks as u64).saturating_sub(1))
}

/// A file of a number of rows that is known before they are read.
pub(in crate::source) struct KnownRows<'a> {
    pub path: &'a str,
    pub name: &'a str,
    pub rows: u64,
}

/// The sample of the documents of these files, if all of their rows are documents, and are not too many to hold a bit for each.
pub(in crate::source) fn of_known_rows(source: &Source, files: &[KnownRows<'_>]) -> Option<Selection> {
    let limit = source.limit.filter(|_| source.condition.is_none())?;
    let rows = files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.rows))?;
    let last = (rows <= MOST_KNOWN_ROWS).then(|| least_ranks(&limit, files)).flatten()?;
    let mut sample = Selection::default();
    for KnownRows { path, name, rows } in files {
        let chosen = (0..*rows).filter(|position| rank_of(limit.seed, name, *position) <= last);
        chosen.for_each(|position| sample.insert(path, position));
    }
    Some(sample)
}

/// The greatest rank in the sample; `None` if it has all rows.
fn least_ranks(limit: &Limit, files: &[KnownRows<'_>]) -> Option<u64> {
    let most = match limit.size {
        LimitSize::Percent(percent) => return last_of_share(percent / 100.0),
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
    fn the_sample_of_known_rows_is_that_of_the_least_ranks() {
        let files = [("a", 40), ("b/c", 0), ("d", 60)];
        let mut ranks: Vec<u64> = files
            .iter()
            .flat_map(|(name, rows)| (0..*rows).map(move |row| document_key(&format!("7:{name}:{row}"))))
            .collect();
        ranks.sort();
        let files = files.map(|(name, rows)| KnownRows { path: "path", name, rows });
        for most in [1, 2, 37, 99, 100] {
            let limit = Limit { size: LimitSize::Documents(most), seed: 7 };
            assert_eq!(least_ranks(&limit, &files), Some(ranks[most as usize - 1]), "{most}");
        }
        let more = Limit { size: LimitSize::Documents(101), seed: 7 };
        assert_eq!(least_ranks(&more, &files), None);
        let half = Limit { size: LimitSize::Percent(50.0), seed: 7 };
        assert_eq!(least_ranks(&half, &files), Some(u64::MAX / 2));
    }
}
