//! The shingles that do not count, which outputs of one chain have in common.

use std::collections::HashSet;

use datafusion::common::cast::as_uint64_array;
use datafusion::prelude::col;
use futures::TryStreamExt;

use crate::error::{Error, Result};
use crate::output::Stored;

/// Checks that the same shingles do not count in all `outputs`.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with two outputs where they differ.
pub(crate) async fn same_frequent<'a>(outputs: impl Iterator<Item = &'a Stored>) -> Result<()> {
    let mut first: Option<(&Stored, HashSet<u64>)> = None;
    for stored in outputs {
        let Some(frequent) = stored.frequent_shingles()? else { continue };
        let mut rows = frequent.select(vec![col("shingle")])?.execute_stream().await?;
        let (mut shingles, mut same) = (HashSet::new(), true);
        while let Some(batch) = rows.try_next().await? {
            let read = as_uint64_array(batch.column(0))?.values().iter().copied();
            match &first {
                Some((_, known)) => {
                    for shingle in read {
                        same &= known.contains(&shingle);
                        shingles.insert(shingle);
                    }
                }
                None => shingles.extend(read),
            }
        }
        match &first {
            Some((other, known)) if !same || shingles.len() != known.len() => {
                let [one, other] = [stored, *other].map(|stored| stored.layout().shown());
                return Err(Error::job(format!(
                    "{other} and {one} have different tables frequent_shingles, so their signatures cannot be compared \
                     (shingle.max_frequency): make {one} again against {other}, whose table it takes over then"
                )));
            }
            Some(_) => {}
            None => first = Some((stored, shingles)),
        }
    }
    Ok(())
}
