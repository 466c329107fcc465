//! Inspects data for which there is no job yet: the format, the encoding, the columns, and the first texts.

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
use crate::job::{DocumentColumns, Encoding};

pub(crate) struct InspectedPaths {
    pub files: FilesOfFormat,
    /// The dataset, unless each file is a document.
    pub dataset: Option<Dataset>,
}

/// Inspects the files at `paths`. Detects their encoding if `given` is `None`. With `by_lines`, each line is a document. Messages propose
/// calls of `command`. Fails with `Kind::Input` if a path is empty or cannot be read. Fails with `Kind::Job` if the format or the
/// documents are unclear.
pub(crate) async fn look(
    ctx: &SessionContext,
    command: &str,
    paths: &[String],
    given: Option<Encoding>,
    by_lines: bool,
) -> Result<InspectedPaths> {
    let files = files::find(ctx, command, paths, given, by_lines).await?;
    let dataset = match files.format.rules().columns {
        DocumentColumns::WholeFile => None,
        _ => Some(Dataset::open(ctx, &files.urls, files.format, given).await?),
    };
    Ok(InspectedPaths { files, dataset })
}
