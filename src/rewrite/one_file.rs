//! Rewrites one file of the source.

use super::actions::RowActions;
use super::record::{Counts, SourceRecord};
use super::work::Work;
use super::{as_parquet, parquet, rows, whole_file};
use crate::error::Result;
use crate::source::{FileBytes, Rewriting, SourceFile, format_of};

/// Writes the kept rows of a file of the source to `path`. The output counted `expected` documents in it.
///
/// # Errors
/// When the file cannot be read to its end, has other counts than the output, or the store refuses.
pub(super) async fn write(
    work: &Work,
    file: &SourceFile,
    path: &str,
    expected: Counts,
) -> Result<SourceRecord> {
    let source = file.path();
    let actions = RowActions {
        removed: work.removed.of(source).cloned().unwrap_or_default(),
        rejected: work.rejected.of(source).cloned().unwrap_or_default(),
        rejects: work.rejects,
    };
    let bytes = FileBytes::new(&work.read, file.size());
    let (rows, written) = match format_of(work.source.format).rewriting {
        Rewriting::AsParquet => {
            let documents = match work.source.leaves_rows_out() {
                true => as_parquet::documents(&work.session, &work.source, file).await?,
                false => expected.read,
            };
            as_parquet::write(work, file, path, &actions, documents).await?
        }
        Rewriting::WholeFile => (1, whole_file::write(work, file, path, &actions).await?),
        // Frameworks leave files without bytes behind, which readers of the format refuse.
        _ if file.size() == 0 => (0, Vec::new()),
        Rewriting::ParquetValues => parquet::write(work, file, path, &actions, bytes).await?,
        Rewriting::Rows(format) => rows::write(work, format, file, path, &actions, bytes).await?,
    };
    // Rows that the run left out are kept.
    let expected = match work.source.leaves_rows_out() {
        true => Counts { read: rows.max(expected.read), ..expected },
        false => expected,
    };
    let counts = actions.counts(source, rows, expected)?;
    Ok(SourceRecord { origin: work.origin, source: source.to_owned(), counts, written })
}
