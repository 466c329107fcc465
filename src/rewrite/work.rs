//! The settings with which the files of a part are rewritten.

use datafusion::physical_plan::metrics::Count;
use datafusion::prelude::SessionContext;

use super::actions::Rejects;
use super::annotations::Annotations;
use super::cuts::Cuts;
use super::record::Written;
use crate::error::Result;
use crate::job;
use crate::output::upload::Upload;
use crate::output::{APPLIED, Layout};
use crate::source::Selection;

/// The settings with which the files of a part are rewritten.
pub(super) struct Work {
    pub session: SessionContext,
    pub source: job::Source,
    /// The number of the source.
    pub origin: u64,
    /// The folder of the result, and its folder of records.
    pub target: Layout,
    pub records: Layout,
    pub rejects: Rejects,
    /// The duplicates, and the documents that the job rejected.
    pub removed: Selection,
    pub rejected: Selection,
    /// The annotations of documents that are kept.
    pub annotations: Annotations,
    /// The spans that are cut out of documents that are kept.
    pub cuts: Cuts,
    /// Counts the bytes of files that were read.
    pub read: Count,
}

/// The path of separate rejects of the file that is written to `path`. A pattern that matches that file does not match it.
pub(super) fn rejected(path: &str) -> String {
    format!("{APPLIED}/rejected/{path}.rejected")
}

/// Finishes the upload of a file of `rows` documents.
///
/// # Errors
/// As [`Upload::finish`].
pub(super) async fn written(upload: Upload, rows: u64) -> Result<Written> {
    let (path, bytes, crc32) = upload.finish().await?;
    Ok(Written { path, rows, bytes, crc32 })
}
