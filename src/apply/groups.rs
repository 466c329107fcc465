//! What would stay and go of each group.

use datafusion::common::cast::{as_string_array, as_uint64_array};
use serde::Serialize;

use super::alarms::figures;
use super::settings::Settings;
use crate::error::Result;
use crate::output::Stored;

/// The documents of a group that were compared: `kept + removed = documents`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupCounts {
    /// Its name; `None` for documents whose column is null.
    pub group: Option<String>,
    /// All of them.
    pub documents: u64,
    /// Those that go.
    pub removed: u64,
    /// Those that stay.
    pub kept: u64,
}

/// The documents of each group by the column `group`, in the order of their names, null last. Where `settings` annotate, none goes.
pub(crate) async fn counts(stored: &Stored, group: &str, settings: Settings) -> Result<Vec<GroupCounts>> {
    let mut counts = Vec::new();
    for batch in figures(stored, Some(group), settings.contained)?.collect().await? {
        let names = as_string_array(batch.column(0))?.iter();
        let (documents, removed) = (as_uint64_array(batch.column(1))?, as_uint64_array(batch.column(2))?);
        let figures = documents.values().iter().zip(removed.values());
        counts.extend(names.zip(figures).map(|(name, (documents, removed))| {
            let removed = if settings.annotate { 0 } else { *removed };
            let group = name.map(str::to_owned);
            GroupCounts { group, documents: *documents, removed, kept: documents - removed }
        }));
    }
    Ok(counts)
}
