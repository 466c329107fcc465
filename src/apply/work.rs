//! What every file of the source is written with.

use std::collections::BTreeMap;

use datafusion::prelude::SessionContext;

use super::annotations::Annotations;
use super::manifest::{Counts, Written};
use super::settings::Settings;
use crate::error::Result;
use crate::job;
use crate::output::Layout;
use crate::output::upload::Upload;
use crate::source::{Listed, Selection};

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

/// Ends an upload of so many documents.
///
/// # Errors
/// As [`Upload::finish`].
pub(super) async fn written(upload: Upload, rows: u64) -> Result<Written> {
    let (path, bytes, crc32) = upload.finish().await?;
    Ok(Written { path, rows, bytes, crc32 })
}
