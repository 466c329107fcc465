//! URLs -> documents, one file per format.
//!
//! `listing` finds the files. Parquet, CSV and JSON lines are read by the engine's own readers (`parquet`, `csv`, `jsonl`, over `scan`)
//! under [`NumberRowsExec`], which says of each row where it stood; Reuters SGML and plain text are read by
//! [`ParseFilesExec`] (`sgml`, `text`). All of them read the files as they were listed, or not at all (`pin`). `columns` makes of every format the same five columns.

mod bytes;
mod chunks;
mod columns;
mod csv;
mod footer;
#[doc(hidden)]
pub mod fuzzing;
mod jsonl;
mod listing;
mod number_rows;
mod parquet;
mod parse_files;
mod pin;
pub mod reach;
mod scan;
mod sgml;
mod text;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{cast, lit};
use datafusion::prelude::DataFrame;
use datafusion::scalar::ScalarValue;
use object_store::path::Path;

use crate::error::Result;
use crate::job::{self, Format};

pub use number_rows::{CHUNK_COLUMN, Chunk, NumberRowsExec};
pub use parse_files::{FileToParse, ParseFilesExec, Parser};
pub use pin::Pin;
pub use scan::pinned_scan;

/// The documents of a source, and the files that they are in.
#[derive(Debug)]
pub struct Documents {
    /// One row per document, lazily:
    ///
    /// | column | type | |
    /// |---|---|---|
    /// | `source` | Utf8View | the file's path as the user would write it |
    /// | `position` | UInt64 | the row's or story's index in its file, from 0 |
    /// | `id` | Utf8View, nullable | null where a part of the id is null |
    /// | `text` | Utf8View, nullable | null where there is none |
    /// | `defect` | Utf8, nullable | why a document cannot be compared although it was read: `truncated` (a story cut off by the end of its file), `invalid_utf8` (a text file in another encoding) |
    pub frame: DataFrame,
    /// Every file of the input, sorted by path.
    pub inputs: Vec<job::InputFile>,
}

/// The files of a source, found and not read.
#[derive(Debug)]
pub struct Listed {
    files: Vec<Arc<listing::File>>,
}

impl Listed {
    /// Every file, sorted by path.
    pub fn inputs(&self) -> Vec<job::InputFile> {
        self.files.iter().map(|file| file.input()).collect()
    }

    /// Where every file is: its store, its path there, and how the user would write it.
    pub fn places(&self) -> impl Iterator<Item = (&ObjectStoreUrl, &Path, &str)> {
        self.files.iter().map(|file| (&file.store, &file.meta.location, file.path.as_str()))
    }
}

/// The files of `source`, sorted by path, each once, without reading them.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when a path is missing, a folder is empty, a glob matches nothing or the storage
/// cannot be reached.
pub async fn list(ctx: &SessionContext, source: &job::Source) -> Result<Listed> {
    Ok(Listed { files: listing::files(ctx, source).await?.into_iter().map(Arc::new).collect() })
}

/// The documents of `source`: lists the files, reads their footers, headers or first rows, and no more.
///
/// Stores are those of the session's runtime; the frame has at most `target_partitions` partitions per store and
/// compression. Executing it fails with an error that names the file where a file cannot be read to its end.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) as [`list`], and when files are damaged or differ in their columns;
/// [`Kind::Job`](crate::error::Kind::Job) when the job names a column that is not there or cannot be used.
pub async fn open(ctx: &SessionContext, source: &job::Source) -> Result<Documents> {
    open_listed(ctx, source, &list(ctx, source).await?).await
}

/// As [`open`], of files that were listed before.
///
/// # Errors
/// As [`open`].
pub async fn open_listed(ctx: &SessionContext, source: &job::Source, listed: &Listed) -> Result<Documents> {
    let files = &listed.files;
    let inputs = listed.inputs();
    let read = read(source.format, files);
    let (table, values, defects): (Arc<dyn TableProvider>, _, _) = match source.format {
        Format::Parquet => {
            let (table, values) = parquet::table(ctx, source, &read).await?;
            (Arc::new(table), values, false)
        }
        Format::Csv => {
            let (table, values) = csv::table(ctx, source, &read).await?;
            (Arc::new(table), values, false)
        }
        Format::Jsonl => {
            let (table, values) = jsonl::table(ctx, source, &read).await?;
            (Arc::new(table), values, false)
        }
        Format::Reuters => {
            let (table, values) = parse_files::table(source, Parser::Reuters, &read)?;
            (Arc::new(table), values, true)
        }
        Format::Text => {
            let (table, values) = parse_files::table(source, Parser::Text, &read)?;
            (Arc::new(table), values, true)
        }
    };
    let defect =
        if defects { columns::column("defect") } else { cast(lit(ScalarValue::Null), DataType::Utf8) };
    let text = match source.format {
        Format::Text => values.first().map_or_else(|| columns::column("value_0"), |(_, text)| text.clone()),
        _ => columns::text(source, &values)?,
    };
    let frame = ctx.read_table(table)?.select(vec![
        columns::column("source"),
        columns::column("position"),
        columns::id(source, &values, files.len() > 1)?.alias("id"),
        text.alias("text"),
        defect.alias("defect"),
    ])?;
    Ok(Documents { frame, inputs })
}

/// The files that have something to read. Frameworks leave empty files behind, and they are no Parquet and have no story;
/// an empty text file is an empty document.
fn read(format: Format, files: &[Arc<listing::File>]) -> Vec<Arc<listing::File>> {
    if format == Format::Text {
        return files.to_vec();
    }
    let (full, empty): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|file| file.meta.size > 0);
    for file in &empty {
        tracing::warn!(file = file.path, "this file is empty");
    }
    // Where all are empty, the format says best what is wrong with that.
    if full.is_empty() { empty } else { full }
}
