//! Parquet: the rows that stay, with every column as it was.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::TryStreamExt;
use parquet::arrow::AsyncArrowWriter;
use parquet::arrow::arrow_reader::RowSelection;

use super::annotations::{Cursor, annotated};
use super::fate::Fates;
use super::parquet_options::options;
use super::record::Written;
use super::work::{KEPT, REJECTED, Work, written};
use crate::error::{Context, Result};
use crate::source::{ParquetFile, SourceFile, row_selection};

/// Writes the rows of a file that stay, and those of rejects apart: how many rows the file has, and the files.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn write(
    work: &Work,
    file: &SourceFile,
    path: &str,
    fates: &Fates,
) -> Result<(u64, Vec<Written>)> {
    let parquet = file.parquet(&work.session).await?;
    let (rows, gone) = (parquet.rows(), fates.gone());
    // A file of fewer rows is told of by its number of rows.
    let kept = gone.last().map(|_| row_selection(&gone, false, rows));
    let kept = kept.filter(|_| gone.last().is_none_or(|last| last < rows));
    let mut files = vec![copy(work, file, &parquet, &format!("{KEPT}/{path}"), kept).await?];
    if fates.any_apart() {
        let apart = row_selection(&fates.rejected, true, rows);
        files.push(copy(work, file, &parquet, &format!("{REJECTED}/{path}"), Some(apart)).await?);
    }
    Ok((rows, files))
}

/// Writes the selected rows of a file.
async fn copy(
    work: &Work,
    file: &SourceFile,
    parquet: &ParquetFile,
    inside: &str,
    selection: Option<RowSelection>,
) -> Result<Written> {
    let reading = || format!("reading {} failed", file.path());
    let writing = || format!("cannot write {}/{inside}", work.target.shown());
    let (schema, mut cursor) = match &work.annotations {
        None => (Arc::clone(parquet.schema()), None),
        Some(annotations) => {
            let schema = Arc::new(annotated(parquet.schema(), annotations.id));
            (schema, Some(annotations.of(&work.session, &work.target, file.path()).await?))
        }
    };
    let options = options(parquet, &schema).context(writing)?;
    let upload = work.target.upload(inside).await?;
    let mut writer =
        AsyncArrowWriter::try_new_with_options(upload, Arc::clone(&schema), options).context(writing)?;
    let mut batches = parquet.read(selection)?;
    let mut rows = 0;
    while let Some(mut batch) = batches.try_next().await.context(reading)? {
        if let Some(cursor) = &mut cursor {
            batch = with_columns(&batch, &schema, cursor, rows).await?;
        }
        rows += batch.num_rows() as u64;
        writer.write(&batch).await.context(writing)?;
        if writer.in_progress_size() >= work.row_group_bytes {
            writer.flush().await.context(writing)?;
        }
    }
    writer.finish().await.context(writing)?;
    written(writer.into_inner(), rows).await
}

/// A batch whose first row is row `first` of its file, with what its documents are told of.
async fn with_columns(
    batch: &RecordBatch,
    schema: &SchemaRef,
    cursor: &mut Cursor,
    first: u64,
) -> Result<RecordBatch> {
    let mut columns = batch.columns().to_vec();
    columns.extend(cursor.columns(first, batch.num_rows()).await?);
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
