//! candidates: every two documents that share a bucket.

use datafusion::prelude::{DataFrame, col};

use super::copies::without_copies;
use super::mark::mark;
use crate::error::Result;
use crate::operator::bucket_pairs::PairRule;
use crate::operator::{Operator, apply};

/// (doc, buckets: `List<UInt64>`), (rep, doc, size) -> distinct (a: UInt64, b: UInt64), a < b, and for each document of
/// a bucket of more than `hot` documents one row (doc, null).
///
/// Copies leave first: their group's representative stands for them. Only keys of 8 bytes are sorted and joined,
/// and a bucket of one document leaves before any pair is made. The pairs of hot buckets, whose number is quadratic,
/// are not made: those that count are found by [`super::prefix`].
///
/// Where the documents `known` (doc, ..) are among them, two of these are no pair.
///
/// # Errors
/// When a frame lacks its columns.
pub fn candidates(
    keys: DataFrame,
    copies: DataFrame,
    hot: u64,
    known: Option<DataFrame>,
) -> Result<DataFrame> {
    let mut rows = without_copies(keys.select(vec![col("doc"), col("buckets")])?, copies)?;
    let mut columns = vec![col("buckets").alias("bucket"), col("doc")];
    if let Some(known) = known {
        rows = mark(rows, known)?;
        columns.push(col("known"));
    }
    let rows = rows.unnest_columns(&["buckets"])?.select(columns)?;
    Ok(apply(Operator::BucketPairs(PairRule::All { hot }), vec![rows])?.distinct()?)
}
