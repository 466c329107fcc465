//! Columns that would be added and are there already are refused before anything is written, where that can be seen
//! without reading whole files.

use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt, stream};

use crate::error::{Context, Result};
use crate::job::{self, Format};
use crate::rewrite::{NAMES, header_fields, taken};
use crate::source::{Piece, Pieces, SourceFile};

/// Footers that are read at the same time.
const CONCURRENT_FOOTERS: usize = 32;

/// Refuses Parquet files and CSV headers that have one of the columns. The lines of JSON are looked at when they are written.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) with the file and the column.
pub(super) async fn refuse(
    session: &SessionContext,
    source: &job::Source,
    files: &[SourceFile],
) -> Result<()> {
    // Empty files have no columns.
    let files: Vec<SourceFile> = files.iter().filter(|file| file.size() > 0).cloned().collect();
    match source.format {
        Format::Parquet | Format::Delta => {
            let schemas = stream::iter(files).map(|file| async move {
                let parquet = file.parquet(session).await?;
                let columns = parquet.metadata.file_metadata().schema().get_fields();
                match NAMES.into_iter().find(|name| columns.iter().any(|column| column.name() == *name)) {
                    Some(name) => Err(taken(name, file.path())),
                    None => Ok(()),
                }
            });
            schemas.buffered(CONCURRENT_FOOTERS).try_collect().await
        }
        // All files have the same header.
        Format::Csv if source.csv.header => match files.first() {
            Some(file) => {
                let header = header(session, source, file).await?;
                header_fields(source.csv, &header, file.path()).map(|_| ())
            }
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The header of a CSV file; empty if it has none.
async fn header(session: &SessionContext, source: &job::Source, file: &SourceFile) -> Result<Vec<u8>> {
    let mut pieces = Pieces::new(source)?;
    let ([_, first], mut chunks) = file.decompressed(session).await?;
    let mut header = None;
    let mut next = Some(first);
    while let Some(chunk) = next {
        pieces.feed(chunk, &mut |piece| {
            if let Piece::Header(fields, _) = piece {
                header = Some(fields.to_vec());
            }
            Ok(())
        })?;
        if header.is_some() {
            break;
        }
        next = chunks.try_next().await.context(|| format!("the start of {} cannot be read", file.path()))?;
    }
    Ok(header.unwrap_or_default())
}
