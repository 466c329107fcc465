//! Checkpoints of a Delta log: Parquet files whose rows are actions.

use arrow::json::LineDelimitedWriter;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::action::{Action, actions};
use crate::error::guard::guarded;
use crate::error::{Context, Error, Result};
use crate::parquet_headers::check_file;

/// The fields that are read. Removed files are in a checkpoint only for programs that delete them.
const FIELDS: [&str; 9] = [
    "protocol.minReaderVersion",
    "protocol.readerFeatures",
    "metaData.partitionColumns",
    "metaData.configuration",
    "add.path",
    "add.partitionValues",
    "add.size",
    "add.deletionVector",
    "checkpointMetadata",
];

/// The actions of a checkpoint, or of a part of one; `shown` is its name in errors.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if it is not Parquet, or not a checkpoint.
pub(super) async fn read(bytes: Bytes, shown: &str) -> Result<Vec<Action>> {
    let read = tokio::task::spawn_blocking(move || guarded(|| lines(bytes)).flatten()).await;
    let failed = || Error::input(format!("{shown} is not a checkpoint of a Delta log"));
    let lines = read.map_err(|e| failed().because(e))?.context(|| format!("{shown} cannot be read"))?;
    actions(&lines).ok_or_else(failed)
}

/// The rows in the form of a commit: a line of JSON for each.
fn lines(bytes: Bytes) -> Result<Vec<u8>> {
    check_file(&bytes)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
    let fields = ProjectionMask::columns(builder.parquet_schema(), FIELDS);
    let mut writer = LineDelimitedWriter::new(Vec::new());
    for batch in builder.with_projection(fields).build()? {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    Ok(writer.into_inner())
}
