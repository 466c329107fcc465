//! The manifest of an application, and the record that it puts before its first file.

use serde::{Deserialize, Serialize};

use super::passages::PassageCounts;
use super::settings::ApplySettings;
use super::sizes::SizeCounts;
use crate::output::manifest::{File, Origin};
use crate::rewrite::{DocumentCounts, SourceRecord};
use crate::schema::IdType;

/// A finished application: `_resemblance/manifest.json`. Paths are inside the folder of the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApplyManifest {
    /// What the other fields mean.
    pub apply_format: u64,
    /// The version of this program.
    pub resemblance: String,
    /// Tells applications apart whose files may differ.
    pub fingerprint: String,
    /// The output that was applied, as the user named it.
    pub output: String,
    /// Its folder or URL, with an absolute path.
    pub output_url: String,
    /// The fingerprint of its run.
    pub output_fingerprint: String,
    /// The runs that read the documents: one, or those of all outputs that this one was merged from.
    pub origins: Vec<Origin>,
    /// The type of ids.
    pub id: IdType,
    /// The settings of the application.
    #[serde(flatten)]
    pub settings: ApplySettings,
    /// Documents.
    pub counts: DocumentCounts,
    /// The files of the source, in their order, and what was written of each.
    pub files: Vec<SourceRecord>,
    /// The table of removed documents.
    pub removed: Vec<File>,
    /// The table of spans that were cut out of documents.
    pub removed_spans: Vec<File>,
    /// The numbers of spans that were cut or marked.
    pub passage_counts: PassageCounts,
    /// The numbers of the documents that got them; `None` if there are no such columns.
    pub sizes: Option<SizeCounts>,
    /// What a reader should know, as sentences.
    pub warnings: Vec<String>,
}

/// What an application puts before its first file, so that whatever it leaves behind is known to be its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    /// See [`ApplyManifest::fingerprint`].
    pub fingerprint: String,
    /// See [`ApplyManifest::output`].
    pub output: String,
}
