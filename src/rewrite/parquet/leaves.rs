//! Copies the values of one leaf of the schema with their definition and repetition levels, without interpreting them, except for
//! texts that are edited.

use std::ops::Range;
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::DataType;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;

use super::batch::{Batch, Edit};
use super::blocking::{Input, WINDOW};
use super::text_leaf::TextLeaf;
use crate::error::{Context, Error, Result};
use crate::parquet_headers::check_pages;

/// The most rows of a batch, and its target size in bytes.
const BATCH_ROWS: u64 = 8192;
const BATCH_BYTES: u64 = 4 << 20;

/// Bytes of memory of a value in addition to its own.
const VALUE_BYTES: u64 = 48;

/// The rows of a row group that are copied, as runs of neighbours, counted from 0.
pub(super) struct Rows<'a> {
    pub group: &'a RowGroupMetaData,
    /// The position of the first row of the row group in the file.
    pub first: u64,
    pub runs: &'a [Range<u64>],
}

/// No change.
struct Unchanged;

impl<T: DataType> Edit<T> for Unchanged {
    fn edit(&mut self, _: &mut Batch<T>) -> Result<()> {
        Ok(())
    }
}

/// Copies the values that leaf `leaf` has in `rows`, the texts of `text` with its edits.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if they cannot be read or edited, or the store refuses them.
pub(super) fn copy(
    input: &Input,
    rows: &Rows<'_>,
    (leaf, text): (usize, Option<&mut TextLeaf>),
    to: &mut ColumnWriter<'_>,
    names: &Names<'_>,
) -> Result<()> {
    use {ColumnReader as R, ColumnWriter as W};
    let chunk = rows.group.column(leaf);
    let text = text.filter(|text| text.leaf == leaf);
    let (start, bytes) = chunk.byte_range();
    let first = input.get_bytes(start, bytes.min(WINDOW) as usize).context(|| names.reading(rows, leaf))?;
    check_pages(&first, usize::MAX).context(|| names.reading(rows, leaf))?;
    let pages = SerializedPageReader::new(
        Arc::new(input.clone()),
        chunk,
        usize::try_from(rows.group.num_rows()).unwrap_or(usize::MAX),
        None,
    );
    let pages = pages.context(|| names.reading(rows, leaf))?;
    let copy = Copy { rows, leaf, names };
    match (get_column_reader(chunk.column_descr_ptr(), Box::new(pages)), to) {
        (R::BoolColumnReader(from), W::BoolColumnWriter(to)) => copy.values(from, to, &mut Unchanged),
        (R::Int32ColumnReader(from), W::Int32ColumnWriter(to)) => copy.values(from, to, &mut Unchanged),
        (R::Int64ColumnReader(from), W::Int64ColumnWriter(to)) => copy.values(from, to, &mut Unchanged),
        (R::Int96ColumnReader(from), W::Int96ColumnWriter(to)) => copy.values(from, to, &mut Unchanged),
        (R::FloatColumnReader(from), W::FloatColumnWriter(to)) => copy.values(from, to, &mut Unchanged),
        (R::DoubleColumnReader(from), W::DoubleColumnWriter(to)) => copy.values(from, to, &mut Unchanged),
        (R::ByteArrayColumnReader(from), W::ByteArrayColumnWriter(to)) => match text {
            Some(text) => copy.values(from, to, text),
            None => copy.values(from, to, &mut Unchanged),
        },
        (R::FixedLenByteArrayColumnReader(from), W::FixedLenByteArrayColumnWriter(to)) => {
            copy.values(from, to, &mut Unchanged)
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
        edit: &mut impl Edit<T>,
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
                batch.positions.push(self.rows.first + at..self.rows.first + at + wanted);
                (at, batch.rows) = (at + wanted, batch.rows + wanted);
                if batch.rows == full {
                    edit.edit(&mut batch)?;
                    batch.write(to).context(|| self.names.writing())?;
                }
            }
        }
        edit.edit(&mut batch)?;
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
