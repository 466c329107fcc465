//! Text files: a document is kept, cut or removed with its file.

use std::ops::Range;

use bytes::BytesMut;
use futures::TryStreamExt;

use super::actions::{RowAction, RowActions};
use super::record::Written;
use super::spans::other_text;
use super::work::{self, Work, written};
use crate::error::{Context, Result};
use crate::kernel::text::without_spans::SpanCutter;
use crate::source::SourceFile;

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xEF\xBB\xBF";

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
        RowAction::Separate => return Ok(vec![copy(work, file, &work::rejected(path)).await?]),
        RowAction::Remove => return Ok(Vec::new()),
    };
    let spans = match &work.cuts.spans {
        Some(spans) => spans.of_file(file.path()).at(0).await?,
        None => Vec::new(),
    };
    Ok(vec![match spans.is_empty() {
        true => copy(work, file, &inside).await?,
        false => cut(work, file, &inside, spans).await?,
    }])
}

/// Copies a file without `spans` of its text, which begins behind a byte order mark.
async fn cut(work: &Work, file: &SourceFile, inside: &str, spans: Vec<Range<usize>>) -> Result<Written> {
    let mut upload = work.target.upload(inside).await?;
    let mut bytes = file.stored(&work.session).await?;
    let reading = || format!("reading {} failed", file.path());
    let mut start = BytesMut::new();
    while start.len() < MARK.len()
        && let Some(bytes) = bytes.try_next().await.context(reading)?
    {
        start.extend_from_slice(&bytes);
    }
    let mut chunk = start.freeze();
    if chunk.starts_with(MARK) {
        upload.put(chunk.split_to(MARK.len())).await?;
    }
    let (mut cutter, mut next) = (SpanCutter::new(spans), Some(chunk));
    while let Some(bytes_of_text) = next {
        for kept in cutter.next(&bytes_of_text) {
            upload.put(bytes_of_text.slice(kept)).await?;
        }
        next = bytes.try_next().await.context(reading)?;
    }
    match cutter.end() {
        true => written(upload, 1).await,
        false => Err(other_text(file.path(), 0)),
    }
}

/// Copies a file.
async fn copy(work: &Work, file: &SourceFile, inside: &str) -> Result<Written> {
    let mut upload = work.target.upload(inside).await?;
    let mut bytes = file.stored(&work.session).await?;
    while let Some(bytes) = bytes.try_next().await.context(|| format!("reading {} failed", file.path()))? {
        upload.put(bytes).await?;
    }
    written(upload, 1).await
}
