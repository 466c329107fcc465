//! The actions of a Delta log that say what a table is and which files it has, as the protocol names their fields.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

/// A line of a commit or a row of a checkpoint: one of these. Others say nothing that a reader needs.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Action {
    pub protocol: Option<Protocol>,
    pub meta_data: Option<MetaData>,
    pub add: Option<Add>,
    pub remove: Option<Remove>,
    /// Only checkpoints of the second version have these two.
    pub sidecar: Option<IgnoredAny>,
    pub checkpoint_metadata: Option<IgnoredAny>,
}

/// What a program must know to read the table.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub min_reader_version: u64,
    pub reader_features: Option<Vec<String>>,
}

/// What the table is.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct MetaData {
    pub partition_columns: Vec<String>,
    pub configuration: BTreeMap<String, Option<String>>,
}

/// A file of the table.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add {
    pub path: String,
    pub size: u64,
    pub deletion_vector: Option<IgnoredAny>,
}

/// A file that leaves the table.
#[derive(Debug, Deserialize)]
pub(super) struct Remove {
    pub path: String,
}

/// The actions of a commit; `None` where it is not one.
pub(super) fn actions(bytes: &[u8]) -> Option<Vec<Action>> {
    let lines = std::str::from_utf8(bytes).ok()?.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).ok()).collect()
}
