//! Reads sources: the files of any format, and their documents.
//!
//! - `listing` finds the files, and `identity` detects replaced files. `file` represents a file of a source.
//! - `format` is the interface of formats, and `formats` contains a file or folder for each format.
//! - `reading` parses files, and `rows` selects the rows that are read. `other_files` recognises files that are not documents.

mod file;
mod format;
mod formats;
mod identity;
mod listing;
mod other_files;
mod reading;
mod rows;
mod table_file;

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{cast, lit};
use datafusion::prelude::DataFrame;
use datafusion::scalar::ScalarValue;

use self::format::{ParseRequest, Parser, WantedValues};
use self::formats::parquet;
use self::reading::parse_files::ParsedTable;
use self::rows::columns::{self, NamedExpressions, NeededColumns};
use self::rows::{filter, selection};
use crate::error::{Error, Result};
use crate::job::{self, Forgotten};
use crate::schema::{IdType, SourceColumn, SourceTypes};

pub(crate) use self::file::{SourceFile, without_rows};
pub(crate) use self::format::{
    AddedValue, CannotAppend, FilePiece, Reading, Rewriting, Row, RowFormat, TextCut, TextPlace,
};
pub(crate) use self::formats::csv::first_records;
pub(crate) use self::formats::format_of;
pub(crate) use self::formats::jsonl::first_json_rows;
pub(crate) use self::formats::jsonl::line::readable as readable_json;
#[cfg(test)]
pub(crate) use self::formats::parquet::SPLIT_COLUMN;
#[cfg(feature = "cluster")]
pub(crate) use self::formats::parquet::pinned_scan;
pub(crate) use self::formats::parquet::{
    NumberRows, ParquetFile, decoded_arrow_schema, is_string, named_fields,
};
pub(crate) use self::formats::text::{START_BYTES, is_stored_text};
pub(crate) use self::identity::{Checksums, InputComparison, checksum_of};
pub use self::listing::{Listed, list};
pub(crate) use self::listing::{
    Reach, every_file, is_delta_table, list_again, list_quietly, same_store, without_pattern,
};
pub(crate) use self::other_files::{
    COMPRESSED_PARQUET, COMPRESSED_SGML, OTHER_JSON, OtherFile, UNKNOWN, first_names, is_binary,
    is_companion, other_data, other_file, quoted,
};
pub(crate) use self::reading::bytes::{BYTE_ORDER_MARK, FileBytes, READ_BYTES, read_bytes};
pub(crate) use self::reading::documents::CUT;
pub(crate) use self::reading::parse_files::ParseFiles;
#[cfg(feature = "cluster")]
pub(crate) use self::rows::parts::files_of_partition;
pub(crate) use self::rows::parts::{part, parts};
pub use self::rows::selection::Selection;
pub(crate) use self::rows::selection::{DocumentPlaces, RowSet};
pub(crate) use self::table_file::table_file;

/// Access for the fuzzer.
#[doc(hidden)]
pub mod fuzzing {
    pub use super::formats::reuters::{Story, stories};
}

/// The documents of a source and their files.
#[derive(Debug)]
pub struct Documents {
    /// A lazy frame with one row for each document:
    ///
    /// | column | type | |
    /// |---|---|---|
    /// | `source` | Utf8View | the absolute path or URL of the file |
    /// | `position` | UInt64 | the number of the row or story in its file, from 0 |
    /// | `id` | Utf8View or Int64, nullable | null if a part of the id is null |
    /// | `text` | Utf8View, nullable | null if the document has no text |
    /// | `defect` | Utf8, nullable | the reason why a document cannot be compared, see below |
    /// | [`carried`](crate::schema::carried)`(0)`, .. | see `types`, nullable | the columns that the job carries |
    ///
    /// The defects are:
    ///
    /// - `truncated`: the end of the file truncates a story or a CSV record.
    /// - `invalid_utf8`, `invalid_encoding`: the text is invalid in the encoding of the job.
    /// - `malformed`: a CSV record, a JSON line or an element of a JSON array cannot be read.
    /// - `not_text`: the file is of a kind that contains no text, such as PDF.
    /// - `too_long`: a JSON line, an element of a JSON array or an HTML file is longer than `source.max_text`.
    pub frame: DataFrame,
    /// The types of the table columns that depend on the source.
    pub types: SourceTypes,
    /// A sentence about files with other columns than the first file.
    pub(crate) warning: Option<String>,
}

/// The documents that are read, and their form.
#[derive(Debug, Default)]
pub struct ReadRequest<'a> {
    /// The documents to read, or `None` for all documents. Unreadable documents are reported only if all documents are read. Unwanted rows
    /// are skipped in Parquet files. Files in other formats are read completely.
    pub wanted: Option<Selection>,
    /// The shingle settings if only the shingles of texts are needed. Long text files are then cut while they are read, and are never in
    /// memory as a whole. If there are such files, the frame also has a column `cut`.
    pub shingle: Option<&'a job::Shingle>,
}

impl ReadRequest<'_> {
    /// Requests all documents.
    pub fn all() -> Self {
        Self::default()
    }
}

/// Lists the files of `source` and reads its documents. Fails like [`list`] and [`read`].
pub async fn open(ctx: &SessionContext, source: &job::Source) -> Result<Documents> {
    read(ctx, source, &list(ctx, source).await?, ReadRequest::all()).await
}

/// Reads the documents of listed files. The footers, headers or first rows of the files are read immediately. The documents are read when
/// the frame is executed. The frame has at most `target_partitions` partitions for each object store.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if files are damaged or have different columns, or if a file with wanted documents is
/// missing. [`Kind::Job`](crate::error::Kind::Job) if the job names a column that does not exist or cannot be used. The frame fails if a
/// file cannot be read completely or ends before a wanted document. The error names the file.
pub async fn read(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
    request: ReadRequest<'_>,
) -> Result<Documents> {
    let ReadRequest { wanted, shingle } = request;
    let all = wanted.is_none();
    let SourceRows { mut rows, values, types, warning, .. } =
        open_rows(ctx, source, &listed.files, wanted, shingle).await?;
    // Wanted documents already passed the filter in an earlier read.
    if all {
        rows = filter::documents(ctx, source, rows, &values).await?;
    }
    let has_column = |name| rows.schema().has_column_with_unqualified_name(name);
    let mut defect = cast(lit(ScalarValue::Null), DataType::Utf8);
    if has_column("defect") {
        defect = columns::column("defect");
    }
    let mut selected = vec![
        columns::column("source"),
        columns::column("position"),
        columns::id(source, &values, types.id)?.alias("id"),
        columns::text(source, &values)?.alias("text"),
        defect.alias("defect"),
    ];
    selected.extend(has_column(CUT).then(|| columns::column(CUT)));
    selected.extend(columns::carried(&values, &types.columns)?);
    Ok(Documents { frame: rows.select(selected)?, types, warning })
}

/// Reads the documents at `places` in `sources`. The number of each source is the origin of its documents in `places`. Returns the number
/// and the frame of each source with wanted documents.
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

/// Whether the first non-empty file of `source` has a column `name` that documents can carry.
pub(crate) async fn has_column(ctx: &SessionContext, source: &job::Source, name: &str) -> Result<bool> {
    let listed = list_quietly(ctx, source).await?;
    let first = listed.files.iter().find(|file| file.size() > 0);
    let Some(first) = first.filter(|_| !format_of(source.format).is_one_document()) else { return Ok(false) };
    let with = job::Source { columns: vec![name.to_owned()], condition: None, limit: None, ..source.clone() };
    Ok(open_rows(ctx, &with, std::slice::from_ref(first), None, None).await.is_ok())
}

/// Returns the position of the text in the files of `source`. Reads headers and first rows in the same way as [`read`]. Fails with
/// `Kind::Job` if the text is joined from several columns or comes from the paths of files.
pub(crate) async fn text_place(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
) -> Result<TextPlace> {
    let format = format_of(source.format);
    if let Rewriting::WholeFile | Rewriting::AsParquet = format.rewriting {
        return Ok(TextPlace::File);
    }
    let [name] = source.text.as_slice() else {
        return Err(Error::job(format!(
            "source.text joins {} columns, and a position in the joined text belongs to no single column: name one column in the job, and \
             run it again",
            source.text.len()
        )));
    };
    if columns::is_in_paths(name, &listed.files) {
        return Err(Error::job(format!(
            "the text `{name}` is in the paths of the files, not in the files: name another column in the job, and run it again"
        )));
    }
    let Reading::Parser(parser) = format.reading else { return Ok(TextPlace::Column(name.clone())) };
    let request = ParseRequest { ctx, source, columns: &[name.as_str()], files: &listed.files };
    match parser.plan(request).await?.wanted {
        WantedValues::Columns(names) => names.into_iter().next().map(TextPlace::Column),
        WantedValues::Fields(fields) if fields.iter().any(|field| field.inside.is_some()) => {
            return Err(Error::job(format!(
                "the text `{name}` is in lists, and a position in the joined text belongs to no single one: name another text in the job, \
                 and run it again"
            )));
        }
        WantedValues::Fields(fields) => fields.into_iter().next().map(|field| TextPlace::Path(field.path)),
        WantedValues::All(_) => None,
    }
    .ok_or_else(|| Error::bug(format!("the place of the text in {} is not known", format.title)))
}

/// Returns a lazy frame with one row that counts the rows that `source.where` and `source.limit` exclude: (files: UInt64, by_where: UInt64,
/// by_limit: UInt64, unread: Utf8). `files` counts the files that are not read because of their paths. The next columns count rows of the
/// other files. `unread` names the texts that the condition cannot convert.
pub(crate) async fn left_out(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
) -> Result<DataFrame> {
    let whole = job::Source { limit: None, ..source.clone() };
    let opened = open_rows(ctx, &whole, &listed.files, None, None).await?;
    let SourceRows { rows, values, files_left_out, .. } = opened;
    let rows = filter::left_out(ctx, source, rows, &values).await?;
    let columns = ["by_where", "by_limit", "unread"].map(columns::column);
    Ok(rows.select([vec![lit(files_left_out).alias("files")], columns.to_vec()].concat())?)
}

/// Returns the files whose paths do not meet `source.where`. Fails with `Kind::Job` if the condition does not fit the columns.
pub(crate) async fn files_left_out(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
) -> Result<Vec<SourceFile>> {
    let left_out = filter::files_left_out(ctx, source, &listed.files).await?;
    Ok(left_out.iter().map(|file| file.as_ref().clone()).collect())
}

/// The rows of a source. A filter can exclude some of them from the documents.
struct SourceRows {
    /// The columns of [`columns::numbered_schema`], and `defect` if documents can have a defect.
    rows: DataFrame,
    values: NamedExpressions,
    types: SourceTypes,
    warning: Option<String>,
    /// The number of files that the condition excludes by their paths.
    files_left_out: u64,
}

/// Opens all rows of listed files, or only the `wanted` rows. If `shingle` is set, long texts can be cut while they are read.
async fn open_rows(
    ctx: &SessionContext,
    source: &job::Source,
    files: &[Arc<SourceFile>],
    wanted: Option<Selection>,
    shingle: Option<&job::Shingle>,
) -> Result<SourceRows> {
    let format = format_of(source.format);
    if let Some(gone) = wanted.as_ref().and_then(|wanted| {
        wanted.sources().find(|source| files.binary_search_by(|file| file.path().cmp(source)).is_err())
    }) {
        return Err(selection::missing(gone));
    }
    let columns = NeededColumns::new(source, files);
    let chosen = filter::matching_files(ctx, source, &columns.in_paths, files).await?;
    let is_read = |file: &&Arc<SourceFile>| {
        chosen.binary_search_by(|other| other.path.cmp(&file.path)).is_ok()
            // A wanted document is read from any file, even if the condition excludes the file.
            || wanted.as_ref().is_some_and(|wanted| wanted.rows(&file.path).is_some())
    };
    let mut to_read: Vec<_> = files.iter().filter(is_read).cloned().collect();
    let files_left_out = (files.len() - to_read.len()) as u64;
    if !format.is_one_document() {
        to_read = without_empty_files(to_read);
    }
    let (mut rows, mut values, types, warning) = match format.reading {
        Reading::ParquetScan => {
            let opened = parquet::table(ctx, source, &columns, &to_read, wanted).await?;
            let mut rows = ctx.read_table(Arc::new(opened.table))?;
            if let Some(defect) = opened.defect {
                rows = rows.with_column("defect", defect)?;
            }
            (rows, opened.values, opened.types, None)
        }
        Reading::Parser(parsed) => {
            let request = ParseRequest { ctx, source, columns: &columns.in_files, files: &to_read };
            let plan = parsed.plan(request).await?;
            let parser = Parser {
                source: source.clone(),
                wanted: plan.wanted,
                partition_columns: columns.in_paths.clone(),
                cut: shingle.filter(|shingle| parsed.cuts_into_shingles(files, shingle)).cloned(),
            };
            let text = |name: &String| SourceColumn { name: name.clone(), data_type: DataType::Utf8 };
            let carried = source.columns.iter().map(text).collect();
            let types = SourceTypes { id: IdType::Utf8, columns: carried };
            let table = ParsedTable::new(parser, &plan.files, wanted.as_ref());
            (ctx.read_table(Arc::new(table))?, plan.values, types, plan.warning)
        }
    };
    if let Some(left_out) = source.forgotten.as_ref().and_then(Forgotten::rows) {
        rows = rows.filter(!left_out)?;
    }
    values.extend(columns.path_values());
    Ok(SourceRows { rows, values, types, warning, files_left_out })
}

/// Removes empty files. Some frameworks write such files.
fn without_empty_files(files: Vec<Arc<SourceFile>>) -> Vec<Arc<SourceFile>> {
    let (full, empty): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| file.size() > 0);
    // If all files are empty, the format reports the error.
    if full.is_empty() { empty } else { full }
}
