//! Text files: a document is kept or removed with its file.

use futures::TryStreamExt;

use super::actions::{RowAction, RowActions};
use super::record::Written;
use super::work::{self, Work, written};
use crate::error::{Context, Result};
use crate::source::SourceFile;

/// Copies a file that is one document, unless it is removed.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn write(
    work: &Work,
    file: &SourceFile,
    path: &str,
    actions: &RowActions,
) -> Result<Vec<Written>> {
    let inside = match actions.of(0) {
        RowAction::Keep => path.to_owned(),
        RowAction::Separate => work::rejected(path),
        RowAction::Remove => return Ok(Vec::new()),
    };
    Ok(vec![copy(work, file, &inside, 1).await?])
}

/// Copies a file of `rows` documents.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn copy(work: &Work, file: &SourceFile, inside: &str, rows: u64) -> Result<Written> {
    let mut upload = work.target.upload(inside).await?;
    let mut bytes = file.stored(&work.session).await?;
    while let Some(bytes) = bytes.try_next().await.context(|| format!("reading {} failed", file.path()))? {
        upload.put(bytes).await?;
    }
    written(upload, rows).await
}
