//! Parquet: the kept rows, with every column unchanged except for the texts, without the spans that are cut.
//!
//! Rows are copied as physical values with their levels, leaf by leaf of the schema (`leaves`) and row group by row group
//! (`groups`), under the same schema and key-value metadata. Values are not interpreted, so that every type can be copied. Spans are
//! cut out of the texts of one leaf, and added columns are further leaves (`added`).

mod added;
mod blocking;
mod groups;
mod leaves;
mod like;

use std::ops::Range;
use std::sync::Arc;

use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;
use tokio_util::sync::CancellationToken;

use super::record::{DocumentCounts, WrittenFile};
use super::work::{RewriteSettings, rejected_path, written};
use crate::error::guard::guarded;
use crate::error::{Context, Error, Result};
use crate::output::upload::Upload;
use crate::source::{FileBytes, ParquetFile, SourceFile};
use added::Added;
use blocking::{Output, Waiter, WindowedFile};
use groups::{ChosenRows, CopiedRows, RowGroupPart, groups};
use leaves::{FileNames, RowRuns, TextLeaf};

/// Writes the kept rows of a file, and separate rejects. Returns its counts, and the files written.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn write(
    work: &RewriteSettings,
    file: &SourceFile,
    path: &str,
    expected: DocumentCounts,
    bytes: FileBytes,
) -> Result<(DocumentCounts, Vec<WrittenFile>)> {
    let parquet = Arc::new(ParquetFile::open(&work.session, file).await?);
    let kept = CopiedRows::Kept(work.decisions.clone(), work.rejects);
    let (kept, ChosenRows { counts, rejected }) = copy(work, &parquet, path.to_owned(), kept, bytes).await?;
    let mut files = vec![kept];
    if work.rejects.are_separate(expected) {
        let (path, rejected) = (rejected_path(path), CopiedRows::Rejected(rejected));
        files.push(copy(work, &parquet, path, rejected, FileBytes::new(&work.read, 0)).await?.0);
    }
    parquet.check().await?;
    Ok((counts, files))
}

/// Writes the wanted rows of a file; kept ones are changed as it was decided.
async fn copy(
    work: &RewriteSettings,
    parquet: &Arc<ParquetFile>,
    inside: String,
    wanted: CopiedRows,
    bytes: FileBytes,
) -> Result<(WrittenFile, ChosenRows)> {
    let upload = work.target.upload(&inside).await?;
    // Dropping this future stops the thread.
    let stop = CancellationToken::new();
    let _stop_when_dropped = stop.clone().drop_guard();
    let waiter = Waiter::new(&stop);
    let target = format!("{}/{inside}", work.target.shown());
    let file = Arc::clone(parquet);
    let source = file.path().to_owned();
    let is_kept = matches!(wanted, CopiedRows::Kept(..));
    let added = (is_kept && !work.annotations.is_empty()).then(|| Added {
        annotations: Arc::clone(&work.annotations),
        id: work.id,
        decisions: work.decisions_of_columns.clone(),
    });
    let text = match is_kept && work.cuts {
        true => {
            let own = file.metadata.file_metadata().schema_descr();
            Some(TextLeaf::find(own, &work.text, &source, work.decisions_of_texts.clone(), &waiter)?)
        }
        false => None,
    };
    let copy = move || {
        // A panic of the library is an error of the file.
        guarded(|| copied(&file, &wanted, (added, text), upload, (&waiter, bytes), target))
            .context(|| format!("reading {} failed", file.path()))
            .flatten()
    };
    let (upload, rows, chosen) = match tokio::task::spawn_blocking(copy).await {
        Ok(copied) => copied?,
        Err(error) => return Err(Error::bug(format!("the thread that copies {source} ended")).because(error)),
    };
    Ok((written(upload, rows).await?, chosen))
}

/// Writes the wanted rows of a file on this thread. Returns the upload, the number of rows, and what was chosen.
fn copied(
    file: &Arc<ParquetFile>,
    wanted: &CopiedRows,
    (added, mut text): (Option<Added>, Option<TextLeaf>),
    upload: Upload,
    (waiter, mut bytes): (&Waiter, FileBytes),
    target: String,
) -> Result<(Upload, u64, ChosenRows)> {
    let names = FileNames { source: file.path(), target };
    let writing = || names.writing();
    let about = file.metadata.file_metadata();
    let own = about.schema_descr();
    let pairs = about.key_value_metadata().cloned();
    let (schema, pairs) = match &added {
        None => (own.root_schema_ptr(), pairs),
        Some(added) => {
            let pairs = pairs.map(|pairs| added.extended(pairs));
            (added.schema(own.root_schema())?, pairs)
        }
    };
    let properties = Arc::new(like::properties(&file.metadata, pairs, text.as_ref().map(|text| text.leaf)));
    let (input, output) =
        (WindowedFile::new(Arc::clone(file), waiter.clone()), Output::new(upload, waiter.clone()));
    let columns = SchemaDescriptor::new(Arc::clone(&schema));
    let mut writer = SerializedFileWriter::new(output, schema, Arc::clone(&properties)).context(writing)?;
    let (mut rows, mut chosen) = (0, ChosenRows::default());
    let choose = |rows: Range<u64>| wanted.runs(file.path(), rows, waiter, &mut chosen);
    for parts in groups(&file.metadata, choose) {
        let parts = parts?;
        let mut group = writer.next_row_group().context(writing)?;
        for leaf in 0..own.num_columns() {
            let Some(mut column) = group.next_column().context(writing)? else {
                return Err(Error::bug(format!("{} has fewer columns than its source", names.target)));
            };
            for part in &parts {
                let group = file.metadata.row_group(part.group);
                let rows = RowRuns { group, first: part.first, runs: &part.runs };
                leaves::copy(&input, &rows, (leaf, text.as_mut()), column.untyped(), &names)?;
                bytes.add(group.column(leaf).compressed_size().max(0).cast_unsigned());
            }
            column.close().context(writing)?;
        }
        if let Some(added) = &added {
            let positions = parts.iter().flat_map(RowGroupPart::positions);
            for (bytes, closed) in added.encoded(file.path(), positions, &columns, &properties, waiter)? {
                group.append_column(&bytes, closed).context(writing)?;
            }
        }
        rows += group.close().context(writing)?.num_rows().cast_unsigned();
    }
    let output = writer.into_inner().context(writing)?;
    Ok((output.end()?, rows, chosen))
}
