//! Inspects data for which there is no job yet: the format, the encoding, the columns, and the first texts.
//!
//! `files` uses `sniff` to determine the format of the files at given paths. `dataset` describes files whose rows are documents: their
//! encoding, their `columns`, and the columns for the id and the text. `job_file` renders a job file with comments, and `contents`
//! describes the data that a job reads.

mod columns;
mod contents;
mod dataset;
mod files;
mod job_file;
mod sniff;

pub(crate) use self::contents::{CarriedColumn, InspectedContents, RowCount, column_names, contents};
pub(crate) use self::dataset::Dataset;
pub(crate) use self::job_file::{dataset_job, texts_job};

use datafusion::execution::context::SessionContext;

use self::files::FilesOfFormat;
use crate::error::Result;
use crate::job::{Encoding, Format};

/// The inspected files at given paths.
pub(crate) struct InspectedPaths {
    /// Paths, URLs and patterns that match the files to read.
    pub urls: Vec<String>,
    /// Files that are skipped: descriptions of data, and files of another format.
    pub left_out: Vec<String>,
    /// Files that cannot be read in their current form.
    pub not_text: Vec<String>,
    /// Sentences about `not_text` and about detected encodings.
    pub said: Vec<String>,
    /// The given encoding, or [`Encoding::Detect`] if a text is not in UTF-8.
    pub encoding: Option<Encoding>,
    /// Whether there is a single file, which is one document.
    pub is_single_text: bool,
    /// The dataset whose rows are documents, or `None` if each file is a document.
    pub dataset: Option<Dataset>,
}

/// Inspects the files at `paths`. Detects their encoding if `given` is `None`. If `by_lines` is true, each line is a document. Messages
/// propose calls of `command`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if a path is empty or cannot be read. [`Kind::Job`](crate::error::Kind::Job) if the files
/// have several formats or an unknown format, or if the documents are unclear in a single text.
pub(crate) async fn look(
    ctx: &SessionContext,
    command: &str,
    paths: &[String],
    given: Option<Encoding>,
    by_lines: bool,
) -> Result<InspectedPaths> {
    let FilesOfFormat { format, urls, left_out, not_text, said, has_old_encodings, is_single } =
        files::find(ctx, command, paths, given, by_lines).await?;
    let dataset = match format {
        Format::Text => None,
        format => Some(Dataset::open(ctx, &urls, format, given).await?),
    };
    let encoding = given.or(has_old_encodings.then_some(Encoding::Detect));
    Ok(InspectedPaths {
        urls,
        left_out,
        not_text,
        said,
        encoding,
        is_single_text: dataset.is_none() && is_single,
        dataset,
    })
}
