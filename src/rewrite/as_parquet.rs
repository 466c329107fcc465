//! Formats that this program does not write, such as SGML: the ids and texts of the documents, as Parquet.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, StringBuilder, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::prelude::{SessionContext, cast, col};
use futures::TryStreamExt;
use parquet::arrow::AsyncArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::actions::RowActions;
use super::annotations::annotated;
use super::edits::Edits;
use super::record::Written;
use super::spans::{SpanCursor, other_text};
use super::work::{self, Work, written};
use crate::error::{Context, Error, Result};
use crate::job;
use crate::kernel::text::without_spans::without_spans;
use crate::source::{self, Listed, Request, RowSet, Selection, SourceFile};

/// Encoded bytes at which a row group ends at the latest. They do not depend on memory, so that another attempt writes
/// the same file.
const ROW_GROUP_BYTES: usize = 4 << 20;

/// Writes the kept documents of a file that has `documents`, and separate rejects. Returns that number, and the files written.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn write(
    work: &Work,
    file: &SourceFile,
    path: &str,
    actions: &RowActions,
    documents: u64,
) -> Result<(u64, Vec<Written>)> {
    let kept = actions.not_kept().others(documents);
    let mut files = vec![copy(work, file, path, kept, Edits::of_kept(work, file.path()).await?).await?];
    if actions.any_separate() {
        let rejected = actions.rejected.clone();
        files.push(copy(work, file, &work::rejected(path), rejected, Edits::default()).await?);
    }
    Ok((documents, files))
}

/// The number of documents of a file, also of those that the run left out.
///
/// # Errors
/// When the file cannot be read to its end.
pub(super) async fn documents(
    session: &SessionContext,
    source: &job::Source,
    file: &SourceFile,
) -> Result<u64> {
    let all = job::Source { condition: None, limit: None, ..source.clone() };
    let listed = Listed::of(std::slice::from_ref(file));
    let read = source::read(session, &all, &listed, Request::all()).await?;
    Ok(read.frame.count().await? as u64)
}

/// The texts of the documents at these positions without the spans that are cut.
async fn without_cuts(
    texts: &ArrayRef,
    positions: &UInt64Array,
    cuts: &mut SpanCursor,
    path: &str,
) -> Result<ArrayRef> {
    let Some(texts) = texts.as_string_opt::<i32>() else {
        return Err(Error::bug("texts came of another type"));
    };
    let mut kept = StringBuilder::new();
    for (text, position) in texts.iter().zip(positions.values()) {
        let spans = cuts.at(*position).await?;
        match text {
            Some(text) => {
                kept.append_value(without_spans(text, &spans).ok_or_else(|| other_text(path, *position))?);
            }
            None if spans.is_empty() => kept.append_null(),
            None => return Err(other_text(path, *position)),
        }
    }
    Ok(Arc::new(kept.finish()))
}

/// Writes the documents at these positions with their `edits`.
async fn copy(
    work: &Work,
    file: &SourceFile,
    inside: &str,
    wanted: RowSet,
    mut edits: Edits,
) -> Result<Written> {
    let writing = || format!("cannot write {}/{inside}", work.target.shown());
    let own: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("text", DataType::Utf8, true),
    ]));
    let schema = match &edits.annotations {
        None => own,
        Some(cursor) => Arc::new(annotated(&own, &cursor.annotations, cursor.id)),
    };
    let zstd = ZstdLevel::try_new(1).context(writing)?;
    let properties = WriterProperties::builder()
        .set_created_by(concat!("resemblance ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(zstd))
        .build();
    let upload = work.target.upload(inside).await?;
    let mut writer =
        AsyncArrowWriter::try_new(upload, Arc::clone(&schema), Some(properties)).context(writing)?;
    let rows = wanted.count();
    if rows > 0 {
        let wanted = Selection::of_file(file.path(), wanted);
        let listed = Listed::of(std::slice::from_ref(file));
        let read = source::read(&work.session, &work.source, &listed, Request::only(wanted)).await?;
        let text = |name: &str| cast(col(name), DataType::Utf8).alias(name);
        let position = cast(col("position"), DataType::UInt64).alias("position");
        let mut batches =
            read.frame.select(vec![text("id"), text("text"), position])?.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let mut columns: Vec<ArrayRef> = batch.columns()[..2].to_vec();
            let Some(positions) = batch.column(2).as_primitive_opt::<UInt64Type>() else {
                return Err(Error::bug("positions came of another type"));
            };
            if let Some(cuts) = &mut edits.cuts {
                columns[1] = without_cuts(&columns[1], positions, cuts, file.path()).await?;
            }
            if let Some(cursor) = &mut edits.annotations {
                columns.extend(cursor.columns_at(positions).await?);
            }
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
            writer.write(&batch).await.context(writing)?;
            if writer.in_progress_size() >= ROW_GROUP_BYTES {
                writer.flush().await.context(writing)?;
            }
        }
    }
    writer.finish().await.context(writing)?;
    written(writer.into_inner(), rows).await
}
