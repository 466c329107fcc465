//! Parquet: the kept rows, with every column unchanged except for the texts, without the spans that are cut.
//!
//! Rows are copied as physical values with their levels, leaf by leaf of the schema (`leaves`) and row group by row group
//! (`groups`), under the same schema and key-value metadata. Values are not interpreted, so that every type can be copied. Added
//! columns are further leaves (`added`, `pairs`), and spans are cut out of the texts of one leaf (`text_leaf`).

mod added;
mod batch;
mod blocking;
mod groups;
mod leaves;
mod like;
mod pairs;
mod text_leaf;

use std::sync::Arc;

use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;
use tokio_util::sync::CancellationToken;

use super::actions::RowActions;
use super::edits::Edits;
use super::record::Written;
use super::work::{self, Work, written};
use crate::error::guard::guarded;
use crate::error::{Context, Error, Result};
use crate::output::upload::Upload;
use crate::source::{FileBytes, ParquetFile, SourceFile};
use added::Added;
use blocking::{Input, Output, Waiter};
use groups::{Wanted, groups};
use leaves::{Names, Rows};
use text_leaf::TextLeaf;

/// Writes the kept rows of a file, and separate rejects. Returns the number of rows of the file, and the files written.
///
/// # Errors
/// When the file cannot be read to its end, or the store refuses.
pub(super) async fn write(
    work: &Work,
    file: &SourceFile,
    path: &str,
    actions: &RowActions,
    bytes: FileBytes,
) -> Result<(u64, Vec<Written>)> {
    let parquet = Arc::new(ParquetFile::open(&work.session, file).await?);
    let kept = Wanted::AllBut(actions.not_kept());
    let edits = Edits::of_kept(work, parquet.path()).await?;
    let mut files = vec![copy(work, &parquet, path.to_owned(), (kept, edits), bytes).await?];
    if actions.any_separate() {
        let rejected = (Wanted::Only(actions.rejected.clone()), Edits::default());
        files
            .push(copy(work, &parquet, work::rejected(path), rejected, FileBytes::new(&work.read, 0)).await?);
    }
    parquet.check().await?;
    Ok((parquet.rows(), files))
}

/// Writes the wanted rows of a file with their edits.
async fn copy(
    work: &Work,
    parquet: &Arc<ParquetFile>,
    inside: String,
    (wanted, edits): (Wanted, Edits),
    bytes: FileBytes,
) -> Result<Written> {
    let Edits { annotations, cuts } = edits;
    let upload = work.target.upload(&inside).await?;
    // Dropping this future stops the thread.
    let stop = CancellationToken::new();
    let _stop_when_dropped = stop.clone().drop_guard();
    let waiter = Waiter::new(&stop);
    let target = format!("{}/{inside}", work.target.shown());
    let file = Arc::clone(parquet);
    let source = file.path().to_owned();
    let own = file.metadata.file_metadata().schema_descr();
    let text = cuts.map(|cuts| TextLeaf::find(own, &work.cuts.text, &source, cuts, &waiter)).transpose()?;
    let edits = (annotations.map(Added), text);
    let copy = move || {
        // A panic of the library is an error of the file.
        guarded(|| copied(&file, &wanted, edits, upload, (&waiter, bytes), target))
            .context(|| format!("reading {} failed", file.path()))
            .flatten()
    };
    let (upload, rows) = match tokio::task::spawn_blocking(copy).await {
        Ok(copied) => copied?,
        Err(error) => return Err(Error::bug(format!("the thread that copies {source} ended")).because(error)),
    };
    written(upload, rows).await
}

/// Writes the wanted rows of a file on this thread. Returns the upload and the number of rows.
fn copied(
    file: &Arc<ParquetFile>,
    wanted: &Wanted,
    (mut added, mut text): (Option<Added>, Option<TextLeaf>),
    upload: Upload,
    (waiter, mut bytes): (&Waiter, FileBytes),
    target: String,
) -> Result<(Upload, u64)> {
    let names = Names { source: file.path(), target };
    let writing = || names.writing();
    let about = file.metadata.file_metadata();
    let own = about.schema_descr();
    let pairs = about.key_value_metadata().cloned();
    let (schema, pairs) = match &added {
        None => (own.root_schema_ptr(), pairs),
        Some(added) => {
            let pairs = pairs.map(|pairs| pairs::extended(pairs, &added.0));
            (added.schema(own.root_schema())?, pairs)
        }
    };
    let properties = Arc::new(like::properties(&file.metadata, pairs, text.as_ref().map(|text| text.leaf)));
    let (input, output) = (Input::new(Arc::clone(file), waiter.clone()), Output::new(upload, waiter.clone()));
    let columns = SchemaDescriptor::new(Arc::clone(&schema));
    let mut writer = SerializedFileWriter::new(output, schema, Arc::clone(&properties)).context(writing)?;
    let mut rows = 0;
    for parts in groups(&file.metadata, wanted) {
        let mut group = writer.next_row_group().context(writing)?;
        for leaf in 0..own.num_columns() {
            let Some(mut column) = group.next_column().context(writing)? else {
                return Err(Error::bug(format!("{} has fewer columns than its source", names.target)));
            };
            for part in &parts {
                let group = file.metadata.row_group(part.group);
                let rows = Rows { group, first: part.first, runs: &part.runs };
                leaves::copy(&input, &rows, (leaf, text.as_mut()), column.untyped(), &names)?;
                bytes.add(group.column(leaf).compressed_size().max(0).cast_unsigned());
            }
            column.close().context(writing)?;
        }
        if let Some(added) = &mut added {
            let positions = parts.iter().flat_map(groups::Part::positions);
            for (bytes, closed) in added.encoded(positions, &columns, &properties, waiter)? {
                group.append_column(&bytes, closed).context(writing)?;
            }
        }
        rows += group.close().context(writing)?.num_rows().cast_unsigned();
    }
    let output = writer.into_inner().context(writing)?;
    Ok((output.end()?, rows))
}
