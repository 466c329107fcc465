//! Rewrites one file of the source, or counts its rows.

use std::ops::Range;

use bytes::BytesMut;
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use super::decisions::{Decision, other_text};
use super::record::{DocumentCounts, WrittenFile};
use super::work::{RewriteSettings, RowDestination, rejected_path, written};
use super::{as_parquet, parquet, rows};
use crate::error::{Context, Error, Result};
use crate::job;
use crate::kernel::text::without_spans::SpanCutter;
use crate::source::{FileBytes, FilePiece, ParquetFile, Rewriting, SourceFile, format_of};

/// Writes the kept rows of a file of the source to `path`. The output counted `expected` documents in it. Returns its counts, and the
/// files written.
///
/// # Errors
/// When the file cannot be read to its end, has other counts than the output, or the store refuses.
pub(super) async fn write(
    work: &RewriteSettings,
    file: &SourceFile,
    path: &str,
    expected: DocumentCounts,
) -> Result<(DocumentCounts, Vec<WrittenFile>)> {
    let bytes = FileBytes::new(&work.read, file.size());
    let (counts, written) = match format_of(work.source.format).rewriting {
        Rewriting::AsParquet => as_parquet::write(work, file, path, expected).await?,
        Rewriting::WholeFile => whole_file(work, file, path).await?,
        // Frameworks leave files without bytes behind, which readers of the format refuse.
        _ if file.size() == 0 => (DocumentCounts::default(), Vec::new()),
        Rewriting::ParquetValues => parquet::write(work, file, path, expected, bytes).await?,
        Rewriting::Rows(format) => rows::write(work, format, file, path, expected, bytes).await?,
    };
    // Rows that the run left out are kept.
    let has_more = work.source.leaves_rows_out() && counts.read > expected.read;
    if (!has_more && counts.read != expected.read) || counts.rejected != expected.rejected {
        return Err(Error::input(format!(
            "{} has {} documents, but the output knows {} of them: run the job again with --overwrite",
            file.path(),
            counts.read,
            expected.read
        )));
    }
    Ok((counts, written))
}

/// The byte order mark of UTF-8.
const MARK: &[u8] = b"\xEF\xBB\xBF";

/// Copies a file that is one document, unless it is removed.
async fn whole_file(
    work: &RewriteSettings,
    file: &SourceFile,
    path: &str,
) -> Result<(DocumentCounts, Vec<WrittenFile>)> {
    let Decision { action, cuts, .. } = work.decisions.at(file.path(), 0).await?;
    let copied = match work.rejects.destination(action) {
        RowDestination::Kept => Some(without_spans(work, file, path, cuts).await?),
        RowDestination::Rejected => Some(without_spans(work, file, &rejected_path(path), Vec::new()).await?),
        RowDestination::Nowhere => None,
    };
    let mut counts = DocumentCounts::default();
    counts.count(action);
    Ok((counts, copied.into_iter().collect()))
}

/// Copies a file without `spans` of its text, which begins behind a byte order mark.
async fn without_spans(
    work: &RewriteSettings,
    file: &SourceFile,
    inside: &str,
    spans: Vec<Range<usize>>,
) -> Result<WrittenFile> {
    let mut upload = work.target.upload(inside).await?;
    let mut bytes = file.stored(&work.session.runtime_env()).await?;
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

/// The number of rows of a file of `source`, also of those that are no documents. Parquet is counted by its footer.
///
/// # Errors
/// When the file cannot be read to its end.
pub(crate) async fn rows_of_file(
    session: &SessionContext,
    source: &job::Source,
    file: &SourceFile,
) -> Result<u64> {
    match format_of(source.format).rewriting {
        Rewriting::AsParquet => Ok(as_parquet::documents(session, source, file).await?.count().await? as u64),
        Rewriting::WholeFile => Ok(1),
        // Frameworks leave empty files behind, which are not valid files of their format.
        _ if file.size() == 0 => Ok(0),
        Rewriting::ParquetValues => Ok(ParquetFile::open(session, file).await?.rows()),
        Rewriting::Rows(format) => {
            let mut rows = 0;
            rows::pieces(session, source, format, file, |piece| {
                rows += u64::from(matches!(piece, FilePiece::Row(_)));
                true
            })
            .await?;
            Ok(rows)
        }
    }
}
