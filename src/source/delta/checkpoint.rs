//! Checkpoints of a Delta log: Parquet files whose rows are actions.

use arrow::json::LineDelimitedWriter;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::action::{Action, actions};
use crate::error::{Context, Error, Result};
use crate::guard::guarded;

/// The fields that are read. Others, such as statistics of any types, would be read for nothing.
const FIELDS: [&str; 8] = [
    "protocol.minReaderVersion",
    "protocol.readerFeatures",
    "metaData.partitionColumns",
    "metaData.configuration",
    "add.path",
    "add.size",
    "add.deletionVector",
    // Removed files are not in a table's checkpoint of it but for those who delete them.
    "checkpointMetadata",
];

/// The actions of a checkpoint, or of a part of one, that is called `shown` in errors.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where it is no Parquet, or lacks what a checkpoint has.
pub(super) async fn read(bytes: Bytes, shown: &str) -> Result<Vec<Action>> {
    let read = tokio::task::spawn_blocking(move || guarded(|| lines(bytes)).flatten()).await;
    let failed = || Error::input(format!("{shown} is not a checkpoint of a Delta log"));
    let lines = read.map_err(|e| failed().because(e))?.context(|| format!("{shown} cannot be read"))?;
    actions(&lines).ok_or_else(failed)
}

/// The rows as a commit would have them: a line of JSON for each.
fn lines(bytes: Bytes) -> Result<Vec<u8>> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
    let fields = ProjectionMask::columns(builder.parquet_schema(), FIELDS);
    let mut writer = LineDelimitedWriter::new(Vec::new());
    for batch in builder.with_projection(fields).build()? {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    Ok(writer.into_inner())
}
