//! The shingles that do not count, because too many documents have them.

use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};

use super::query::query;
use crate::error::Result;
use crate::lookup::Finished;

/// The frequent shingles of an output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrequentShingles {
    /// The share of the documents above which a shingle does not count.
    pub max_frequency: f64,
    /// All of them; `None` if the run did not count them.
    pub shingles: Option<u64>,
    /// Those with the largest shares, at most ten.
    pub most_frequent: Vec<FrequentShingle>,
}

/// A shingle that does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrequentShingle {
    /// Its text.
    pub sample: String,
    /// Documents that have it; with groups, those of the group in which its share is the largest.
    pub documents: u64,
    /// Their share of all documents, or of those of that group.
    pub share: f64,
    /// That group.
    #[serde(default)]
    pub group: Option<String>,
}

/// The query for the most frequent ones; the table has groups only if documents have groups.
fn most_frequent(of_groups: bool) -> String {
    let group = if of_groups { ", arrow_cast(\"group\", 'Utf8') AS \"group\"" } else { "" };
    format!(
        "SELECT arrow_cast(sample, 'Utf8') AS sample, documents, share{group} FROM frequent_shingles
         ORDER BY share DESC, documents DESC, sample LIMIT 10"
    )
}

/// The frequent shingles of `finished`; `None` if all shingles of its job count.
///
/// # Errors
/// When the table cannot be read.
pub(super) async fn read(session: &SessionContext, finished: &Finished) -> Result<Option<FrequentShingles>> {
    let Some(max_frequency) = finished.job().max_frequency else { return Ok(None) };
    let most_frequent = query(session, &most_frequent(finished.job().source.group.is_some())).await?;
    let shingles = finished.manifest().counts.frequent_shingles;
    Ok(Some(FrequentShingles { max_frequency, shingles, most_frequent }))
}
