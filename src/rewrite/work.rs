//! The settings with which the files of a part are rewritten.

use datafusion::prelude::SessionContext;

use super::actions::Rejects;
use super::annotations::Annotations;
use super::record::Written;
use crate::error::Result;
use crate::job;
use crate::output::Layout;
use crate::output::upload::Upload;
use crate::source::Selection;

/// The settings with which the files of a part are rewritten.
pub(super) struct Work {
    pub session: SessionContext,
    pub source: job::Source,
    /// The folder of the result.
    pub target: Layout,
    pub rejects: Rejects,
    /// The duplicates, and the documents that the job rejected.
    pub removed: Selection,
    pub rejected: Selection,
    /// The annotations, where all documents are kept and annotated.
    pub annotations: Option<Annotations>,
}

/// The folder of kept documents, and that of separate rejects.
pub(crate) const KEPT: &str = "kept";
pub(crate) const REJECTED: &str = "rejected";

/// Finishes the upload of a file of `rows` documents.
///
/// # Errors
/// As [`Upload::finish`].
pub(super) async fn written(upload: Upload, rows: u64) -> Result<Written> {
    let (path, bytes, crc32) = upload.finish().await?;
    Ok(Written { path, rows, bytes, crc32 })
}
