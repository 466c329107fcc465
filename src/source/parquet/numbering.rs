//! Chunks of files, and the positions of their rows, which are counted as they come.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch,
    RecordBatchOptions, StringViewBuilder, UInt64Builder,
};
use arrow::compute::filter;
use arrow::datatypes::{SchemaRef, UInt32Type};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::scalar::ScalarValue;
use serde::{Deserialize, Serialize};

use crate::error::{Context, Error};
use crate::source::pin::Pin;
use crate::source::selection::RowSet;

/// The scan's last column: the index of the [`Chunk`] that a row is from.
pub(crate) const CHUNK_COLUMN: &str = "__resemblance_chunk";

/// Neighbouring rows of one file, which one partition reads in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// The file's path, as tables have it.
    pub source: Arc<str>,
    /// The file's path relative to the folder of its URL.
    pub name: Arc<str>,
    /// The number of the first row in its file, from 0.
    pub first_row: u64,
    /// The number of rows; `None` if it is not known before they are read.
    pub rows: Option<u64>,
    /// The rows that are read; `None` for all.
    pub wanted: Option<WantedRows>,
    /// The file as it was listed.
    pub pin: Pin,
    /// The values of the partition columns.
    pub partitions: Vec<Option<String>>,
}

/// Rows of a chunk that are read, where not all are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WantedRows {
    /// Their numbers in the file, from 0.
    pub rows: RowSet,
    /// Rows of the whole file.
    pub file_rows: u64,
}

/// Gaps of fewer rows between wanted ones are read with them. The reader of Parquet decodes such gaps in any case, and each run
/// of rows takes memory for as long as the plan is there: without this, 32 bytes for each wanted row.
const READ_GAP: u64 = 32;

impl WantedRows {
    /// The first run of rows from `row` on that is read.
    pub(super) fn next_read(&self, row: u64) -> Option<Range<u64>> {
        self.rows.near_run(row, READ_GAP)
    }
}

impl Chunk {
    /// Whether the rows that are read must be loaded.
    pub(super) fn is_stored(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.rows.is_stored())
    }

    /// The number of rows that are read; `None` if it is not known before.
    pub(super) fn expected(&self) -> Option<u64> {
        self.wanted.as_ref().map(|wanted| wanted.rows.count()).or(self.rows)
    }
}

/// The index of the chunk of a file in a scan.
pub(super) fn chunk_of(file: &PartitionedFile) -> Option<u32> {
    match file.partition_values.last() {
        Some(ScalarValue::UInt32(chunk)) => *chunk,
        _ => None,
    }
}

/// Counts the rows of one partition.
pub(super) struct Numbering {
    chunks: Arc<[Chunk]>,
    /// The chunks of this partition in the order in which they are read.
    order: Vec<u32>,
    batch_rows: usize,
    schema: SchemaRef,
    /// The chunk that is being read and the number of its rows so far.
    at: Option<(u32, u64)>,
    /// Rows of the last batch.
    last_batch: usize,
    /// The position after the last row.
    next_row: u64,
    /// The end of the run of rows that is being read, where not all are.
    run_end: u64,
}

impl Numbering {
    /// The beginning of a partition that reads `chunks` in this `order`.
    pub(super) fn new(chunks: Arc<[Chunk]>, order: Vec<u32>, batch_rows: usize, schema: SchemaRef) -> Self {
        Self { chunks, order, batch_rows, schema, at: None, last_batch: 0, next_row: 0, run_end: 0 }
    }

    /// The partition's chunks.
    pub(super) fn chunks_in_order(&self) -> impl Iterator<Item = &Chunk> {
        self.order.iter().filter_map(|index| self.chunks.get(*index as usize))
    }

    fn chunk(&self, index: u32) -> DfResult<&Chunk> {
        self.chunks.get(index as usize).ok_or_else(|| {
            Error::bug(format!("there is no chunk {index} among {}", self.chunks.len())).into()
        })
    }

    /// Replaces the chunk column of `batch` by the origins of its rows.
    pub(super) fn number(&mut self, batch: RecordBatch) -> DfResult<RecordBatch> {
        let rows = batch.num_rows();
        let (_, mut columns, _) = batch.into_parts();
        let Some(indices) = columns.pop() else {
            return Err(Error::bug("a scan has no chunk column").into());
        };
        let Some(indices) = indices.as_primitive_opt::<UInt32Type>() else {
            return Err(Error::bug(format!("the chunk column is of type {}", indices.data_type())).into());
        };
        let mut sources = StringViewBuilder::with_capacity(rows);
        let mut names = StringViewBuilder::with_capacity(rows);
        let mut positions = UInt64Builder::with_capacity(rows);
        let partition_columns = self.chunks.first().map_or(0, |chunk| chunk.partitions.len());
        let mut partitions: Vec<_> =
            (0..partition_columns).map(|_| StringViewBuilder::with_capacity(rows)).collect();
        let mut kept = BooleanBufferBuilder::new(rows);
        let mut row = 0;
        while row < rows {
            let index = indices.value(row);
            let run = indices.values()[row..].iter().take_while(|i| **i == index).count();
            let seen = self.enter(index)?;
            let chunk = self.chunk(index)?;
            let (mut next, mut run_end) = match seen {
                0 => (chunk.first_row, 0),
                _ => (self.next_row, self.run_end),
            };
            let before = positions.len();
            match &chunk.wanted {
                None => {
                    for position in next..next + run as u64 {
                        positions.append_value(position);
                    }
                    kept.append_n(run, true);
                    next += run as u64;
                }
                Some(wanted) => {
                    for _ in 0..run {
                        if next >= run_end {
                            let Some(read) = wanted.next_read(next) else {
                                let why = format!("{} has more rows than were wanted", chunk.source);
                                return Err(Error::bug(why).into());
                            };
                            (next, run_end) = (read.start, read.end);
                        }
                        let is_wanted = wanted.rows.contains(next);
                        if is_wanted {
                            positions.append_value(next);
                        }
                        kept.append(is_wanted);
                        next += 1;
                    }
                }
            }
            let count = positions.len() - before;
            sources.try_append_value_n(&*chunk.source, count)?;
            names.try_append_value_n(&*chunk.name, count)?;
            for (builder, value) in partitions.iter_mut().zip(&chunk.partitions) {
                match value {
                    Some(value) => builder.try_append_value_n(value, count)?,
                    None => (0..count).for_each(|_| builder.append_null()),
                }
            }
            (self.next_row, self.run_end) = (next, run_end);
            self.at = Some((index, seen + count as u64));
            row += run;
        }
        if rows > 0 {
            self.last_batch = rows;
        }
        let kept = BooleanArray::new(kept.build(), None);
        let rows = positions.len();
        if rows < kept.len() {
            columns = columns.iter().map(|column| filter(column, &kept)).collect::<Result<_, _>>()?;
        }
        columns.push(Arc::new(sources.finish()) as ArrayRef);
        columns.push(Arc::new(names.finish()));
        columns.push(Arc::new(positions.finish()));
        columns.extend(partitions.iter_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// The number of rows of chunk `index` so far. Another chunk that was being read must be complete.
    fn enter(&self, index: u32) -> DfResult<u64> {
        match self.at {
            Some((current, seen)) if current == index => Ok(seen),
            _ => {
                self.finish()?;
                Ok(0)
            }
        }
    }

    /// Checks that the chunk being read has the expected number of rows.
    pub(super) fn finish(&self) -> DfResult<()> {
        let Some((index, seen)) = self.at else { return Ok(()) };
        let chunk = self.chunk(index)?;
        match chunk.expected() {
            Some(rows) if rows != seen => Err(Error::input(format!(
                "{} has {seen} rows where its footer says {rows}: the file is damaged, restore it",
                chunk.source
            ))
            .into()),
            _ => Ok(()),
        }
    }

    /// Adds the file that was being read to the error of a scan.
    pub(super) fn explain(&self, error: DataFusionError) -> DataFusionError {
        Err::<(), _>(error)
            .context(|| self.place())
            .err()
            .map_or_else(|| Error::bug("an error without a cause").into(), DataFusionError::from)
    }

    /// The file that was being read, or the two possible ones.
    fn place(&self) -> String {
        let name = |index: u32| self.chunks.get(index as usize).map_or("a file", |chunk| &*chunk.source);
        let at = match self.at {
            None => None,
            Some((index, _)) => self.order.iter().position(|i| *i == index),
        };
        let next = self.order.get(at.map_or(0, |at| at + 1)).map(|i| name(*i));
        let Some((index, seen)) = self.at else {
            return match next {
                Some(next) => format!("reading {next} failed"),
                None => "reading the input failed".to_owned(),
            };
        };
        let current = self.chunks.get(index as usize);
        let first = current.map_or(0, |chunk| chunk.first_row);
        let ended = match current.and_then(Chunk::expected) {
            Some(rows) => seen >= rows,
            None => self.last_batch < self.batch_rows,
        };
        match next {
            Some(next) if ended => format!("reading {next} failed"),
            Some(next) if current.is_some_and(|chunk| chunk.rows.is_none()) => {
                format!("reading {} failed after {} rows, or {next} at its start", name(index), first + seen)
            }
            _ => format!("reading {} failed after {} rows", name(index), first + seen),
        }
    }
}
