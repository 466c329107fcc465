//! Formats that this program does not write, such as SGML: the ids and texts of the documents, as Parquet.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::prelude::{cast, col};
use futures::TryStreamExt;
use parquet::arrow::AsyncArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::actions::RowActions;
use super::annotations::annotated;
use super::record::Written;
use super::work::{self, Work, written};
use crate::error::{Context, Error, Result};
use crate::job;
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
    let mut files = vec![copy(work, file, path, kept).await?];
    if actions.any_separate() {
        files.push(copy(work, file, &work::rejected(path), actions.rejected.clone()).await?);
    }
    Ok((documents, files))
}

/// The number of documents of a file, also of those that the run left out.
///
/// # Errors
/// When the file cannot be read to its end.
pub(super) async fn documents(work: &Work, file: &SourceFile) -> Result<u64> {
    let all = job::Source { condition: None, limit: None, ..work.source.clone() };
    let listed = Listed::of(std::slice::from_ref(file));
    let read = source::read(&work.session, &all, &listed, Request::all()).await?;
    Ok(read.frame.count().await? as u64)
}

/// Writes the documents at these positions.
async fn copy(work: &Work, file: &SourceFile, inside: &str, wanted: RowSet) -> Result<Written> {
    let writing = || format!("cannot write {}/{inside}", work.target.shown());
    let own: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Utf8, true),
        Field::new("text", DataType::Utf8, true),
    ]));
    let (schema, mut cursor) = match &work.annotations {
        None => (own, None),
        Some(annotations) => {
            let schema = Arc::new(annotated(&own, annotations.id));
            (schema, Some(annotations.of(&work.session, &work.records, file.path()).await?))
        }
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
            if let Some(cursor) = &mut cursor {
                let Some(positions) = batch.column(2).as_primitive_opt::<UInt64Type>() else {
                    return Err(Error::bug("positions came of another type"));
                };
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
