//! Looks at data before there is a job for them: what the files are, how they are written, and what their columns hold.
//!
//! `files` says whether paths name texts or a dataset, and `dataset` what a dataset is like: its encoding (`encoding`), the shape
//! of its records (`delimited`, `json_lines`, `parquet`) and its columns (`column`). `choose` finds the columns of the id and the
//! text, `job_file` writes a job file with comments, and `contents` sums up what a job reads.

mod choose;
mod column;
mod contents;
mod dataset;
mod delimited;
mod encoding;
mod files;
mod in_order;
mod job_file;
mod json_lines;
mod parquet;

pub(crate) use self::contents::{Contents, Rows, column_names, contents};
pub(crate) use self::dataset::Dataset;
pub(crate) use self::job_file::{of_dataset, of_texts};

use datafusion::execution::context::SessionContext;

use self::files::Named;
use crate::error::Result;
use crate::job::Encoding;

/// What paths name.
pub(crate) enum Found {
    /// Files that are documents each.
    Texts {
        /// The first of the files among them that hold records: their rows are no documents.
        data_files: Vec<String>,
    },
    /// Files whose rows are documents.
    Dataset(Dataset),
}

/// Finds out what `paths` name. The files of a dataset are taken to be in the encoding `given`, if one is.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where nothing is found there or it cannot be read, and
/// [`Kind::Job`](crate::error::Kind::Job) where the files are of several formats.
pub(crate) async fn look(ctx: &SessionContext, paths: &[String], given: Option<Encoding>) -> Result<Found> {
    match files::named(ctx, paths).await? {
        Named::Texts { data_files } => Ok(Found::Texts { data_files }),
        Named::Data(format) => Dataset::look(ctx, paths, format, given).await.map(Found::Dataset),
    }
}
