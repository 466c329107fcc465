//! Text files: a document stays or goes with its file.

use futures::TryStreamExt;

use super::fate::{Fate, Fates};
use super::record::Written;
use super::work::{KEPT, REJECTED, Work, written};
use crate::error::{Context, Result};
use crate::source::SourceFile;

/// Copies a file that is one document; nothing where the document goes.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn write(work: &Work, file: &SourceFile, path: &str, fates: &Fates) -> Result<Vec<Written>> {
    let folder = match fates.of(0) {
        Fate::Keep => KEPT,
        Fate::Apart => REJECTED,
        Fate::Leave => return Ok(Vec::new()),
    };
    Ok(vec![copied(work, file, &format!("{folder}/{path}"), 1).await?])
}

/// Copies a file of so many documents.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn copied(work: &Work, file: &SourceFile, inside: &str, rows: u64) -> Result<Written> {
    let mut upload = work.target.upload(inside).await?;
    let mut bytes = file.stored(&work.session).await?;
    while let Some(bytes) = bytes.try_next().await.context(|| format!("reading {} failed", file.path()))? {
        upload.put(bytes).await?;
    }
    written(upload, rows).await
}
