//! The rows of a source, before it is decided which of them are documents.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::execution::context::SessionContext;
use datafusion::prelude::DataFrame;

use super::columns::{NamedExpressions, NeededColumns};
use super::file::SourceFile;
use super::format::{EmptyFile, Reading};
use super::parse_files::ParsedTable;
use super::parser::Parser;
use super::selection::{self, Selection};
use super::{filter, formats, parquet};
use crate::error::Result;
use crate::job;
use crate::schema::{IdType, SourceColumn, SourceTypes};

/// The rows of a source, which may be documents.
pub(super) struct OpenedRows {
    /// The columns of [`numbered_schema`](super::columns::numbered_schema), and where documents can be damaged `defect`.
    pub rows: DataFrame,
    /// The job's columns.
    pub values: NamedExpressions,
    pub types: SourceTypes,
    /// Files that the condition leaves out by their paths.
    pub files_left_out: u64,
}

/// Opens the rows of listed files, or the `wanted` ones among them. Long texts may be cut as `shingle` says, if it is given.
///
/// # Errors
/// As [`read`](super::read()).
pub(super) async fn open_rows(
    ctx: &SessionContext,
    source: &job::Source,
    files: &[Arc<SourceFile>],
    wanted: Option<Selection>,
    shingle: Option<&job::Shingle>,
) -> Result<OpenedRows> {
    let format = formats::of(source.format);
    let cut = shingle.filter(|shingle| match format.reading {
        Reading::Parser(parsed) => parsed.cuts_into_shingles(files, shingle),
        Reading::ParquetScan => false,
    });
    let all = wanted.is_none();
    if let Some(gone) = wanted.as_ref().and_then(|wanted| {
        wanted.sources().find(|source| files.binary_search_by(|file| file.path.as_str().cmp(source)).is_err())
    }) {
        return Err(selection::missing(gone));
    }
    let columns = NeededColumns::of(source, files);
    // A document that is named by its place may be in any file.
    let chosen = filter::files(ctx, source, &columns.of_paths, files).await?;
    let is_chosen = |file: &SourceFile| chosen.binary_search_by(|other| other.path.cmp(&file.path)).is_ok();
    let is_wanted = |file: &SourceFile| wanted.as_ref().is_some_and(|wanted| wanted.of(&file.path).is_some());
    let to_read: Vec<_> = files.iter().filter(|file| is_chosen(file) || is_wanted(file)).cloned().collect();
    let files_left_out = (files.len() - to_read.len()) as u64;
    let read = files_to_read(format.empty_file, &to_read, all);
    let (rows, mut values, types) = match format.reading {
        Reading::ParquetScan => {
            let opened = parquet::table(ctx, source, &columns, &read, wanted).await?;
            let rows = ctx.read_table(Arc::new(opened.table))?;
            let rows = match opened.defect {
                Some(defect) => rows.with_column("defect", defect)?,
                None => rows,
            };
            (rows, opened.values, opened.types)
        }
        Reading::Parser(parsed) => {
            let plan = parsed.plan(ctx, source, &columns.of_files, &read).await?;
            let parser = Parser {
                source: source.clone(),
                wanted: plan.wanted,
                partition_columns: columns.of_paths.clone(),
                cut: cut.cloned(),
            };
            let text = |name: &String| SourceColumn { name: name.clone(), data_type: DataType::Utf8 };
            let carried = source.columns.iter().map(text).collect();
            let types = SourceTypes { id: IdType::Utf8, columns: carried };
            let table = ParsedTable::new(parser, plan.files, wanted);
            (ctx.read_table(Arc::new(table))?, plan.values, types)
        }
    };
    values.extend(columns.path_values());
    Ok(OpenedRows { rows, values, types, files_left_out })
}

/// Those of `files` whose paths do not meet the condition of `source`.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where the condition does not fit the columns.
pub(super) async fn files_left_out(
    ctx: &SessionContext,
    source: &job::Source,
    files: &[Arc<SourceFile>],
) -> Result<Vec<Arc<SourceFile>>> {
    let columns = NeededColumns::of(source, files);
    let chosen = filter::files(ctx, source, &columns.of_paths, files).await?;
    let is_left_out =
        |file: &&Arc<SourceFile>| chosen.binary_search_by(|other| other.path.cmp(&file.path)).is_err();
    Ok(files.iter().filter(is_left_out).cloned().collect())
}

/// The files that are read, which are all but empty ones without documents; of these the log warns if `all` documents are read.
fn files_to_read(empty_file: EmptyFile, files: &[Arc<SourceFile>], all: bool) -> Vec<Arc<SourceFile>> {
    if empty_file == EmptyFile::Document {
        return files.to_vec();
    }
    let (full, empty): (Vec<_>, Vec<_>) = files.iter().cloned().partition(|file| file.meta.size > 0);
    for file in empty.iter().filter(|_| all) {
        tracing::warn!(file = file.path, "this file is empty");
    }
    // Where all are empty, the format has the best message about it.
    if full.is_empty() { empty } else { full }
}
