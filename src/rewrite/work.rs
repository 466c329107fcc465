//! The settings for rewriting the files of a part, and the records of finished parts.

use std::sync::Arc;

use datafusion::physical_plan::metrics::Count;
use datafusion::prelude::SessionContext;
use serde::{Deserialize, Serialize};

use super::decisions::{Annotation, Decisions, RowAction};
use crate::error::{Error, Result};
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

pub(super) struct RewriteSettings {
    pub session: SessionContext,
    pub source: job::Source,
    pub text: TextPlace,
    pub target: Layout,
    pub rejects: Rejects,
    pub decisions: Decisions,
    /// A separate cursor for Parquet, because texts and added columns are written after the rows of a row group are chosen.
    pub decisions_of_texts: Decisions,
    pub decisions_of_columns: Decisions,
    pub cuts: bool,
    pub annotations: Arc<[Annotation]>,
    pub id: IdType,
    pub read: Count,
}

/// The file to which a row is written.
pub(super) enum RowDestination {
    Kept,
    Rejected,
    Nowhere,
}

impl Rejects {
    pub(super) fn destination(self, action: RowAction) -> RowDestination {
        match (action, self) {
            (RowAction::Keep, _) | (RowAction::Reject, Self::Keep) => RowDestination::Kept,
            (RowAction::Reject, Self::Separate) => RowDestination::Rejected,
            (RowAction::Remove | RowAction::Forget, _) | (RowAction::Reject, Self::Drop) => {
                RowDestination::Nowhere
            }
        }
    }

    /// Whether rejects are written to a separate file, for a source file with these counts.
    pub(super) fn are_separate(self, expected: DocumentCounts) -> bool {
        self == Self::Separate && expected.rejected > 0
    }
}

/// Returns the path of the separate rejects for the file at `path`. Patterns that match the file do not match the path of its rejects.
pub(super) fn rejected_path(path: &str) -> String {
    format!("{APPLIED}/rejected/{path}.rejected")
}

pub(super) async fn written(upload: Upload, rows: u64) -> Result<WrittenFile> {
    let (path, bytes, crc32) = upload.finish().await?;
    Ok(WrittenFile { path, rows, bytes, crc32 })
}

/// The folder of the records of parts.
const PARTS: &str = "_work/parts";

/// The numbers of documents. `kept + removed + rejected = read`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentCounts {
    /// Documents of the source.
    pub read: u64,
    /// Compared documents that are kept.
    pub kept: u64,
    /// Duplicates.
    pub removed: u64,
    /// Documents that the job rejected, whether or not they are kept.
    pub rejected: u64,
}

impl DocumentCounts {
    pub(super) fn count(&mut self, action: RowAction) {
        self.read += u64::from(action != RowAction::Forget);
        match action {
            RowAction::Forget => {}
            RowAction::Keep => self.kept += 1,
            RowAction::Remove => self.removed += 1,
            RowAction::Reject => self.rejected += 1,
        }
    }

    #[must_use]
    pub(crate) fn plus(self, other: DocumentCounts) -> Self {
        Self {
            read: self.read + other.read,
            kept: self.kept + other.kept,
            removed: self.removed + other.removed,
            rejected: self.rejected + other.rejected,
        }
    }
}

/// The files that were written for a file of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The number of the file's source.
    pub origin: u64,
    /// The name of the file, as in the column `source` of tables.
    pub source: String,
    /// The number of documents in the file.
    #[serde(flatten)]
    pub counts: DocumentCounts,
    /// The files with the documents. Empty if no row remains and the format needs no header.
    pub written: Vec<WrittenFile>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// The path in the folder of the result. Separate rejects are in `_resemblance/`.
    pub path: String,
    /// The number of documents in the file.
    pub rows: u64,
    /// The size in bytes.
    pub bytes: u64,
    /// The CRC-32 (IEEE) of the bytes.
    pub crc32: u32,
}

impl WrittenFile {
    /// Whether the file contains kept documents.
    pub(crate) fn is_kept(&self) -> bool {
        !self.path.starts_with(APPLIED)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FinishedPart {
    pub fingerprint: String,
    pub files: Vec<SourceRecord>,
}

/// Returns the record of a part that an earlier attempt finished, if all of its files exist.
pub(crate) async fn finished_part(
    target: &Layout,
    number: usize,
    fingerprint: &str,
) -> Result<Option<FinishedPart>> {
    let (records, inside) = (target.within(APPLIED), part_name(number));
    let part = match records.read::<FinishedPart>(&inside).await {
        Ok(Some(part)) if part.fingerprint == fingerprint => part,
        Ok(None) => return Ok(None),
        Err(error) if !is_content(&error) => return Err(error),
        // The record is incomplete, for example after a power cut.
        Ok(Some(_)) | Err(_) => {
            records.discard(&inside).await?;
            return Ok(None);
        }
    };
    for file in part.files.iter().flat_map(|file| &file.written) {
        if target.size(&file.path).await? != Some(file.bytes) {
            records.discard(&inside).await?;
            return Ok(None);
        }
    }
    Ok(Some(part))
}

pub(crate) async fn put_part(target: &Layout, number: usize, part: &FinishedPart) -> Result<()> {
    let records = target.within(APPLIED);
    // A task that was considered lost can write the same record.
    if records.create(&part_name(number), part).await?
        || records.read::<FinishedPart>(&part_name(number)).await?.as_ref() == Some(part)
    {
        return Ok(());
    }
    Err(Error::input(format!(
        "another process writes to {}: let only one process at a time write there",
        target.shown()
    )))
}

fn part_name(number: usize) -> String {
    format!("{PARTS}/{number:06}.json")
}

/// Whether the content of a file caused the error. False if the file could not be read.
pub(crate) fn is_content(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<serde_json::Error>())
}
