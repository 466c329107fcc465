//! The number of rows of a file, as the rewriting of the file counts them.

use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use super::as_parquet;
use crate::error::{Context, Result};
use crate::job;
use crate::source::{ParquetFile, Rewriting, SourceFile, format_of};

/// The number of rows of a file of `source`, also of those that are no documents. Parquet is counted by its footer.
///
/// # Errors
/// When the file cannot be read to its end.
pub(crate) async fn rows_of_file(
    session: &SessionContext,
    source: &job::Source,
    file: &SourceFile,
) -> Result<u64> {
    match format_of(source.format).rewriting {
        Rewriting::AsParquet => as_parquet::documents(session, source, file).await,
        Rewriting::WholeFile => Ok(1),
        // Frameworks leave empty files behind, which are not valid files of their format.
        _ if file.size() == 0 => Ok(0),
        Rewriting::ParquetValues => Ok(ParquetFile::open(session, file).await?.rows()),
        Rewriting::Rows(format) => {
            let mut cutter = format.checked_cutter(source)?;
            let ([_, first], mut chunks) = file.decompressed(session).await?;
            let mut next = Some(first);
            while let Some(chunk) = next {
                cutter.feed(chunk, &mut |_| Ok(()))?;
                next = chunks.try_next().await.context(|| format!("reading {} failed", file.path()))?;
            }
            cutter.end(&mut |_| Ok(()))?;
            Ok(cutter.rows())
        }
    }
}
