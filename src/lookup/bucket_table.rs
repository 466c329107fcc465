//! The documents of some buckets, by the table of buckets: of both tables only the pages are read that may have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::cast::{as_int64_array, as_string_array};
use datafusion::prelude::{DataFrame, col, lit};
use futures::TryStreamExt;

use super::Finished;
use crate::error::Result;
use crate::frames::utf8;
use crate::output::wanted_pages::{Wanted, WantedPages};
use crate::schema::Table;

/// Rows of the table of documents, with its numbers signed as in the files: all documents that have one of `buckets`, and others
/// of their pages. Lazy. `None` if the output has no table of buckets.
///
/// Holds the places of the documents in these buckets: 8 bytes each.
///
/// # Errors
/// When a table cannot be read.
pub(super) async fn documents(finished: &Finished, buckets: &[u64]) -> Result<Option<DataFrame>> {
    let Some(table) = finished.provider(Table::Buckets)? else { return Ok(None) };
    let mut signed: Vec<i64> = buckets.iter().map(|bucket| bucket.cast_signed()).collect();
    signed.sort_unstable();
    let are_wanted = col("bucket").in_list(signed.iter().map(|bucket| lit(*bucket)).collect(), false);
    let session = finished.session();
    let rows = session.read_table(Arc::new(WantedPages::new(table, Wanted::Numbers("bucket", signed))))?;
    let places = places(rows.filter(are_wanted)?).await?;
    let Some(table) = finished.provider(Table::Documents)? else { return Ok(None) };
    Ok(Some(session.read_table(Arc::new(WantedPages::new(table, Wanted::Places(places))))?))
}

/// The distinct places of rows (source, position, ..): positions in ascending order, by their source.
async fn places(rows: DataFrame) -> Result<BTreeMap<Vec<u8>, Vec<i64>>> {
    // A document shares several buckets with one that is like it.
    let rows = rows.select(vec![utf8("source"), col("position")])?.distinct()?;
    let mut rows = rows.execute_stream().await?;
    let mut places: BTreeMap<Vec<u8>, Vec<i64>> = BTreeMap::new();
    while let Some(batch) = rows.try_next().await? {
        let (sources, positions) = (as_string_array(batch.column(0))?, as_int64_array(batch.column(1))?);
        for (source, position) in sources.iter().flatten().zip(positions.values()) {
            match places.get_mut(source.as_bytes()) {
                Some(positions) => positions.push(*position),
                None => {
                    places.insert(source.as_bytes().to_vec(), vec![*position]);
                }
            }
        }
    }
    places.values_mut().for_each(|positions| positions.sort_unstable());
    Ok(places)
}
