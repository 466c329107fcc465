//! The record of an attempt. It is put before the attempt's first file, so that every file that the attempt leaves
//! behind can be recognised as ours.

use serde::{Deserialize, Serialize};

use super::Layout;
use super::names::Attempt;
use crate::error::Result;

/// The folder of records, inside the output.
pub(crate) const ATTEMPTS: &str = "_work/attempts";

/// The record that an attempt puts before it writes anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AttemptRecord {
    /// The attempt, whose id is in the names of its files.
    pub attempt: String,
    /// The run that it belongs to: see [`crate::job::fingerprint`].
    pub fingerprint: String,
    /// The version of this program.
    pub resemblance: String,
    /// The files of the finished output that it replaces, as paths inside the output. They are removed after the replacement,
    /// and would count as foreign if the process died in between.
    pub replaces: Vec<String>,
}

impl AttemptRecord {
    /// Puts the record.
    pub(crate) async fn put(&self, output: &Layout) -> Result<()> {
        output.create(&path(&self.attempt), self).await?;
        Ok(())
    }
}

/// The ids of the attempts that have records, sorted.
pub(crate) async fn ids(output: &Layout) -> Result<Vec<String>> {
    let listed = output.list(ATTEMPTS).await?;
    let inside = listed.iter().filter_map(|meta| output.inside(&meta.location));
    Ok(inside.filter_map(|inside| Some(attempt_of(&inside)?.to_string())).collect())
}

/// Whether the store refuses a put that must not replace anything. Some servers ignore that condition and replace.
/// `record` exists, so a put of other content to its path must be refused.
pub(crate) async fn keeps_conditions(output: &Layout, record: &AttemptRecord) -> Result<bool> {
    if output.folder().is_some() {
        return Ok(true);
    }
    let other = AttemptRecord { resemblance: format!("{} probe", record.resemblance), ..record.clone() };
    let replaced = output.create(&path(&record.attempt), &other).await?;
    if replaced {
        // The server replaced the record despite the condition: put it again.
        record.put(output).await?;
    }
    Ok(!replaced)
}

fn path(attempt: &str) -> String {
    format!("{ATTEMPTS}/{attempt}.json")
}

/// The attempt whose record has this path inside the output.
pub(super) fn attempt_of(inside: &str) -> Option<Attempt> {
    Attempt::parse(inside.strip_prefix(ATTEMPTS)?.strip_prefix('/')?.strip_suffix(".json")?)
}
