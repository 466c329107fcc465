//! The actions of a Delta log that a table of ours has, as the protocol names their fields.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// What stands before the version in the name of the program that made a commit.
const ENGINE: &str = "resemblance ";

/// A line of a commit: one of these. Others say nothing that our tables need.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Action {
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

/// Who made the commit, and of what. Other programs may say anything here.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct CommitInfo {
    /// Milliseconds since 1970.
    pub timestamp: serde_json::Value,
    pub operation: serde_json::Value,
    pub operation_parameters: serde_json::Value,
    pub engine_info: serde_json::Value,
    /// The hash of the manifest that the commit follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resemblance_manifest: Option<String>,
}

impl CommitInfo {
    /// What a commit of this program says of itself.
    pub(super) fn new(timestamp: i64, manifest: &str) -> Self {
        Self {
            timestamp: timestamp.into(),
            operation: "WRITE".into(),
            operation_parameters: serde_json::json!({"mode": "Overwrite", "partitionBy": "[]"}),
            engine_info: format!("{ENGINE}{}", env!("CARGO_PKG_VERSION")).into(),
            resemblance_manifest: Some(manifest.to_owned()),
        }
    }

    /// The hash of the manifest that the commit follows; none where another program made it.
    pub(super) fn manifest(&self) -> Option<&str> {
        self.resemblance_manifest.as_deref().filter(|_| self.is_ours())
    }

    /// Whether this program made the commit.
    pub(super) fn is_ours(&self) -> bool {
        self.engine_info.as_str().is_some_and(|engine| engine.starts_with(ENGINE))
    }
}

/// What a program must know to read and to write the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Protocol {
    pub min_reader_version: u32,
    pub min_writer_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<Vec<String>>,
}

/// What the table is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MetaData {
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub format: Format,
    pub schema_string: String,
    pub partition_columns: Vec<String>,
    #[serde(default)]
    pub configuration: BTreeMap<String, Option<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
}

/// How the files are written.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Format {
    pub provider: String,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

/// A file that leaves the table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Remove {
    pub path: String,
    /// Milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<i64>,
    pub data_change: bool,
}

/// A file of the table.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Add {
    pub path: String,
    #[serde(default)]
    pub partition_values: BTreeMap<String, Option<String>>,
    pub size: u64,
    /// Milliseconds since 1970.
    pub modification_time: i64,
    pub data_change: bool,
    /// JSON inside of JSON, as the protocol has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
}

/// What a path of a URI (RFC 2396) may hold as it is: letters, digits, marks, and what stands between folders.
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

/// A path inside the table's folder, as an action names it.
pub(super) fn encoded(path: &str) -> String {
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
    fn what_other_programs_say_of_themselves_is_not_read_as_ours() {
        for line in [
            r#"{"commitInfo": {"timestamp": "yesterday", "engineInfo": 7}}"#,
            r#"{"commitInfo": {"engineInfo": "Apache-Spark/4.0.0 Delta-Lake/4.0.0", "resemblanceManifest": "0a"}}"#,
            r#"{"txn": {"appId": "resemblance 1", "version": 1}}"#,
        ] {
            let action: Action = serde_json::from_str(line).unwrap();
            assert_eq!(action.commit_info.as_ref().and_then(CommitInfo::manifest), None, "{line}");
        }
        let ours = serde_json::to_string(&CommitInfo::new(7, "0a")).unwrap();
        assert_eq!(serde_json::from_str::<CommitInfo>(&ours).unwrap().manifest(), Some("0a"));
    }
}
