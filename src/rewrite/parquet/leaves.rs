//! Copies the values of one leaf of the schema with their definition and repetition levels, without interpreting them.

use std::ops::Range;
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::DataType;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use super::blocking::Input;
use crate::error::{Context, Error, Result};

/// The most rows of a batch, and its target size in bytes.
const BATCH_ROWS: u64 = 8192;
const BATCH_BYTES: u64 = 4 << 20;

/// Bytes of memory of a value in addition to its own.
const VALUE_BYTES: u64 = 48;

/// The rows of a row group that are copied, as runs of neighbours, counted from 0.
pub(super) struct Rows<'a> {
    pub group: &'a RowGroupMetaData,
    pub runs: &'a [Range<u64>],
}

/// Copies the values that leaf `leaf` has in `rows`.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if they cannot be read, or the store refuses them.
pub(super) fn copy(
    input: &Input,
    rows: &Rows<'_>,
    leaf: usize,
    to: &mut ColumnWriter<'_>,
    names: &Names<'_>,
) -> Result<()> {
    use {ColumnReader as R, ColumnWriter as W};
    let chunk = rows.group.column(leaf);
    let pages = SerializedPageReader::new(
        Arc::new(input.clone()),
        chunk,
        usize::try_from(rows.group.num_rows()).unwrap_or(usize::MAX),
        None,
    );
    let pages = pages.context(|| names.reading(rows, leaf))?;
    let copy = Copy { rows, leaf, names };
    match (get_column_reader(chunk.column_descr_ptr(), Box::new(pages)), to) {
        (R::BoolColumnReader(from), W::BoolColumnWriter(to)) => copy.values(from, to),
        (R::Int32ColumnReader(from), W::Int32ColumnWriter(to)) => copy.values(from, to),
        (R::Int64ColumnReader(from), W::Int64ColumnWriter(to)) => copy.values(from, to),
        (R::Int96ColumnReader(from), W::Int96ColumnWriter(to)) => copy.values(from, to),
        (R::FloatColumnReader(from), W::FloatColumnWriter(to)) => copy.values(from, to),
        (R::DoubleColumnReader(from), W::DoubleColumnWriter(to)) => copy.values(from, to),
        (R::ByteArrayColumnReader(from), W::ByteArrayColumnWriter(to)) => copy.values(from, to),
        (R::FixedLenByteArrayColumnReader(from), W::FixedLenByteArrayColumnWriter(to)) => {
            copy.values(from, to)
        }
        _ => Err(Error::bug(format!("the column {} is written as another type", chunk.column_path()))),
    }
}

/// The name of the files in errors.
pub(super) struct Names<'a> {
    pub source: &'a str,
    pub target: String,
}

impl Names<'_> {
    pub(super) fn writing(&self) -> String {
        format!("cannot write {}", self.target)
    }

    fn reading(&self, rows: &Rows<'_>, leaf: usize) -> String {
        format!("reading the column {} of {} failed", rows.group.column(leaf).column_path(), self.source)
    }
}

struct Copy<'a> {
    rows: &'a Rows<'a>,
    leaf: usize,
    names: &'a Names<'a>,
}

impl Copy<'_> {
    fn values<T: DataType>(
        &self,
        mut from: ColumnReaderImpl<T>,
        to: &mut ColumnWriterImpl<'_, T>,
    ) -> Result<()> {
        let reading = || self.names.reading(self.rows, self.leaf);
        let mut batch = Batch::<T>::new(to);
        let (full, mut at) = (self.batch_rows(), 0);
        for run in self.rows.runs {
            let skipped = from.skip_records((run.start - at) as usize).context(reading)?;
            if skipped as u64 != run.start - at {
                return Err(self.too_few());
            }
            at = run.start;
            while at < run.end {
                let wanted = (run.end - at).min(full - batch.rows);
                let read = batch.read(&mut from, wanted as usize).context(reading)?;
                if read as u64 != wanted {
                    return Err(self.too_few());
                }
                (at, batch.rows) = (at + wanted, batch.rows + wanted);
                if batch.rows == full {
                    batch.write(to).context(|| self.names.writing())?;
                }
            }
        }
        batch.write(to).context(|| self.names.writing())
    }

    fn too_few(&self) -> Error {
        let rows = self.rows.group.num_rows();
        Error::input(format!("the column ends before row {rows} of its row group: the file is damaged"))
            .because(Error::input(self.names.reading(self.rows, self.leaf)))
    }

    /// Rows of a batch, few enough that it is small even if lists are long.
    fn batch_rows(&self) -> u64 {
        let chunk = self.rows.group.column(self.leaf);
        let of_row = |count: i64| (count.max(0) / self.rows.group.num_rows().max(1)) as u64;
        let row = of_row(chunk.uncompressed_size()).saturating_add(of_row(chunk.num_values()) * VALUE_BYTES);
        (BATCH_BYTES / row.max(1)).clamp(1, BATCH_ROWS)
    }
}

/// A batch of rows: the levels that the column has, and the values that are not null.
struct Batch<T: DataType> {
    rows: u64,
    has_definitions: bool,
    has_repetitions: bool,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    values: Vec<T::T>,
}

impl<T: DataType> Batch<T> {
    fn new(of: &ColumnWriterImpl<'_, T>) -> Self {
        let column = of.get_descriptor();
        Self {
            rows: 0,
            has_definitions: column.max_def_level() > 0,
            has_repetitions: column.max_rep_level() > 0,
            definitions: Vec::new(),
            repetitions: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Appends rows. A row begins where the repetition level is 0.
    fn read(&mut self, from: &mut ColumnReaderImpl<T>, rows: usize) -> ParquetResult<usize> {
        let definitions = self.has_definitions.then_some(&mut self.definitions);
        let repetitions = self.has_repetitions.then_some(&mut self.repetitions);
        Ok(from.read_records(rows, definitions, repetitions, &mut self.values)?.0)
    }

    /// Writes the rows, and clears the batch.
    fn write(&mut self, to: &mut ColumnWriterImpl<'_, T>) -> ParquetResult<()> {
        if self.rows > 0 {
            let definitions = self.has_definitions.then_some(self.definitions.as_slice());
            let repetitions = self.has_repetitions.then_some(self.repetitions.as_slice());
            to.write_batch(&self.values, definitions, repetitions)?;
        }
        self.rows = 0;
        self.definitions.clear();
        self.repetitions.clear();
        self.values.clear();
        Ok(())
    }
}
