//! What every file of a part is written with.

use datafusion::prelude::SessionContext;

use super::annotations::Annotations;
use super::fate::Rejects;
use super::record::Written;
use crate::error::Result;
use crate::job;
use crate::output::Layout;
use crate::output::upload::Upload;
use crate::source::Selection;

/// What every file of a part is written with.
pub(super) struct Work {
    pub session: SessionContext,
    pub source: job::Source,
    /// The folder of the result.
    pub target: Layout,
    pub rejects: Rejects,
    /// The documents that go, and those that were rejected.
    pub removed: Selection,
    pub rejected: Selection,
    /// What documents are told of, where all of them stay.
    pub annotations: Option<Annotations>,
}

/// The folder of documents that stay, and that of rejects.
pub(crate) const KEPT: &str = "kept";
pub(crate) const REJECTED: &str = "rejected";

/// Ends an upload of so many documents.
///
/// # Errors
/// As [`Upload::finish`].
pub(super) async fn written(upload: Upload, rows: u64) -> Result<Written> {
    let (path, bytes, crc32) = upload.finish().await?;
    Ok(Written { path, rows, bytes, crc32 })
}
