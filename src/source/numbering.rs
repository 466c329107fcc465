//! Chunks of files that are read in one go, and the numbers that their rows have, by counting them as they come.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringViewBuilder, UInt64Builder,
};
use arrow::datatypes::{SchemaRef, UInt32Type};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;
use serde::{Deserialize, Serialize};

use super::pin::Pin;
use super::selection::RowSet;
use crate::error::{Context, Error};

/// The scan's last column: the index of the [`Chunk`] that a row is from.
pub(crate) const CHUNK_COLUMN: &str = "__resemblance_chunk";

/// A run of rows of one file that is read in one go, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// The file's path, as the user would write it.
    pub source: Arc<str>,
    /// The file's path relative to the folder of its URL.
    pub name: Arc<str>,
    /// The number of the first row in its file, from 0.
    pub first_row: u64,
    /// How many rows there are, of which only some may be `wanted`; `None` if nothing but reading tells.
    pub rows: Option<u64>,
    /// The rows that are read, where not all are.
    pub wanted: Option<Wanted>,
    /// Where the file is, and what it was when it was listed.
    pub pin: Pin,
}

/// Rows of a chunk that are read, where not all are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// Their numbers in the file, from 0.
    pub rows: RowSet,
    /// Rows of the whole file.
    pub file_rows: u64,
}

impl Chunk {
    /// How many rows are read of it; `None` if nothing but reading tells.
    fn expected(&self) -> Option<u64> {
        self.wanted.as_ref().map(|wanted| wanted.rows.count()).or(self.rows)
    }
}

/// The chunk that a file of a scan is, or a part of it.
pub(super) fn chunk_of(file: &PartitionedFile) -> Option<u32> {
    match file.partition_values.last() {
        Some(ScalarValue::UInt32(chunk)) => *chunk,
        _ => None,
    }
}

/// The scan of files that a node is, if it is one.
pub(crate) fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// The counting of one partition's rows.
pub(super) struct Numbering {
    chunks: Arc<[Chunk]>,
    /// The chunks of this partition in the order in which they are read.
    order: Vec<u32>,
    batch_rows: usize,
    schema: SchemaRef,
    /// The chunk that is being read and how many of its rows have come.
    at: Option<(u32, u64)>,
    /// Rows of the last batch.
    last_batch: usize,
    /// The number of the row behind the last one that came.
    next_row: u64,
}

impl Numbering {
    /// Nothing read yet of a partition whose `order` of `chunks` this is.
    pub(super) fn new(chunks: Arc<[Chunk]>, order: Vec<u32>, batch_rows: usize, schema: SchemaRef) -> Self {
        Self { chunks, order, batch_rows, schema, at: None, last_batch: 0, next_row: 0 }
    }

    /// The partition's chunks.
    pub(super) fn chunks_in_order(&self) -> impl Iterator<Item = &Chunk> {
        self.order.iter().filter_map(|index| self.chunks.get(*index as usize))
    }

    fn chunk(&self, index: u32) -> DfResult<&Chunk> {
        self.chunks
            .get(index as usize)
            .ok_or_else(|| Error::bug(format!("chunk {index} of {} was read", self.chunks.len())).into())
    }

    /// `batch` with its rows' origins.
    pub(super) fn number(&mut self, batch: RecordBatch) -> DfResult<RecordBatch> {
        let rows = batch.num_rows();
        let (_, mut columns, _) = batch.into_parts();
        let Some(indices) = columns.pop() else {
            return Err(Error::bug("a scan came without its chunk column").into());
        };
        let Some(indices) = indices.as_primitive_opt::<UInt32Type>() else {
            return Err(Error::bug(format!("the chunk column came as {}", indices.data_type())).into());
        };
        let mut sources = StringViewBuilder::with_capacity(rows);
        let mut names = StringViewBuilder::with_capacity(rows);
        let mut positions = UInt64Builder::with_capacity(rows);
        let mut row = 0;
        while row < rows {
            let index = indices.value(row);
            let run = indices.values()[row..].iter().take_while(|i| **i == index).count();
            let seen = self.enter(index)?;
            let chunk = self.chunk(index)?;
            sources.try_append_value_n(&*chunk.source, run)?;
            names.try_append_value_n(&*chunk.name, run)?;
            let mut next = if seen == 0 { chunk.first_row } else { self.next_row };
            match &chunk.wanted {
                None => {
                    for position in next..next + run as u64 {
                        positions.append_value(position);
                    }
                    next += run as u64;
                }
                Some(wanted) => {
                    for _ in 0..run {
                        let Some(position) = wanted.rows.next(next) else {
                            let said = format!("{} gave more rows than expected", chunk.source);
                            return Err(Error::bug(said).into());
                        };
                        positions.append_value(position);
                        next = position + 1;
                    }
                }
            }
            self.next_row = next;
            self.at = Some((index, seen + run as u64));
            row += run;
        }
        if rows > 0 {
            self.last_batch = rows;
        }
        columns.push(Arc::new(sources.finish()) as ArrayRef);
        columns.push(Arc::new(names.finish()));
        columns.push(Arc::new(positions.finish()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Rows of chunk `index` that have come before; the chunk before it must be complete.
    fn enter(&self, index: u32) -> DfResult<u64> {
        match self.at {
            Some((current, seen)) if current == index => Ok(seen),
            _ => {
                self.finish()?;
                Ok(0)
            }
        }
    }

    /// Whether the chunk being read had as many rows as its file said.
    pub(super) fn finish(&self) -> DfResult<()> {
        let Some((index, seen)) = self.at else { return Ok(()) };
        let chunk = self.chunk(index)?;
        match chunk.expected() {
            Some(rows) if rows != seen => Err(Error::input(format!(
                "{} gave {seen} rows instead of {rows}: was it written to while it was read?",
                chunk.source
            ))
            .into()),
            _ => Ok(()),
        }
    }

    /// What was being read when the scan failed.
    pub(super) fn explain(&self, error: DataFusionError) -> DataFusionError {
        Err::<(), _>(error)
            .context(|| self.place())
            .err()
            .map_or_else(|| Error::bug("an error was lost").into(), DataFusionError::from)
    }

    /// The file that was being read, or the two that it can have been.
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
