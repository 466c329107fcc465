//! The settings with which the files of a part are rewritten.

use std::sync::Arc;

use datafusion::physical_plan::metrics::Count;
use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};

use super::annotations::Annotation;
use super::decisions::{Decisions, RowAction};
use super::record::{DocumentCounts, WrittenFile};
use crate::error::Result;
use crate::job;
use crate::output::upload::Upload;
use crate::output::{APPLIED, Layout};
use crate::schema::IdType;
use crate::source::TextPlace;

/// The place of documents that the job rejected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Rejects {
    /// They stay
    #[default]
    Keep,
    /// They are left out
    Drop,
    /// They are written to _resemblance/rejected/
    Separate,
}

/// The settings with which the files of a part are rewritten.
pub(super) struct RewriteSettings {
    pub session: SessionContext,
    pub source: job::Source,
    /// The place of the texts in the files.
    pub text: TextPlace,
    /// The folder of the result.
    pub target: Layout,
    pub rejects: Rejects,
    pub decisions: Decisions,
    /// Two more cursors for Parquet, whose texts and added columns are written after the rows of a row group are chosen.
    pub decisions_of_texts: Decisions,
    pub decisions_of_columns: Decisions,
    /// Whether spans are cut out of texts.
    pub cuts: bool,
    /// The columns that kept documents get, and the type of ids.
    pub annotations: Arc<[Annotation]>,
    pub id: IdType,
    /// Counts the bytes of files that were read.
    pub read: Count,
}

/// The file to which a row is written.
pub(super) enum RowDestination {
    Kept,
    /// The file of separate rejects.
    Rejected,
    Nowhere,
}

impl Rejects {
    /// The file to which a row is written.
    pub(super) fn destination(self, action: RowAction) -> RowDestination {
        match (action, self) {
            (RowAction::Keep, _) | (RowAction::Reject, Self::Keep) => RowDestination::Kept,
            (RowAction::Reject, Self::Separate) => RowDestination::Rejected,
            (RowAction::Remove, _) | (RowAction::Reject, Self::Drop) => RowDestination::Nowhere,
        }
    }

    /// Whether a file with these counts has separate rejects.
    pub(super) fn are_separate(self, expected: DocumentCounts) -> bool {
        self == Self::Separate && expected.rejected > 0
    }
}

/// The path of separate rejects of the file that is written to `path`. A pattern that matches that file does not match it.
pub(super) fn rejected_path(path: &str) -> String {
    format!("{APPLIED}/rejected/{path}.rejected")
}

/// Finishes the upload of a file of `rows` documents.
///
/// # Errors
/// As [`Upload::finish`].
pub(super) async fn written(upload: Upload, rows: u64) -> Result<WrittenFile> {
    let (path, bytes, crc32) = upload.finish().await?;
    Ok(WrittenFile { path, rows, bytes, crc32 })
}
