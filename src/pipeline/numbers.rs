//! Queries with small results, which this process reads into memory.

use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, col};

use crate::error::Result;
use crate::frames::utf8;

/// Returns the numbers in the first column.
pub(crate) async fn keys_of(frame: DataFrame) -> Result<Vec<u64>> {
    let mut keys = Vec::new();
    for batch in frame.collect().await? {
        keys.extend(as_uint64_array(batch.column(0))?.iter().flatten());
    }
    Ok(keys)
}

/// Returns the number in a frame with one row and one column, or 0 if it is null.
pub(crate) async fn one_number(frame: DataFrame) -> Result<u64> {
    Ok(keys_of(frame).await?.into_iter().sum())
}

/// Returns the texts in the first column.
pub(crate) async fn texts_of(frame: DataFrame) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for batch in frame.collect().await? {
        texts.extend(as_string_array(batch.column(0))?.iter().flatten().map(str::to_owned));
    }
    Ok(texts)
}

/// Returns at most `most` of the smallest ids in a frame (id, ..), in quotes.
pub(super) async fn first_ids(frame: DataFrame, most: usize) -> Result<Vec<String>> {
    let named =
        frame.sort(vec![col("id").sort(true, false)])?.limit(0, Some(most))?.select(vec![utf8("id")])?;
    Ok(texts_of(named).await?.into_iter().map(|id| format!("`{id}`")).collect())
}
