//! One file of the source: what stays of it is written as its format has it.

use super::fate::Fates;
use super::record::{Counts, SourceRecord};
use super::work::{KEPT, Work};
use super::{copy, parquet, records, stories};
use crate::error::Result;
use crate::job::Format;
use crate::source::SourceFile;

/// Writes what stays of a file of the source, under `path`. The output knows so many documents of it as `expected` says.
///
/// # Errors
/// When the file cannot be read to its end, is not what the output knows of it, or the store refuses.
pub(super) async fn write(
    work: &Work,
    file: &SourceFile,
    path: &str,
    expected: Counts,
) -> Result<SourceRecord> {
    let source = file.path();
    let fates = Fates {
        removed: work.removed.of(source).cloned().unwrap_or_default(),
        rejected: work.rejected.of(source).cloned().unwrap_or_default(),
        rejects: work.rejects,
    };
    let (rows, written) = match work.source.format {
        Format::Reuters => stories::write(work, file, path, &fates, expected.read).await?,
        Format::Text => (1, copy::write(work, file, path, &fates).await?),
        // Frameworks leave empty files behind, which have no rows and are not of their format.
        _ if file.size() == 0 => (0, vec![copy::copied(work, file, &format!("{KEPT}/{path}"), 0).await?]),
        Format::Parquet | Format::Delta => parquet::write(work, file, path, &fates).await?,
        Format::Csv | Format::Jsonl => records::write(work, file, path, &fates).await?,
    };
    let counts = fates.counts(source, rows, expected)?;
    Ok(SourceRecord { source: source.to_owned(), counts, written })
}
