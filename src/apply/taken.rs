//! Columns that would be added and are there already are refused before anything is written, where that can be seen
//! without reading whole files.

use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};

use crate::error::Result;
use crate::job;
use crate::rewrite::{Annotation, append_names, column_exists, names, pieces};
use crate::source::{FilePiece, ParquetFile, Rewriting, RowFormat, SourceFile, format_of};

/// Footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;

/// Refuses Parquet files and CSV headers that have one of the columns. JSON lines are checked when they are written.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) with the file and the column.
pub(super) async fn refuse(
    session: &SessionContext,
    source: &job::Source,
    files: &[SourceFile],
    annotations: &[Annotation],
) -> Result<()> {
    // Empty files have no columns.
    let files: Vec<SourceFile> = files.iter().filter(|file| file.size() > 0).cloned().collect();
    match format_of(source.format).rewriting {
        Rewriting::ParquetValues => {
            let schemas = stream::iter(files).map(|file| async move {
                let parquet = ParquetFile::open(session, &file).await?;
                let columns = parquet.metadata.file_metadata().schema().get_fields();
                match names(annotations)
                    .into_iter()
                    .find(|name| columns.iter().any(|column| column.name() == *name))
                {
                    Some(name) => Err(column_exists(name, file.path())),
                    None => Ok(()),
                }
            });
            schemas.buffered(CONCURRENT_FOOTERS).try_collect().await
        }
        Rewriting::Rows(format) if format.has_header(source) => {
            let headers = stream::iter(files).map(|file| async move {
                let header = header(session, source, format, &file).await?;
                append_names(format, source, annotations, (&header, file.path()), &mut Vec::new())
            });
            headers.buffered(CONCURRENT_FOOTERS).try_collect().await
        }
        _ => Ok(()),
    }
}

/// The header of a file; empty if it has none.
async fn header(
    session: &SessionContext,
    source: &job::Source,
    format: &dyn RowFormat,
    file: &SourceFile,
) -> Result<Vec<u8>> {
    let mut header = Vec::new();
    pieces(session, source, format, file, |piece| match piece {
        FilePiece::Header(fields, _) => {
            header.extend_from_slice(fields);
            false
        }
        FilePiece::Row(_) | FilePiece::Other(_) => true,
    })
    .await?;
    Ok(header)
}
