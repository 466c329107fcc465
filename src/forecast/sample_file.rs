//! The Parquet file of a sample.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_string_array;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::error::{Context, Error, Result};

/// Rows that are read at once.
const ROWS: usize = 512;

/// The columns, the number of rows, and the rows of a sample.
pub(super) fn read(folder: &Path) -> Result<(SchemaRef, u64, ParquetRecordBatchReader)> {
    let builder = open(folder)?;
    let rows = builder.metadata().file_metadata().num_rows().cast_unsigned();
    Ok((Arc::clone(builder.schema()), rows, builder.with_batch_size(ROWS).build()?))
}

/// Calls `take` with every text of a sample, until it is false.
///
/// # Errors
/// Those of `take`, and when the sample cannot be read.
pub(super) fn each_text(folder: &Path, mut take: impl FnMut(&str) -> Result<bool>) -> Result<()> {
    let (.., batches) = read(folder)?;
    for batch in batches {
        for text in as_string_array(batch?.column(1))?.iter().flatten() {
            if !take(text)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The number of row groups of a sample.
pub(super) fn row_groups(folder: &Path) -> Result<u64> {
    Ok(open(folder)?.metadata().num_row_groups() as u64)
}

fn open(folder: &Path) -> Result<ParquetRecordBatchReaderBuilder<File>> {
    let path = file_in(folder);
    let file = File::open(&path).context(|| format!("cannot read {}", path.display()))?;
    Ok(ParquetRecordBatchReaderBuilder::try_new(file)?)
}

/// The only file of a sample.
fn file_in(folder: &Path) -> PathBuf {
    folder.join("documents.parquet")
}

/// A Parquet file of documents.
pub(super) struct SampleFile(ArrowWriter<File>);

impl SampleFile {
    /// Creates `folder` with the file, which has row groups of at most `group` rows.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn create(folder: &Path, schema: &SchemaRef, group: usize) -> Result<Self> {
        std::fs::create_dir_all(folder).context(|| format!("cannot create {}", folder.display()))?;
        let path = file_in(folder);
        let file = File::create(&path).context(|| format!("cannot write {}", path.display()))?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(false)
            .set_max_row_group_row_count(Some(group.max(1)))
            .build();
        Ok(Self(ArrowWriter::try_new(file, Arc::clone(schema), Some(properties))?))
    }

    /// Adds rows.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(super) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        Ok(self.0.write(rows)?)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn end(self) -> Result<()> {
        self.0.close().map(|_| ()).map_err(|e| Error::input("the sample cannot be written").because(e))
    }
}
