//! The node above a file scan that says of each row where it stood.

use std::collections::HashSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringViewBuilder, UInt64Builder,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    PlanProperties, ReplaceChildrenOptions,
};
use datafusion::scalar::ScalarValue;
use futures::future::FutureExt;
use futures::stream::{self, StreamExt};
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};

use super::footer::panicked;
use super::pin::{Pin, Pins};
use super::selection::RowSet;
use crate::error::{Context, Error};

/// The scan's last column: the index of the [`Chunk`] that a row is from.
pub const CHUNK_COLUMN: &str = "__resemblance_chunk";

/// A run of rows of one file that is read in one go, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The file's path, as the user would write it.
    pub source: Arc<str>,
    /// The file's path relative to the folder of its URL.
    pub name: Arc<str>,
    /// The number of the first row in its file, from 0.
    pub first_row: u64,
    /// How many rows there are, of which only some may be `wanted`; none where nothing but reading tells.
    pub rows: Option<u64>,
    /// The rows that are read, where not all are.
    pub wanted: Option<Wanted>,
    /// Where the file is, and what it was when it was listed.
    pub pin: Pin,
}

/// Rows of a chunk that are read, where not all are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Their numbers in the file, from 0.
    pub rows: RowSet,
    /// Rows of the whole file.
    pub file_rows: u64,
}

impl Chunk {
    /// How many rows are read of it; none where nothing but reading tells.
    fn expected(&self) -> Option<u64> {
        self.wanted.as_ref().map(|wanted| wanted.rows.count()).or(self.rows)
    }
}

/// Turns the scan's chunk column into `source`, `name` and `position`.
///
/// Input: columns, then [`CHUNK_COLUMN`] (UInt32). Output: the columns as `value_0`, `value_1`, ..., then `source` and
/// `name` (Utf8View) and `position` (UInt64). Partitions and the order of rows stay: the rows are numbered by counting, so
/// nothing below this node may split a chunk, filter it or mix it with others. This node therefore takes no filter and
/// no limit, and asks for no other partitions.
#[derive(Debug, Clone)]
pub struct NumberRowsExec {
    input: Arc<dyn ExecutionPlan>,
    chunks: Arc<[Chunk]>,
    /// Rows of a full batch of the scan: a shorter one is a chunk's last.
    batch_rows: usize,
    pins: Arc<Pins>,
    metrics: ExecutionPlanMetricsSet,
    properties: Arc<PlanProperties>,
}

impl NumberRowsExec {
    /// The node above `input`, whose last column is an index into `chunks`.
    pub fn try_new(input: Arc<dyn ExecutionPlan>, chunks: Arc<[Chunk]>, batch_rows: usize) -> DfResult<Self> {
        let inner = input.schema();
        match inner.fields().last() {
            Some(last) if last.name() == CHUNK_COLUMN && last.data_type() == &DataType::UInt32 => {}
            _ => return Err(Error::bug("a scan without a chunk column cannot be numbered").into()),
        }
        if cut(input.as_ref()) {
            return Err(Error::bug("a scan was cut into pieces whose rows cannot be numbered").into());
        }
        let values = &inner.fields()[..inner.fields().len() - 1];
        let properties = PlanProperties::new(
            EquivalenceProperties::new(numbered_schema(values.iter().map(|f| f.data_type()))),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        )
        .with_scheduling_type(input.properties().scheduling_type);
        let pins = Pins::new(chunks.iter().map(|chunk| &chunk.pin));
        Ok(Self {
            input,
            chunks,
            batch_rows,
            pins,
            metrics: ExecutionPlanMetricsSet::new(),
            properties: Arc::new(properties),
        })
    }

    /// What the chunk column points into.
    pub fn chunks(&self) -> &Arc<[Chunk]> {
        &self.chunks
    }

    /// Rows of a full batch of the scan.
    pub fn batch_rows(&self) -> usize {
        self.batch_rows
    }
}

/// The schema of numbered rows with values of these types.
pub(super) fn numbered_schema<'a>(values: impl Iterator<Item = &'a DataType>) -> SchemaRef {
    let mut fields: Vec<Field> =
        values.enumerate().map(|(i, t)| Field::new(value_name(i), t.clone(), true)).collect();
    fields.push(Field::new("source", DataType::Utf8View, false));
    fields.push(Field::new("name", DataType::Utf8View, false));
    fields.push(Field::new("position", DataType::UInt64, false));
    Arc::new(Schema::new(fields))
}

/// The i-th value's name: the files' own names could be `source` or `position`.
pub(super) fn value_name(i: usize) -> String {
    format!("value_{i}")
}

impl DisplayAs for NumberRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "NumberRowsExec: chunks={}", self.chunks.len())
    }
}

impl ExecutionPlan for NumberRowsExec {
    fn name(&self) -> &'static str {
        "NumberRowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = only_child(children)?;
        Ok(Arc::new(Self::try_new(input, Arc::clone(&self.chunks), self.batch_rows)?))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let context = self.pins.context(&context);
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let end = End {
            store: match file_scan(self.input.as_ref()) {
                Some(scan) => Some(context.runtime_env().object_store(&scan.object_store_url)?),
                None => None,
            },
        };
        let count = Count {
            chunks: Arc::clone(&self.chunks),
            order: chunk_order(self.input.as_ref(), partition),
            batch_rows: self.batch_rows,
            schema: self.schema(),
            at: None,
            last_batch: 0,
            next_row: 0,
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let numbered = stream::unfold(Some((input, count, metrics, end)), |state| async move {
            let (mut input, mut count, metrics, end) = state?;
            // What a damaged file makes a reader do is that file's error: nothing of the reader is used after it.
            let next = AssertUnwindSafe(input.next())
                .catch_unwind()
                .await
                .unwrap_or_else(|panic| Some(Err(Error::input(panicked(panic.as_ref())).into())));
            match next {
                Some(Ok(batch)) => {
                    let timer = metrics.elapsed_compute().timer();
                    let numbered = count.number(batch);
                    timer.done();
                    match numbered {
                        Ok(batch) => {
                            metrics.record_output(batch.num_rows());
                            Some((Ok(batch), Some((input, count, metrics, end))))
                        }
                        Err(e) => Some((Err(e), None)),
                    }
                }
                // What a reader makes of a file that changes is not what is wrong with it.
                Some(Err(e)) => {
                    Some((Err(end.check(&count).await.err().unwrap_or_else(|| count.explain(e))), None))
                }
                None => match count.finish() {
                    Ok(()) => end.check(&count).await.err().map(|e| (Err(e), None)),
                    Err(e) => Some((Err(e), None)),
                },
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), numbered)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

/// The one child of a unary node.
pub(super) fn only_child(children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
    match <[_; 1]>::try_from(children) {
        Ok([child]) => Ok(child),
        Err(children) => {
            Err(Error::bug(format!("a unary node was given {} children", children.len())).into())
        }
    }
}

fn file_scan(input: &dyn ExecutionPlan) -> Option<&FileScanConfig> {
    input.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()
}

/// The files of a scan by partition; none where the input is no file scan.
fn file_groups(input: &dyn ExecutionPlan) -> &[FileGroup] {
    file_scan(input).map_or(&[], |scan| &scan.file_groups)
}

/// The chunk that a file of a scan is, or a part of it.
pub(super) fn chunk_of(file: &PartitionedFile) -> Option<u32> {
    match file.partition_values.last() {
        Some(ScalarValue::UInt32(chunk)) => *chunk,
        _ => None,
    }
}

/// Whether a scan reads a chunk in more than one go, as it does where an optimizer has split its file.
fn cut(input: &dyn ExecutionPlan) -> bool {
    let mut seen = HashSet::new();
    !file_groups(input).iter().flat_map(FileGroup::iter).filter_map(chunk_of).all(|chunk| seen.insert(chunk))
}

/// The chunks that a partition of the scan reads, in order.
fn chunk_order(input: &dyn ExecutionPlan, partition: usize) -> Vec<u32> {
    file_groups(input)
        .get(partition)
        .map_or_else(Vec::new, |group| group.iter().filter_map(chunk_of).collect())
}

/// What is done when a partition's last row has come.
struct End {
    /// The store of the files; none where the input is no file scan.
    store: Option<Arc<dyn ObjectStore>>,
}

impl End {
    /// Whether the files are still those that were listed: a disk does not say so by itself.
    async fn check(&self, count: &Count) -> DfResult<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let chunks = count.order.iter().filter_map(|index| count.chunks.get(*index as usize));
        let mut last = None;
        for chunk in chunks.filter(|chunk| chunk.pin.e_tag.is_none()) {
            if last != Some(&chunk.pin) {
                chunk
                    .pin
                    .check(store.as_ref())
                    .await
                    .context(|| format!("reading {} failed", chunk.source))?;
            }
            last = Some(&chunk.pin);
        }
        Ok(())
    }
}

/// The counting of one partition's rows.
struct Count {
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

impl Count {
    fn chunk(&self, index: u32) -> DfResult<&Chunk> {
        self.chunks
            .get(index as usize)
            .ok_or_else(|| Error::bug(format!("chunk {index} of {} was read", self.chunks.len())).into())
    }

    /// `batch` with its rows' origins.
    fn number(&mut self, batch: RecordBatch) -> DfResult<RecordBatch> {
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
                            let said = format!("{} gave more rows than are wanted of it", chunk.source);
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
    fn finish(&self) -> DfResult<()> {
        let Some((index, seen)) = self.at else { return Ok(()) };
        let chunk = self.chunk(index)?;
        match chunk.expected() {
            Some(rows) if rows != seen => Err(Error::input(format!(
                "{} gave {seen} rows where {rows} were announced: was it written to while it was read?",
                chunk.source
            ))
            .into()),
            _ => Ok(()),
        }
    }

    /// What was being read when the scan failed.
    fn explain(&self, error: DataFusionError) -> DataFusionError {
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
