//! URLs -> documents.
//!
//! - `listing/`: finds the files; `local_names`: their names as text; `file`: a file as it was listed, the values in its path, and its
//!   first bytes.
//! - `format`: the interface of formats; `formats/`: one file per format; `columns`: the same columns from every format.
//! - `bytes`, `decode`: the bytes of files, counted, decompressed and in UTF-8; `pin`: refuses a file that was replaced since it was
//!   listed; `checksums`, `as_read`: recognise the files that an earlier run read.
//! - `parquet/`: Parquet files, scanned by the engine.
//! - `parse_files`, `parser`: the node that parses all other formats, with `split`, `lines` and `documents`, whose batches are
//!   bounded by their bytes.
//! - `opened`: the rows of a source; `filter/`: which of them are documents; `selection`: which of these are read; `parts`: what each
//!   partition reads.
//! - `rows`: cuts a file into rows byte for byte, for rewriting; `find_text`: where the text of a document is.
//! - `fuzzing`: access for the fuzzer.

mod as_read;
mod bytes;
mod checksums;
mod columns;
mod decode;
mod documents;
mod file;
mod filter;
mod find_text;
mod format;
mod formats;
#[doc(hidden)]
pub mod fuzzing;
mod lines;
mod listing;
mod local_names;
mod opened;
mod parquet;
mod parse_files;
mod parser;
mod parts;
mod pin;
mod rows;
mod selection;
mod split;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{cast, lit};
use datafusion::prelude::DataFrame;
use datafusion::scalar::ScalarValue;
use object_store::path::Path;

use self::format::Listing;
use self::opened::{OpenedRows, open_rows};
use crate::error::Result;
use crate::job;
use crate::schema::SourceTypes;

pub(crate) use self::as_read::AsRead;
pub(crate) use self::bytes::{FileBytes, READ_BYTES, read_bytes};
pub(crate) use self::checksums::{Checksums, checksum_of};
pub(crate) use self::file::{SourceFile, without_rows};
pub(crate) use self::format::{AddedValue, CannotAppend, Rewriting, RowFormat};
pub(crate) use self::formats::csv::first_records;
pub(crate) use self::formats::jsonl::readable as readable_json;
pub(crate) use self::formats::of as format_of;
pub(crate) use self::listing::{is_companion, reach, without_pattern};
#[cfg(test)]
pub(crate) use self::parquet::CHUNK_COLUMN;
#[cfg(feature = "cluster")]
pub(crate) use self::parquet::{Chunk, pinned_scan};
pub(crate) use self::parquet::{NumberRows, ParquetFile, decoded_arrow_schema, is_string, named_fields};
pub(crate) use self::parse_files::ParseFiles;
pub(crate) use self::parser::{CUT, FileToParse};
pub(crate) use self::parts::parts;
pub(crate) use self::rows::TextPlace;
pub(crate) use self::rows::{FilePiece, Row};
pub use self::selection::Selection;
pub(crate) use self::selection::{DocumentPlaces, RowSet};

/// The documents of a source, and their files.
#[derive(Debug)]
pub struct Documents {
    /// One row per document, lazily:
    ///
    /// | column | type | |
    /// |---|---|---|
    /// | `source` | Utf8View | the file's path or URL, absolute |
    /// | `position` | UInt64 | the row's or story's index in its file, from 0 |
    /// | `id` | Utf8View or Int64, nullable | null where a part of the id is null |
    /// | `text` | Utf8View, nullable | null if the document has no text |
    /// | `defect` | Utf8, nullable | why a document cannot be compared, see below |
    /// | [`carried`](crate::schema::carried)`(0)`, .. | those of `types`, nullable | the columns that the job carries |
    ///
    /// A `defect` is one of these:
    ///
    /// - `truncated`: a story or a CSV record is cut off by the end of its file.
    /// - `invalid_utf8`, `invalid_encoding`: the text has another encoding than the job names.
    /// - `malformed`: a CSV record or a JSON line cannot be read.
    pub frame: DataFrame,
    /// The types of the tables' columns that depend on the source.
    pub types: SourceTypes,
    /// Every file of the input, sorted by path.
    pub inputs: Vec<job::InputFile>,
}

/// The files of a source, listed but not read.
#[derive(Debug)]
pub struct Listed {
    files: Vec<Arc<SourceFile>>,
    /// Columns of Delta tables whose values are in no file.
    partition_columns: Vec<String>,
    /// The versions of the Delta tables, in their order.
    table_versions: Vec<u64>,
}

impl Listed {
    /// Every file, sorted by path.
    pub fn inputs(&self) -> Vec<job::InputFile> {
        self.files.iter().map(|file| file.input()).collect()
    }

    /// The files that are read.
    pub(crate) fn files(&self) -> impl Iterator<Item = SourceFile> + '_ {
        self.files.iter().map(|file| file.as_ref().clone())
    }

    /// A listing of these files.
    pub(crate) fn of(files: &[SourceFile]) -> Self {
        let files = files.iter().cloned().map(Arc::new).collect();
        Self { files, partition_columns: Vec::new(), table_versions: Vec::new() }
    }

    /// Columns of Delta tables whose values are in no file.
    pub(crate) fn partition_columns(&self) -> &[String] {
        &self.partition_columns
    }

    /// The versions of the Delta tables, in their order.
    pub(crate) fn table_versions(&self) -> Vec<u64> {
        self.table_versions.clone()
    }

    /// The place of every file: its store, its path there, and the path as tables have it.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&ObjectStoreUrl, &Path, &str)> {
        self.files.iter().map(|file| (&file.store, &file.meta.location, file.path.as_str()))
    }
}

impl From<listing::ListedFiles> for Listed {
    fn from(mut found: listing::ListedFiles) -> Self {
        listing::name_apart(&mut found.files);
        Self {
            files: found.files.into_iter().map(Arc::new).collect(),
            partition_columns: found.partition_columns,
            table_versions: found.table_versions,
        }
    }
}

/// Lists the files of `source`, sorted by path, each once.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when a path is missing, a folder is empty, a glob matches nothing or the storage
/// cannot be reached.
pub async fn list(ctx: &SessionContext, source: &job::Source) -> Result<Listed> {
    Ok(Listed::from(find(ctx, source).await?))
}

async fn find(ctx: &SessionContext, source: &job::Source) -> Result<listing::ListedFiles> {
    let format = format_of(source.format);
    match format.listing {
        Listing::Files => listing::files(ctx, &source.urls, format).await,
        Listing::DeltaTables => listing::delta_tables::files(ctx, source, format).await,
    }
}

/// The files of `source` that a run `read` and that are still there. If there are `places`, one for each URL, the files lie there
/// now, and have the paths that they had before.
///
/// # Errors
/// As [`list`], and [`Kind::Job`](crate::error::Kind::Job) for another number of places.
pub(crate) async fn list_again(
    ctx: &SessionContext,
    source: &job::Source,
    places: &[String],
    read: &[job::InputFile],
) -> Result<Listed> {
    let mut found = match places {
        [] => find(ctx, source).await?,
        places => listing::moved::files(ctx, source, format_of(source.format), places).await?,
    };
    found.keep(&source.urls, &read.iter().map(|file| file.path.as_str()).collect());
    Ok(Listed::from(found))
}

/// As [`list`], without a word in the log about files that are skipped: for a look at them before a job lists them.
///
/// # Errors
/// As [`list`].
pub(crate) async fn list_quietly(ctx: &SessionContext, source: &job::Source) -> Result<Listed> {
    let format = format_of(source.format);
    Ok(Listed::from(match format.listing {
        Listing::Files => listing::quietly(ctx, &source.urls, format).await?,
        Listing::DeltaTables => listing::delta_tables::files(ctx, source, format).await?,
    }))
}

/// Every file that `urls` name, whatever its ending, sorted by path, each once, and the first that are hidden or belong to the
/// system. The log does not mention what is skipped.
///
/// # Errors
/// As [`list`].
pub(crate) async fn every_file(
    ctx: &SessionContext,
    urls: &[String],
) -> Result<(Vec<SourceFile>, Vec<String>)> {
    let found = listing::quietly(ctx, urls, format_of(job::Format::Text)).await?;
    Ok((found.files, found.companions))
}

/// Whether `url` is the folder of a Delta table.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where the storage cannot be reached.
pub(crate) async fn is_delta_table(ctx: &SessionContext, url: &str) -> Result<bool> {
    listing::delta_tables::is_table(ctx, url).await
}

/// Which documents are read, and in which form.
#[derive(Debug, Default)]
pub struct ReadRequest<'a> {
    /// The documents that are read; `None` for all. Documents that cannot be read are reported only where all are read. Parquet
    /// rows that are not wanted are not read; files of other formats are read to their end.
    pub wanted: Option<Selection>,
    /// How texts are cut, if only their shingles are needed: long text files are then cut while they are read, and are never held
    /// whole. Where there are such files, the frame has a column `cut` too.
    pub shingle: Option<&'a job::Shingle>,
}

impl<'a> ReadRequest<'a> {
    /// All documents.
    pub fn all() -> Self {
        Self::default()
    }

    /// These documents only.
    pub fn only(wanted: Selection) -> Self {
        Self { wanted: Some(wanted), shingle: None }
    }

    /// The shingles of the documents instead of long texts.
    pub fn cut(self, shingle: &'a job::Shingle) -> Self {
        Self { shingle: Some(shingle), ..self }
    }
}

/// The documents of `source`: lists the files, and reads their footers, headers or first rows.
///
/// # Errors
/// As [`list`] and [`read`].
pub async fn open(ctx: &SessionContext, source: &job::Source) -> Result<Documents> {
    read(ctx, source, &list(ctx, source).await?, ReadRequest::all()).await
}

/// The documents of listed files. Reads the files' footers, headers or first rows.
///
/// Stores are those of the session's runtime; the frame has at most `target_partitions` partitions per store.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when files are damaged or differ in their columns, and when a file with wanted
/// documents is gone; [`Kind::Job`](crate::error::Kind::Job) when the job names a column that does not exist or cannot be used.
/// Executing the frame fails with an error that names the file where a file cannot be read to its end, or has fewer documents
/// than are wanted of it.
pub async fn read(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
    request: ReadRequest<'_>,
) -> Result<Documents> {
    let ReadRequest { wanted, shingle } = request;
    let all = wanted.is_none();
    let OpenedRows { rows, values, types, .. } =
        open_rows(ctx, source, &listed.files, wanted, shingle).await?;
    // Documents that are named by their places were chosen before.
    let rows = match all {
        true => filter::documents(ctx, source, rows, &values).await?,
        false => rows,
    };
    let has_column = |name| rows.schema().has_column_with_unqualified_name(name);
    let defect = match has_column("defect") {
        true => columns::column("defect"),
        false => cast(lit(ScalarValue::Null), DataType::Utf8),
    };
    let cut = has_column(CUT).then_some(shingle);
    let text = columns::text(source, &values)?;
    let mut selected = vec![
        columns::column("source"),
        columns::column("position"),
        columns::id(source, &values, types.id)?.alias("id"),
        text.alias("text"),
        defect.alias("defect"),
    ];
    selected.extend(cut.map(|_| columns::column(CUT)));
    selected.extend(columns::carried(&values, &types.columns)?);
    Ok(Documents { frame: rows.select(selected)?, types, inputs: listed.inputs() })
}

/// The documents at `places` in `sources`, each with its number: for each source that has some of them, its number and the frame of
/// [`Documents`].
///
/// # Errors
/// As [`read`].
pub(crate) async fn read_at<'a>(
    ctx: &SessionContext,
    sources: impl IntoIterator<Item = (u64, &'a job::Source, &'a Listed)>,
    mut places: DocumentPlaces,
    shingle: Option<&job::Shingle>,
) -> Result<Vec<(u64, DataFrame)>> {
    let mut frames = Vec::new();
    for (origin, source, listed) in sources {
        if let wanted @ Some(_) = places.take(origin) {
            frames.push((origin, read(ctx, source, listed, ReadRequest { wanted, shingle }).await?.frame));
        }
    }
    places.all_taken()?;
    Ok(frames)
}

/// Whether the files of `source` have a column `name` that documents can carry, by the first one that is not empty.
///
/// # Errors
/// As [`list`].
pub(crate) async fn has_column(ctx: &SessionContext, source: &job::Source, name: &str) -> Result<bool> {
    let listed = list_quietly(ctx, source).await?;
    let first = listed.files.iter().find(|file| file.meta.size > 0);
    let Some(first) = first.filter(|_| source.format != job::Format::Text) else { return Ok(false) };
    let with = job::Source { columns: vec![name.to_owned()], condition: None, limit: None, ..source.clone() };
    Ok(open_rows(ctx, &with, std::slice::from_ref(first), None, None).await.is_ok())
}

/// Where the text of a document is in the listed files of `source`. Reads headers and first rows as [`read`] does.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if the text is joined from several columns, or is in the paths of files; and as [`read`].
pub(crate) async fn text_place(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
) -> Result<TextPlace> {
    find_text::text_place(ctx, source, &listed.files).await
}

/// A row with what `source.where` and `source.limit` leave out of listed files: (files: UInt64, by_where: UInt64, by_limit:
/// UInt64, unread: Utf8), the files whose paths do not meet the condition, which are not read, and rows of the others. `unread` names
/// the texts that the condition cannot convert. Lazy.
///
/// # Errors
/// As [`read`].
pub(crate) async fn left_out(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
) -> Result<DataFrame> {
    let whole = job::Source { limit: None, ..source.clone() };
    let opened = open_rows(ctx, &whole, &listed.files, None, None).await?;
    let OpenedRows { rows, values, files_left_out, .. } = opened;
    let rows = filter::left_out(ctx, source, rows, &values).await?;
    let columns = ["by_where", "by_limit", "unread"].map(columns::column);
    Ok(rows.select([vec![lit(files_left_out).alias("files")], columns.to_vec()].concat())?)
}

/// The files whose paths do not meet `source.where`, which are not read.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where the condition does not fit the columns.
pub(crate) async fn files_left_out(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
) -> Result<Vec<SourceFile>> {
    let left_out = opened::files_left_out(ctx, source, &listed.files).await?;
    Ok(left_out.iter().map(|file| file.as_ref().clone()).collect())
}
