//! Repeated text in an output: the passages in the most documents, and the shingles that too many documents have to count.

use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::lookup::Finished;
use crate::lookup::rows::query;

/// The passages of an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatedPassages {
    /// All of them.
    pub passages: u64,
    /// Their occurrences; `None` if the run did not count them.
    pub occurrences: Option<u64>,
    /// Those in the most documents, at most ten.
    pub most_frequent: Vec<FrequentPassage>,
}

/// A passage that repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequentPassage {
    /// Its id, as `show --passage` takes it.
    pub passage_id: String,
    /// Its beginning.
    pub sample: String,
    /// Its words.
    pub words: u64,
    /// Documents in which it occurs.
    pub documents: u64,
    /// How often it occurs.
    pub occurrences: u64,
}

const MOST_FREQUENT: &str = "
    SELECT passage_id, arrow_cast(sample, 'Utf8') AS sample, words, documents, occurrences
    FROM passages ORDER BY documents DESC, occurrences DESC, passage_id LIMIT 10";

/// The passages of `finished`; `None` if its job does not search for any.
///
/// # Errors
/// When the table cannot be read.
pub(super) async fn passages(
    session: &SessionContext,
    finished: &Finished,
) -> Result<Option<RepeatedPassages>> {
    if finished.job().passages.is_none() {
        return Ok(None);
    }
    let counts = &finished.manifest().counts;
    Ok(Some(RepeatedPassages {
        passages: counts.passages.unwrap_or_default(),
        occurrences: counts.spans,
        most_frequent: query(session, MOST_FREQUENT).await?,
    }))
}

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

/// The frequent shingles of `finished`; `None` if all shingles of its job count.
///
/// # Errors
/// When the table cannot be read.
pub(super) async fn frequent_shingles(
    session: &SessionContext,
    finished: &Finished,
) -> Result<Option<FrequentShingles>> {
    let Some(max_frequency) = finished.job().max_frequency else { return Ok(None) };
    let group = match finished.job().source.group {
        Some(_) => ", arrow_cast(\"group\", 'Utf8') AS \"group\"",
        None => "",
    };
    let sql = format!(
        "SELECT arrow_cast(sample, 'Utf8') AS sample, documents, share{group} FROM frequent_shingles
         ORDER BY share DESC, documents DESC, sample LIMIT 10"
    );
    let most_frequent = query(session, &sql).await?;
    let shingles = finished.manifest().counts.frequent_shingles;
    Ok(Some(FrequentShingles { max_frequency, shingles, most_frequent }))
}
