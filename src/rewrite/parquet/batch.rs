//! Batches of rows of one leaf, which may be changed before they are written.

use std::ops::Range;

use parquet::column::reader::ColumnReaderImpl;
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::DataType;
use parquet::errors::Result as ParquetResult;

use crate::error::Result;

/// A change to the values of a leaf.
pub(super) trait Edit<T: DataType> {
    /// Changes a batch of rows.
    ///
    /// # Errors
    /// When the values are not what they should be.
    fn edit(&mut self, batch: &mut Batch<T>) -> Result<()>;
}

/// A batch of rows: the levels that the column has, and the values that are not null.
pub(super) struct Batch<T: DataType> {
    pub rows: u64,
    /// The positions of the rows in the file.
    pub positions: Vec<Range<u64>>,
    /// The definition level of a value that is not null.
    pub max_definition: i16,
    has_repetitions: bool,
    /// None if no value can be null.
    pub definitions: Vec<i16>,
    repetitions: Vec<i16>,
    pub values: Vec<T::T>,
}

impl<T: DataType> Batch<T> {
    pub(super) fn new(of: &ColumnWriterImpl<'_, T>) -> Self {
        let column = of.get_descriptor();
        Self {
            rows: 0,
            positions: Vec::new(),
            max_definition: column.max_def_level(),
            has_repetitions: column.max_rep_level() > 0,
            definitions: Vec::new(),
            repetitions: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Appends rows. A row begins where the repetition level is 0.
    pub(super) fn read(&mut self, from: &mut ColumnReaderImpl<T>, rows: usize) -> ParquetResult<usize> {
        let definitions = (self.max_definition > 0).then_some(&mut self.definitions);
        let repetitions = self.has_repetitions.then_some(&mut self.repetitions);
        Ok(from.read_records(rows, definitions, repetitions, &mut self.values)?.0)
    }

    /// Writes the rows, and clears the batch.
    pub(super) fn write(&mut self, to: &mut ColumnWriterImpl<'_, T>) -> ParquetResult<()> {
        if self.rows > 0 {
            let definitions = (self.max_definition > 0).then_some(self.definitions.as_slice());
            let repetitions = self.has_repetitions.then_some(self.repetitions.as_slice());
            to.write_batch(&self.values, definitions, repetitions)?;
        }
        self.rows = 0;
        self.positions.clear();
        self.definitions.clear();
        self.repetitions.clear();
        self.values.clear();
        Ok(())
    }
}
