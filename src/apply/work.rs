//! What every file of the source is written with.

use std::collections::BTreeMap;

use datafusion::prelude::SessionContext;

use super::annotations::Annotations;
use super::fate::Fates;
use super::manifest::{Counts, SourceRecord, Written};
use super::settings::Settings;
use super::{copy, parquet, records, stories};
use crate::error::Result;
use crate::job::{self, Format};
use crate::output::Layout;
use crate::output::upload::Upload;
use crate::source::{Listed, Selection, SourceFile};

/// What every file of the source is written with.
pub(super) struct Work {
    pub session: SessionContext,
    /// The source, and its files.
    pub source: job::Source,
    pub listed: Listed,
    /// The folder of the result.
    pub target: Layout,
    pub settings: Settings,
    /// The documents that go, and those that were rejected.
    pub removed: Selection,
    pub rejected: Selection,
    /// What the output knows of each file.
    pub counts: BTreeMap<String, Counts>,
    /// What documents are told of, where all of them stay.
    pub annotations: Option<Annotations>,
    /// Encoded bytes at which a row group ends at the latest.
    pub row_group_bytes: usize,
}

/// The folder of documents that stay, and that of rejects.
pub(super) const KEPT: &str = "kept";
pub(super) const REJECTED: &str = "rejected";

impl Work {
    /// Writes what stays of a file of the source, under `path`.
    ///
    /// # Errors
    /// When the file cannot be read to its end, is not what the output knows of it, or the store refuses.
    pub(super) async fn write(&self, file: &SourceFile, path: &str) -> Result<SourceRecord> {
        let source = file.path();
        let expected = self.counts.get(source).copied().unwrap_or_default();
        let fates = Fates {
            removed: self.removed.of(source).cloned().unwrap_or_default(),
            rejected: self.rejected.of(source).cloned().unwrap_or_default(),
            rejects: self.settings.rejects,
        };
        let (rows, written) = match self.source.format {
            Format::Reuters => stories::write(self, file, path, &fates, expected.read).await?,
            // Frameworks leave empty files behind, which have no rows and are not of their format.
            _ if file.size() == 0 && self.source.format != Format::Text => {
                (0, vec![copy::copied(self, file, &format!("{KEPT}/{path}"), 0).await?])
            }
            Format::Text => (1, copy::write(self, file, path, &fates).await?),
            Format::Parquet => parquet::write(self, file, path, &fates).await?,
            Format::Csv | Format::Jsonl => records::write(self, file, path, &fates).await?,
        };
        let counts = fates.counts(source, rows, expected)?;
        Ok(SourceRecord { source: source.to_owned(), counts, written })
    }
}

/// Ends an upload of so many documents.
///
/// # Errors
/// As [`Upload::finish`].
pub(super) async fn written(upload: Upload, rows: u64) -> Result<Written> {
    let (path, bytes, crc32) = upload.finish().await?;
    Ok(Written { path, rows, bytes, crc32 })
}
