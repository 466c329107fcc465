//! Copies the values of one leaf column with their definition and repetition levels. Values are interpreted only if they are texts to edit.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::SchemaDescriptor;

use super::blocking::{WINDOW, Waiter, WindowedFile};
use crate::error::{Context, Error, Result};
use crate::kernel::text::common_passages::without_spans;
use crate::parquet_headers::check_pages;
use crate::rewrite::decisions::{Decisions, other_text};
use crate::source::TextPlace;

/// The maximum number of rows per batch.
const BATCH_ROWS: u64 = 8192;
/// The target size of a batch, in bytes.
const BATCH_BYTES: u64 = 4 << 20;

/// The number of bytes that a value takes in memory in addition to its own bytes.
const VALUE_BYTES: u64 = 48;

fn unchanged<T: DataType>(_: &mut LeafBatch<T>) -> Result<()> {
    Ok(())
}

/// Copies the values of a leaf column. If `text` is this leaf column, the values are edited. Fails with `Kind::Input` if values cannot be
/// read or edited, or if the store refuses the file.
pub(super) fn copy(
    copy: &LeafCopy<'_>,
    input: &WindowedFile,
    text: Option<&mut TextLeaf>,
    to: &mut ColumnWriter<'_>,
) -> Result<()> {
    use {ColumnReader as R, ColumnWriter as W};
    let (chunk, reading) = (copy.group.column(copy.leaf), || copy.reading());
    let text = text.filter(|text| text.leaf == copy.leaf);
    let (start, bytes) = chunk.byte_range();
    let first = input.get_bytes(start, bytes.min(WINDOW) as usize).context(reading)?;
    check_pages(&first, usize::MAX, || Some(chunk.clone())).context(reading)?;
    let rows = usize::try_from(copy.group.num_rows()).unwrap_or(usize::MAX);
    let pages = SerializedPageReader::new(Arc::new(input.clone()), chunk, rows, None).context(reading)?;
    match (get_column_reader(chunk.column_descr_ptr(), Box::new(pages)), to) {
        (R::BoolColumnReader(from), W::BoolColumnWriter(to)) => copy.values(from, to, unchanged),
        (R::Int32ColumnReader(from), W::Int32ColumnWriter(to)) => copy.values(from, to, unchanged),
        (R::Int64ColumnReader(from), W::Int64ColumnWriter(to)) => copy.values(from, to, unchanged),
        (R::Int96ColumnReader(from), W::Int96ColumnWriter(to)) => copy.values(from, to, unchanged),
        (R::FloatColumnReader(from), W::FloatColumnWriter(to)) => copy.values(from, to, unchanged),
        (R::DoubleColumnReader(from), W::DoubleColumnWriter(to)) => copy.values(from, to, unchanged),
        (R::ByteArrayColumnReader(from), W::ByteArrayColumnWriter(to)) => match text {
            Some(text) => copy.values(from, to, |batch| text.edit(batch)),
            None => copy.values(from, to, unchanged),
        },
        (R::FixedLenByteArrayColumnReader(from), W::FixedLenByteArrayColumnWriter(to)) => {
            copy.values(from, to, unchanged)
        }
        _ => Err(Error::bug(format!("the column {} is written as another type", chunk.column_path()))),
    }
}

pub(super) struct FileNames<'a> {
    pub source: &'a str,
    pub target: String,
}

impl FileNames<'_> {
    pub(super) fn writing(&self) -> String {
        format!("cannot write {}", self.target)
    }
}

/// A leaf column and the rows to copy from a row group.
pub(super) struct LeafCopy<'a> {
    pub group: &'a RowGroupMetaData,
    /// The position in the file of the row group's first row.
    pub first: u64,
    /// Ranges relative to the start of the row group.
    pub runs: &'a [Range<u64>],
    pub leaf: usize,
    pub names: &'a FileNames<'a>,
}

impl LeafCopy<'_> {
    fn reading(&self) -> String {
        let column = self.group.column(self.leaf).column_path();
        format!("reading the column {column} of {} failed", self.names.source)
    }

    fn values<T: DataType>(
        &self,
        mut from: ColumnReaderImpl<T>,
        to: &mut ColumnWriterImpl<'_, T>,
        mut edit: impl FnMut(&mut LeafBatch<T>) -> Result<()>,
    ) -> Result<()> {
        let reading = || self.reading();
        let mut batch = LeafBatch::<T>::new(to);
        let (full, mut at) = (self.batch_rows(), 0);
        for run in self.runs {
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
                batch.positions.push(self.first + at..self.first + at + wanted);
                (at, batch.rows) = (at + wanted, batch.rows + wanted);
                if batch.rows == full {
                    edit(&mut batch)?;
                    batch.write(to).context(|| self.names.writing())?;
                }
            }
        }
        edit(&mut batch)?;
        batch.write(to).context(|| self.names.writing())
    }

    fn too_few(&self) -> Error {
        let rows = self.group.num_rows();
        Error::input(format!("the column ends before row {rows} of its row group: the file is damaged"))
            .because(Error::input(self.reading()))
    }

    /// Returns the number of rows per batch. The number is small if lists are long.
    fn batch_rows(&self) -> u64 {
        let chunk = self.group.column(self.leaf);
        let of_row = |count: i64| (count.max(0) / self.group.num_rows().max(1)) as u64;
        let row = of_row(chunk.uncompressed_size()).saturating_add(of_row(chunk.num_values()) * VALUE_BYTES);
        (BATCH_BYTES / row.max(1)).clamp(1, BATCH_ROWS)
    }
}

/// A batch of rows, with the levels and the values that are not null.
struct LeafBatch<T: DataType> {
    rows: u64,
    positions: Vec<Range<u64>>,
    /// The definition level of values that are not null.
    max_definition: i16,
    has_repetitions: bool,
    /// The definition levels. Empty if no value can be null.
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    values: Vec<T::T>,
}

impl<T: DataType> LeafBatch<T> {
    fn new(of: &ColumnWriterImpl<'_, T>) -> Self {
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

    /// Reads `rows` rows and appends them. Returns the number of rows that were read. A row begins at each repetition level 0.
    fn read(&mut self, from: &mut ColumnReaderImpl<T>, rows: usize) -> ParquetResult<usize> {
        let definitions = (self.max_definition > 0).then_some(&mut self.definitions);
        let repetitions = self.has_repetitions.then_some(&mut self.repetitions);
        Ok(from.read_records(rows, definitions, repetitions, &mut self.values)?.0)
    }

    fn write(&mut self, to: &mut ColumnWriterImpl<'_, T>) -> ParquetResult<()> {
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

/// The leaf column with the texts of a file.
pub(super) struct TextLeaf {
    pub leaf: usize,
    path: String,
    decisions: Decisions,
    waiter: Waiter,
}

impl TextLeaf {
    /// Finds the leaf column of the texts. Fails with `Kind::Input` if the file has no such text column.
    pub(super) fn find(
        schema: &SchemaDescriptor,
        text: &TextPlace,
        path: &str,
        decisions: Decisions,
        waiter: &Waiter,
    ) -> Result<Self> {
        let TextPlace::Column(name) = text else {
            return Err(Error::bug(format!("the texts of {path} are in no column")));
        };
        // The text is in the column with this name, or in a field of a column. The run finds the text in the same way.
        let is_column = schema.root_schema().get_fields().iter().any(|column| column.name() == name);
        let place: Vec<&str> = if is_column { vec![name] } else { name.split('.').collect() };
        let is_text = |leaf: &usize| {
            let column = schema.column(*leaf);
            column.path().parts() == place
                && column.physical_type() == PhysicalType::BYTE_ARRAY
                && column.max_rep_level() == 0
        };
        match (0..schema.num_columns()).find(is_text) {
            Some(leaf) => Ok(Self { leaf, path: path.to_owned(), decisions, waiter: waiter.clone() }),
            None => Err(Error::input(format!(
                "{path} has no column `{name}` with a text in each row: run the job again with --overwrite, and apply its output"
            ))),
        }
    }

    /// Cuts passages out of a batch of texts. Each row has at most one text.
    fn edit(&mut self, batch: &mut LeafBatch<ByteArrayType>) -> Result<()> {
        let Self { path, decisions, waiter, .. } = self;
        let positions = || batch.positions.iter().cloned().flatten();
        let spans = async {
            let mut found = Vec::new();
            for position in positions() {
                found.push(decisions.at(path, position).await?.cuts);
            }
            Ok(found)
        };
        let spans = waiter.wait(spans)?;
        let mut values = batch.values.iter_mut();
        for (row, (position, spans)) in positions().zip(spans).enumerate() {
            let is_null = batch.definitions.get(row).is_some_and(|level| *level < batch.max_definition);
            let value = if is_null { None } else { values.next() };
            if spans.is_empty() {
                continue;
            }
            let text = value.as_ref().and_then(|value| std::str::from_utf8(value.data()).ok());
            match (text.and_then(|text| without_spans(text, &spans)), value) {
                (Some(cut), Some(value)) => *value = ByteArray::from(cut.into_bytes()),
                _ => return Err(other_text(path, position)),
            }
        }
        Ok(())
    }
}
