//! What an application says of itself: its manifest, and the records by which it is taken up again.

use serde::{Deserialize, Serialize};

use super::settings::Rejects;
use crate::job::Tables;
use crate::output::manifest::File;

/// A finished application: `manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// What the other fields mean.
    pub apply_format: u64,
    /// The version of this program.
    pub resemblance: String,
    /// Tells applications apart whose files may differ.
    pub fingerprint: String,
    /// The output that was applied, as the user named it.
    pub output: String,
    /// Where documents went that the job rejected.
    pub rejects: Rejects,
    /// Whether every document stayed, and got columns that say what would be done with it.
    pub annotate: bool,
    /// What the folders of the result are besides Parquet files.
    #[serde(default)]
    pub tables: Tables,
    /// Documents.
    pub counts: Counts,
    /// The files of the source, in their order, and what was written of each.
    pub files: Vec<SourceRecord>,
    /// The table of removed documents.
    pub removed: Vec<File>,
    /// What a reader should know, as sentences.
    pub warnings: Vec<String>,
}

/// Documents: `kept + removed + rejected = read`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Those of the source.
    pub read: u64,
    /// Those that were compared and stay.
    pub kept: u64,
    /// Those that go.
    pub removed: u64,
    /// Those that the job rejected, wherever they go.
    pub rejected: u64,
}

impl Counts {
    /// The sum of both.
    #[must_use]
    pub(super) fn plus(self, other: Counts) -> Self {
        Self {
            read: self.read + other.read,
            kept: self.kept + other.kept,
            removed: self.removed + other.removed,
            rejected: self.rejected + other.rejected,
        }
    }
}

/// What was written of a file of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The file, as tables call it.
    pub source: String,
    /// Its documents.
    #[serde(flatten)]
    pub counts: Counts,
    /// The files that hold them now; none where a text file was removed.
    pub written: Vec<Written>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// Its path in the folder of the result.
    pub path: String,
    /// Its documents.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of its bytes.
    pub crc32: u32,
}

/// What an application puts before its first file, so that whatever it leaves behind is known to be its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    /// See [`Manifest::fingerprint`].
    pub fingerprint: String,
    /// See [`Manifest::output`].
    pub output: String,
}

/// Some files of the source that are done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Part {
    /// See [`Manifest::fingerprint`].
    pub fingerprint: String,
    /// What was written of them.
    pub files: Vec<SourceRecord>,
}
