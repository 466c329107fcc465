//! The passages that repeat in the most documents.

use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};

use super::query::query;
use crate::error::Result;
use crate::lookup::Finished;

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
pub(super) async fn read(session: &SessionContext, finished: &Finished) -> Result<Option<RepeatedPassages>> {
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
