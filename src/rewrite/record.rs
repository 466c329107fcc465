//! The records of finished parts.

use serde::{Deserialize, Serialize};

use super::decisions::RowAction;
use crate::error::{Error, Result};
use crate::output::{APPLIED, Layout};

/// The folder of the records of parts, in the folder of records.
const PARTS: &str = "_work/parts";

/// Documents: `kept + removed + rejected = read`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentCounts {
    /// Documents of the source.
    pub read: u64,
    /// Documents that were compared and are kept.
    pub kept: u64,
    /// Duplicates.
    pub removed: u64,
    /// Documents that the job rejected, whether they are kept or not.
    pub rejected: u64,
}

impl DocumentCounts {
    /// Counts a document.
    pub(super) fn count(&mut self, action: RowAction) {
        self.read += 1;
        match action {
            RowAction::Keep => self.kept += 1,
            RowAction::Remove => self.removed += 1,
            RowAction::Reject => self.rejected += 1,
        }
    }

    /// The sum of both.
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

/// The files written from a file of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Its number among the sources.
    pub origin: u64,
    /// The file, by its name in tables.
    pub source: String,
    /// Its documents.
    #[serde(flatten)]
    pub counts: DocumentCounts,
    /// The files that hold them now; empty if no row is left, and the format needs no header.
    pub written: Vec<WrittenFile>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenFile {
    /// Its path in the folder of the result. That of separate rejects is in `_resemblance/`.
    pub path: String,
    /// Its documents.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE) of its bytes.
    pub crc32: u32,
}

impl WrittenFile {
    /// Whether it holds documents that are kept.
    pub(crate) fn is_kept(&self) -> bool {
        !self.path.starts_with(APPLIED)
    }
}

/// A finished part of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FinishedPart {
    /// The fingerprint of the settings on which the written files depend.
    pub fingerprint: String,
    /// The files of the part.
    pub files: Vec<SourceRecord>,
}

/// The record of a part that an earlier attempt finished, if all of its files exist.
///
/// # Errors
/// When the store does not answer.
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
        // Incomplete, as after a power cut.
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

/// Records that a part is finished.
///
/// # Errors
/// When the store refuses.
pub(crate) async fn put_part(target: &Layout, number: usize, part: &FinishedPart) -> Result<()> {
    let records = target.within(APPLIED);
    match records.create(&part_name(number), part).await? {
        true => Ok(()),
        // A task that was considered lost wrote the same record.
        false if records.read::<FinishedPart>(&part_name(number)).await?.as_ref() == Some(part) => Ok(()),
        false => Err(Error::input(format!(
            "another process writes to {}: let only one process at a time write there",
            target.shown()
        ))),
    }
}

fn part_name(number: usize) -> String {
    format!("{PARTS}/{number:06}.json")
}

/// Whether the error is about the content of a file rather than reading it.
pub(crate) fn is_content(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(|cause| cause.is::<serde_json::Error>())
}
