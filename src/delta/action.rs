//! The actions of a Delta log, with the field names of the protocol.

use std::collections::BTreeMap;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The beginning of `engineInfo` in commits of this program.
const ENGINE: &str = "resemblance ";

/// A line of a commit or a row of a checkpoint, which contains one of these actions. Other actions are ignored.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Action {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit_info: Option<CommitInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<MetaData>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove: Option<Remove>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add: Option<Add>,
}

/// The program that made a commit, and its operation. Other programs may write any values here.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CommitInfo {
    /// The time in milliseconds since 1970.
    pub timestamp: serde_json::Value,
    pub operation: serde_json::Value,
    pub operation_parameters: serde_json::Value,
    pub engine_info: serde_json::Value,
    /// The hash of the manifest that lists the files of this commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resemblance_manifest: Option<String>,
}

impl CommitInfo {
    /// Returns the information for a commit of this program that replaces the table.
    pub(crate) fn new(timestamp: i64, manifest: Option<&str>) -> Self {
        Self {
            timestamp: timestamp.into(),
            operation: "WRITE".into(),
            operation_parameters: serde_json::json!({"mode": "Overwrite", "partitionBy": "[]"}),
            engine_info: format!("{ENGINE}{}", env!("CARGO_PKG_VERSION")).into(),
            resemblance_manifest: manifest.map(str::to_owned),
        }
    }

    /// Returns the hash of the manifest that lists the files of this commit, or `None` for a commit of another program.
    pub(crate) fn manifest(&self) -> Option<&str> {
        self.resemblance_manifest.as_deref().filter(|_| self.is_ours())
    }

    pub(crate) fn is_ours(&self) -> bool {
        self.engine_info.as_str().is_some_and(|engine| engine.starts_with(ENGINE))
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Protocol {
    pub min_reader_version: u32,
    #[serde(default)]
    pub min_writer_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<Vec<String>>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MetaData {
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub format: FileFormat,
    pub schema_string: String,
    pub partition_columns: Vec<String>,
    pub configuration: BTreeMap<String, Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
}

impl MetaData {
    pub(crate) fn property(&self, name: &str) -> Option<&str> {
        self.configuration.get(name)?.as_deref()
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FileFormat {
    pub provider: String,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

impl Default for FileFormat {
    fn default() -> Self {
        Self { provider: "parquet".to_owned(), options: BTreeMap::new() }
    }
}

/// A file that is removed from the table. Only its path is read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remove {
    pub path: String,
    #[serde(skip_deserializing)]
    pub deletion_timestamp: i64,
    #[serde(skip_deserializing)]
    pub data_change: bool,
}

/// A file of the table. Only its path, partition values, size and deletion vector are read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Add {
    pub path: String,
    #[serde(default)]
    pub partition_values: BTreeMap<String, Option<String>>,
    pub size: u64,
    #[serde(skip_deserializing)]
    pub modification_time: i64,
    #[serde(skip_deserializing)]
    pub data_change: bool,
    /// Statistics as JSON in a string, as required by the protocol.
    #[serde(skip_deserializing)]
    pub stats: String,
    #[serde(skip_serializing)]
    pub deletion_vector: Option<IgnoredAny>,
}

impl Add {
    /// Returns a file at `path` in the folder of the table. `modified` is its modification time.
    pub(crate) fn new(path: &str, rows: u64, size: u64, modified: i64) -> Self {
        Self {
            path: encoded(path),
            partition_values: BTreeMap::new(),
            size,
            modification_time: modified,
            data_change: true,
            stats: serde_json::json!({"numRecords": rows}).to_string(),
            deletion_vector: None,
        }
    }
}

/// A commit that replaces all files of a table with the added files.
pub(crate) struct TableCommit {
    pub info: CommitInfo,
    pub protocol: Protocol,
    pub meta_data: MetaData,
    pub removes: Vec<Remove>,
    pub adds: Vec<Add>,
}

impl TableCommit {
    pub(crate) fn into_bytes(self) -> Result<Bytes> {
        let Self { info, protocol, meta_data, removes, adds } = self;
        let mut actions = vec![
            Action { commit_info: Some(info), ..Action::default() },
            Action { protocol: Some(protocol), ..Action::default() },
            Action { meta_data: Some(meta_data), ..Action::default() },
        ];
        actions.extend(removes.into_iter().map(|file| Action { remove: Some(file), ..Action::default() }));
        actions.extend(adds.into_iter().map(|file| Action { add: Some(file), ..Action::default() }));
        let mut bytes = Vec::new();
        for action in actions {
            serde_json::to_writer(&mut bytes, &action)
                .map_err(|e| Error::bug("a Delta commit cannot be written").because(e))?;
            bytes.push(b'\n');
        }
        Ok(bytes.into())
    }
}

/// Parses the actions of a commit. Returns `None` if the bytes are not a commit.
pub(crate) fn actions(bytes: &[u8]) -> Option<Vec<Action>> {
    let lines = std::str::from_utf8(bytes).ok()?.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).ok()).collect()
}

/// The characters that are encoded in a URI. RFC 2396 excludes letters, digits and marks. `/` is not encoded, because it separates folders.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'/');

fn encoded(path: &str) -> String {
    utf8_percent_encode(path, ENCODED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_uris_of_rfc_2396() {
        for (path, uri) in [
            ("part-00000-0a.resemblance.parquet", "part-00000-0a.resemblance.parquet"),
            ("a b/50%/ü#?.parquet", "a%20b/50%25/%C3%BC%23%3F.parquet"),
            ("+:=&\"{}", "%2B%3A%3D%26%22%7B%7D"),
        ] {
            assert_eq!(encoded(path), uri);
        }
    }

    #[test]
    fn other_programs_have_no_manifest() {
        for line in [
            r#"{"commitInfo": {"timestamp": "yesterday", "engineInfo": 7}}"#,
            r#"{"commitInfo": {"engineInfo": "Apache-Spark/4.0.0 Delta-Lake/4.0.0", "resemblanceManifest": "0a"}}"#,
            r#"{"txn": {"appId": "resemblance 1", "version": 1}}"#,
        ] {
            let action: Action = serde_json::from_str(line).unwrap();
            assert_eq!(action.commit_info.as_ref().and_then(CommitInfo::manifest), None, "{line}");
        }
        let ours = serde_json::to_string(&CommitInfo::new(7, Some("0a"))).unwrap();
        assert_eq!(serde_json::from_str::<CommitInfo>(&ours).unwrap().manifest(), Some("0a"));
    }
}
