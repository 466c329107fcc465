//! Looks at data before there is a job for them: what the files are, how they are written, and what their columns hold.
//!
//! `files` finds the format of the files that paths name, and `dataset` what a dataset is like: its encoding (`encoding`), the shape
//! of its records (`delimited`, `json_lines`, `parquet`), its columns (`column`), and which of them are the id and the text.
//! `job_file` writes a job file with comments, and `contents` sums up what a job reads.

mod column;
mod contents;
mod dataset;
mod delimited;
mod encoding;
mod files;
mod job_file;
mod json_lines;
mod parquet;

pub(crate) use self::contents::{InspectedContents, RowCount, column_names, contents};
pub(crate) use self::dataset::Dataset;
pub(crate) use self::job_file::{of_dataset, of_texts};

use datafusion::execution::context::SessionContext;

use self::files::Named;
use crate::error::Result;
use crate::job::{Encoding, Format};

/// What paths name.
pub(crate) struct InspectedPaths {
    /// The paths, URLs and patterns of the files that are read.
    pub urls: Vec<String>,
    /// Files that are not read, because they are of another format, or describe data.
    pub left_out: Vec<String>,
    /// The files as a dataset, whose rows are documents; `None` if each file is one.
    pub dataset: Option<Dataset>,
}

/// Finds out what `paths` name. The files are taken to be in the encoding `given`, if one is. Messages propose to run `command`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where nothing is found there or it cannot be read, and
/// [`Kind::Job`](crate::error::Kind::Job) where the files are of several formats or of none that is known.
pub(crate) async fn look(
    ctx: &SessionContext,
    command: &str,
    paths: &[String],
    given: Option<Encoding>,
) -> Result<InspectedPaths> {
    let Named { format, urls, left_out } = files::named(ctx, command, paths, given).await?;
    let dataset = match format {
        Format::Text => None,
        format => Some(Dataset::look(ctx, &urls, format, given).await?),
    };
    Ok(InspectedPaths { urls, left_out, dataset })
}
