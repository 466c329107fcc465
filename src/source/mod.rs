//! URLs -> documents, one file per format.
//!
//! `listing` finds the files, on disks through `walk`; of Delta tables `delta` does. Parquet is read by the engine's own reader (`parquet`, over `scan`)
//! under `NumberRows`, which says of each row where it stood (`numbering`). All other formats are read by `ParseFiles`,
//! of whose batches bytes are the bound: `csv` and `jsonl` find the columns, `reading` takes the bytes apart (`records`,
//! `json_line`, `sgml`, `text`), in UTF-8 (`decode`). All of them read the files as they were listed, or not at all (`pin`).
//! `columns` makes of every format the same columns. `file` gives a file as it is, and `pieces` its rows byte for byte.

mod arrow_schema;
mod batch;
mod bytes;
mod chunks;
mod columns;
mod csv;
mod decode;
mod delta;
mod file;
mod footer;
#[doc(hidden)]
pub mod fuzzing;
mod json_line;
mod jsonl;
mod listing;
mod number_rows;
mod numbering;
mod parquet;
mod parse_files;
mod pieces;
mod pin;
pub(crate) mod reach;
mod reading;
mod records;
mod scan;
mod selection;
mod sgml;
mod text;
mod to_parse;
mod walk;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, StringViewArray, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::execution::context::SessionContext;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{cast, lit};
use datafusion::prelude::DataFrame;
use datafusion::scalar::ScalarValue;
use object_store::path::Path;

use crate::error::Result;
use crate::job::{self, Format};
use crate::kernel::text::long_text::LongText;
use crate::schema::{IdType, SourceColumn, SourceTypes};
use reading::LONG_TEXT;

pub(crate) use arrow_schema::decoded as decoded_arrow_schema;
pub(crate) use file::{ParquetFile, SourceFile};
#[cfg(feature = "cluster")]
pub(crate) use number_rows::NumberRows;
#[cfg(test)]
pub(crate) use numbering::CHUNK_COLUMN;
#[cfg(feature = "cluster")]
pub(crate) use numbering::{Chunk, file_scan};
#[cfg(feature = "cluster")]
pub(crate) use parse_files::ParseFiles;
pub(crate) use pieces::{Piece, Pieces, Row, fields};
#[cfg(feature = "cluster")]
pub(crate) use scan::pinned_scan;
pub(crate) use selection::RowSet;
pub use selection::Selection;
pub(crate) use to_parse::{CUT, FileToParse};

/// The documents of a source, and the files that they are in.
#[derive(Debug)]
pub struct Documents {
    /// One row per document, lazily:
    ///
    /// | column | type | |
    /// |---|---|---|
    /// | `source` | Utf8View | the file's path as the user would write it |
    /// | `position` | UInt64 | the row's or story's index in its file, from 0 |
    /// | `id` | Utf8View or Int64, nullable | null where a part of the id is null |
    /// | `text` | Utf8View, nullable | null if there is none |
    /// | `defect` | Utf8, nullable | why a document cannot be compared although it was read: `truncated` (a story or a CSV record cut off by the end of its file), `invalid_utf8` or `invalid_encoding` (a text in another encoding than the job says), `malformed` (a CSV record or a JSON line that cannot be read), `invalid_name` (a file whose name is not a text) |
    /// | [`carried`](crate::schema::carried)`(0)`, .. | those of `types`, nullable | the columns that the job carries |
    pub frame: DataFrame,
    /// The types that the source gives to the tables' columns.
    pub types: SourceTypes,
    /// Every file of the input, sorted by path.
    pub inputs: Vec<job::InputFile>,
}

/// The files of a source, found and not read.
#[derive(Debug)]
pub struct Listed {
    files: Vec<Arc<listing::File>>,
    /// Files that are not read because nothing could name them.
    unnamable: Vec<job::InputFile>,
    /// Columns of Delta tables whose values are in no file.
    partition_columns: Vec<String>,
}

impl Listed {
    /// Every file, sorted by path.
    pub fn inputs(&self) -> Vec<job::InputFile> {
        let mut inputs: Vec<job::InputFile> = self.files.iter().map(|file| file.input()).collect();
        inputs.extend(self.unnamable.iter().cloned());
        inputs.sort_by(|a, b| a.path.cmp(&b.path));
        inputs
    }

    /// The files that can be read.
    pub(crate) fn files(&self) -> impl Iterator<Item = SourceFile> + '_ {
        self.files.iter().map(SourceFile::new)
    }

    /// These files alone.
    pub(crate) fn of(files: &[SourceFile]) -> Self {
        let files = files.iter().map(SourceFile::file).collect();
        Self { files, unnamable: Vec::new(), partition_columns: Vec::new() }
    }

    /// Columns of Delta tables whose values are in no file.
    pub(crate) fn partition_columns(&self) -> &[String] {
        &self.partition_columns
    }

    /// Takes out of `wanted` what lies in these files.
    pub(crate) fn take(&self, wanted: &mut Selection) -> Selection {
        wanted.take(|path| self.files.binary_search_by(|file| file.path.as_str().cmp(path)).is_ok())
    }

    /// Where every file is: its store, its path there, and how the user would write it.
    pub(crate) fn places(&self) -> impl Iterator<Item = (&ObjectStoreUrl, &Path, &str)> {
        self.files.iter().map(|file| (&file.store, &file.meta.location, file.path.as_str()))
    }
}

/// The files of `source`, sorted by path, each once, without reading them.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) when a path is missing, a folder is empty, a glob matches nothing or the storage
/// cannot be reached.
pub async fn list(ctx: &SessionContext, source: &job::Source) -> Result<Listed> {
    let found = match source.format {
        Format::Delta => delta::files(ctx, source).await?,
        _ => listing::files(ctx, source).await?,
    };
    Ok(Listed {
        files: found.files.into_iter().map(Arc::new).collect(),
        unnamable: found.unnamable,
        partition_columns: found.partition_columns,
    })
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
    documents(ctx, source, listed, None, None).await
}

/// As [`open_listed`], of those documents alone that `wanted` says. Of Parquet no other rows are read; other formats are read
/// to the end. What could not be read as a document is not told again.
///
/// # Errors
/// As [`open`]; executing the frame also fails where a file has fewer documents than are wanted of it.
pub async fn open_wanted(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
    wanted: Selection,
) -> Result<Documents> {
    documents(ctx, source, listed, Some(wanted), None).await
}

/// As [`open_wanted`], or [`open_listed`] where none are named.
///
/// # Errors
/// As [`open_wanted`].
pub(crate) async fn open_texts(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
    wanted: Option<Selection>,
) -> Result<Documents> {
    documents(ctx, source, listed, wanted, None).await
}

/// As [`open_wanted`], or [`open_listed`] where none are named, for whoever wants no texts but their shingles: long text files
/// are cut as `shingle` says while they are read, and are never held whole. Where there are such files, the frame has a
/// column `cut` too.
///
/// # Errors
/// As [`open_wanted`].
pub(crate) async fn open_cut(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
    wanted: Option<Selection>,
    shingle: &job::Shingle,
) -> Result<Documents> {
    let long = listed.files.iter().any(|file| file.meta.size >= LONG_TEXT);
    let cut = (long && source.format == Format::Text && LongText::can(shingle)).then_some(shingle);
    documents(ctx, source, listed, wanted, cut).await
}

async fn documents(
    ctx: &SessionContext,
    source: &job::Source,
    listed: &Listed,
    wanted: Option<Selection>,
    cut: Option<&job::Shingle>,
) -> Result<Documents> {
    let files = &listed.files;
    let inputs = listed.inputs();
    let all = wanted.is_none();
    if let Some(gone) = wanted.as_ref().and_then(|wanted| {
        wanted.sources().find(|source| files.binary_search_by(|file| file.path.as_str().cmp(source)).is_err())
    }) {
        return Err(selection::missing(gone));
    }
    let read = read(source.format, files, all);
    let text_column = |name: &String| SourceColumn { name: name.clone(), data_type: DataType::Utf8 };
    let mut types =
        SourceTypes { id: IdType::Utf8, columns: source.columns.iter().map(text_column).collect() };
    let (table, values, defects): (Arc<dyn TableProvider>, _, _) = match source.format {
        Format::Parquet | Format::Delta => {
            let (table, values, found) = parquet::table(ctx, source, &read).await?;
            types = found;
            (Arc::new(table.only(wanted)), values, false)
        }
        Format::Csv => {
            let (table, values) = csv::table(ctx, source, &read).await?;
            (Arc::new(table.only(wanted)), values, true)
        }
        Format::Jsonl => {
            let (table, values) = jsonl::table(ctx, source, &read).await?;
            (Arc::new(table.only(wanted)), values, true)
        }
        Format::Reuters => {
            let (table, values) = parse_files::reuters(source, &read)?;
            (Arc::new(table.only(wanted)), values, true)
        }
        Format::Text => {
            let (table, values) = parse_files::texts(source, &read, cut)?;
            (Arc::new(table.only(wanted)), values, true)
        }
    };
    let defect =
        if defects { columns::column("defect") } else { cast(lit(ScalarValue::Null), DataType::Utf8) };
    let text = match source.format {
        Format::Text => values.first().map_or_else(|| columns::column("value_0"), |(_, text)| text.clone()),
        _ => columns::text(source, &values)?,
    };
    let mut selected = vec![
        columns::column("source"),
        columns::column("position"),
        columns::id(source, &values, files.len() > 1, types.id)?.alias("id"),
        text.alias("text"),
        defect.alias("defect"),
    ];
    selected.extend(cut.map(|_| columns::column(CUT)));
    selected.extend(columns::carried(&values, &types.columns)?);
    let frame = ctx.read_table(table)?.select(selected)?;
    let frame = match listed.unnamable.as_slice() {
        files if all && !files.is_empty() => {
            let rejects = unnamable(files, Arc::clone(frame.schema().inner()))?;
            frame.union(ctx.read_batch(rejects)?)?
        }
        _ => frame,
    };
    Ok(Documents { frame, types, inputs })
}

/// A row for each file that nothing could name, in the columns of [`Documents`].
fn unnamable(files: &[job::InputFile], schema: SchemaRef) -> Result<RecordBatch> {
    let rows = files.len();
    // Whatever an id is made of, these files have none.
    let nullable = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    let schema: SchemaRef = Arc::new(Schema::new(schema.fields().iter().map(nullable).collect::<Vec<_>>()));
    let paths = StringViewArray::from_iter_values(files.iter().map(|file| &file.path));
    let mut columns: Vec<ArrayRef> =
        schema.fields().iter().map(|field| new_null_array(field.data_type(), rows)).collect();
    let known: [(&str, ArrayRef); 3] = [
        ("source", Arc::new(paths)),
        ("position", Arc::new(UInt64Array::from(vec![0; rows]))),
        ("defect", Arc::new(StringArray::from(vec!["invalid_name"; rows]))),
    ];
    for (name, values) in known {
        columns[schema.index_of(name)?] = values;
    }
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// The files that have something to read. Frameworks leave empty files behind, and they are no Parquet and have no story;
/// an empty text file is an empty document. Where `told`, each empty file gets a warning.
fn read(format: Format, files: &[Arc<listing::File>], told: bool) -> Vec<Arc<listing::File>> {
    if format == Format::Text {
        return files.to_vec();
    }
    let (full, empty): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|file| file.meta.size > 0);
    for file in empty.iter().filter(|_| told) {
        tracing::warn!(file = file.path, "this file is empty");
    }
    // Where all are empty, the format says best what is wrong with that.
    if full.is_empty() { empty } else { full }
}
