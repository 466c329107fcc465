//! Parquet: the rows that stay, with every column as it was.
//!
//! Rows are copied at Parquet's own level: the physical values of each leaf of the schema with their levels (`leaves`), row group
//! by row group (`groups`), under the same schema and key-value metadata. What a type means is nothing to a copy, so no type is
//! too old, too new or too large for it. Columns that are added are leaves more (`added`, `pairs`).

mod added;
mod blocking;
mod groups;
mod leaves;
mod like;
mod pairs;

use std::sync::Arc;

use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::SchemaDescriptor;
use tokio_util::sync::CancellationToken;

use super::fate::Fates;
use super::record::Written;
use super::work::{KEPT, REJECTED, Work, written};
use crate::error::{Context, Error, Result};
use crate::guard::guarded;
use crate::output::upload::Upload;
use crate::source::{ParquetFile, SourceFile};
use added::Added;
use blocking::{Input, Output, Waiter};
use groups::{Wanted, groups};
use leaves::{Names, Rows};

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
    let parquet = Arc::new(file.parquet(&work.session).await?);
    let kept = Wanted::AllBut(fates.gone());
    let mut files = vec![copy(work, &parquet, format!("{KEPT}/{path}"), kept).await?];
    if fates.any_apart() {
        let rejected = Wanted::Only(fates.rejected.clone());
        files.push(copy(work, &parquet, format!("{REJECTED}/{path}"), rejected).await?);
    }
    parquet.check().await?;
    Ok((parquet.rows(), files))
}

/// Writes the wanted rows of a file.
async fn copy(work: &Work, parquet: &Arc<ParquetFile>, inside: String, wanted: Wanted) -> Result<Written> {
    let added = match &work.annotations {
        None => None,
        Some(annotations) => {
            let cursor = annotations.of(&work.session, &work.target, parquet.path()).await?;
            Some(Added { cursor, id: annotations.id })
        }
    };
    let upload = work.target.upload(&inside).await?;
    // Whoever drops the work ends the thread that does it.
    let stop = CancellationToken::new();
    let _stop_when_dropped = stop.clone().drop_guard();
    let waiter = Waiter::new(&stop);
    let target = format!("{}/{inside}", work.target.shown());
    let file = Arc::clone(parquet);
    let source = file.path().to_owned();
    let copy = move || {
        // What a damaged file makes the library do is that file's error.
        guarded(|| copied(&file, &wanted, added, upload, &waiter, target))
            .context(|| format!("reading {} failed", file.path()))
            .flatten()
    };
    let (upload, rows) = match tokio::task::spawn_blocking(copy).await {
        Ok(copied) => copied?,
        Err(error) => return Err(Error::bug(format!("the thread that copies {source} ended")).because(error)),
    };
    written(upload, rows).await
}

/// Writes the wanted rows of a file on this thread: the upload and the number of rows.
fn copied(
    file: &Arc<ParquetFile>,
    wanted: &Wanted,
    mut added: Option<Added>,
    upload: Upload,
    waiter: &Waiter,
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
            let pairs = pairs.map(|pairs| pairs::extended(pairs, added.id));
            (added.schema(own.root_schema())?, pairs)
        }
    };
    let properties = Arc::new(like::properties(&file.metadata, pairs));
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
                let rows = Rows { group: file.metadata.row_group(part.group), runs: &part.runs };
                leaves::copy(&input, &rows, leaf, column.untyped(), &names)?;
            }
            column.close().context(writing)?;
        }
        if let Some(added) = &mut added {
            // Documents stay, all of them.
            let positions = rows..rows + parts.iter().map(groups::Part::rows).sum::<u64>();
            for (bytes, closed) in added.encoded(positions, &columns, &properties, waiter)? {
                group.append_column(&bytes, closed).context(writing)?;
            }
        }
        rows += group.close().context(writing)?.num_rows().cast_unsigned();
    }
    let output = writer.into_inner().context(writing)?;
    Ok((output.end()?, rows))
}
