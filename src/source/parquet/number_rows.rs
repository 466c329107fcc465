//! The node above a file scan that adds the file and the position of each row.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::Time;
use futures::future::TryFutureExt;
use futures::stream::{self, StreamExt};
use object_store::ObjectStore;

use super::numbering::{CHUNK_COLUMN, Chunk, Numbering, chunk_of};
use super::pinned::pinned_scan;
use crate::error::Error;
use crate::error::guard::guarded_async;
use crate::plan::{Batches, Description, OperatorExec, Shape, Task, file_scan, only_input};
use crate::source::columns::numbered_schema;
use crate::source::pin::Pins;

/// Turns the scan's chunk column into `source`, `name`, `position` and the partition columns.
///
/// Input: columns, then [`CHUNK_COLUMN`] (UInt32), an index into `chunks`. Output: the columns as `value_0`, `value_1`, ..., then
/// `source` and `name` (Utf8View), `position` (UInt64) and `partition_0`, ... (Utf8View). Partitions and the order of rows stay:
/// the rows are numbered by counting, so nothing below this node may split a chunk, filter it or mix it with others. This node
/// therefore accepts no filter and no limit, and requires no other partitioning.
#[derive(Debug, Clone)]
pub(crate) struct NumberRows {
    /// The chunks that the chunk column names by index.
    pub chunks: Arc<[Chunk]>,
    /// Rows of a full batch of the scan: a shorter one is the last of a chunk.
    pub batch_rows: usize,
}

impl NumberRows {
    /// The rows that are read, if all are known.
    pub(crate) fn rows(&self) -> Option<u64> {
        self.chunks.iter().map(Chunk::expected).sum()
    }
}

impl NumberRows {
    /// Executes a partition over `scan` with the wanted rows of its chunks, which are in an object.
    async fn loaded(
        self,
        scan: Arc<dyn ExecutionPlan>,
        order: Vec<u32>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let (mut chunks, runtime) = (self.chunks.to_vec(), context.runtime_env());
        for index in order {
            if let Some(wanted) = chunks.get_mut(index as usize).and_then(|chunk| chunk.wanted.as_mut()) {
                wanted.rows.load(&runtime).await?;
            }
        }
        let scan = pinned_scan(scan, &runtime, &chunks, None)?;
        let plan = OperatorExec::plan(Self { chunks: chunks.into(), ..self }, vec![scan])?;
        plan.execute(partition, context)
    }
}

impl Description for NumberRows {
    const NAME: &'static str = "NumberRowsExec";

    /// The files as they were when they were listed.
    type Shared = OnceLock<Arc<Pins>>;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunks={}", self.chunks.len())
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> DfResult<Shape> {
        let input = only_input(Self::NAME, inputs)?;
        let inner = input.schema();
        let values = match inner.fields().split_last() {
            Some((last, values)) if last.name() == CHUNK_COLUMN && last.data_type() == &DataType::UInt32 => {
                values
            }
            _ => return Err(Error::bug("a scan without a chunk column cannot be numbered").into()),
        };
        if cut(input) {
            return Err(Error::bug("a scan was cut into pieces whose rows cannot be numbered").into());
        }
        let partition_columns = self.chunks.first().map_or(0, |chunk| chunk.partitions.len());
        let schema = numbered_schema(values.iter().map(|f| f.data_type()), partition_columns);
        let shape = Shape::in_partitions_of(input, schema);
        // Where not all rows are wanted, some are read that are not.
        let reads_all = self.chunks.iter().all(|chunk| chunk.wanted.is_none());
        Ok(if reads_all { shape.row_by_row() } else { shape })
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> DfResult<Batches> {
        let scan = only_input(Self::NAME, task.inputs)?;
        let order = chunk_order(scan, task.partition);
        if order.iter().filter_map(|index| self.chunks.get(*index as usize)).any(Chunk::is_stored) {
            let (number, scan) = (Arc::unwrap_or_clone(self), Arc::clone(scan));
            return Ok(number.loaded(scan, order, task.partition, task.context).try_flatten_stream().boxed());
        }
        let pins = task.shared.get_or_init(|| Pins::new(self.chunks.iter().map(|chunk| &chunk.pin)));
        let context = pins.context(&task.context);
        let input = scan.execute(task.partition, Arc::clone(&context))?;
        let store = match file_scan(scan) {
            Some(scan) => Some(context.runtime_env().object_store(&scan.object_store_url)?),
            None => None,
        };
        let numbering = Numbering::new(Arc::clone(&self.chunks), order, self.batch_rows, task.schema);
        let state = Numbered { input, numbering, elapsed: task.elapsed, store };
        Ok(stream::unfold(Some(state), async |state| state?.next().await).boxed())
    }
}

/// The stream of a partition.
struct Numbered {
    input: SendableRecordBatchStream,
    numbering: Numbering,
    elapsed: Time,
    /// The store of the files; `None` if the input is not a file scan.
    store: Option<Arc<dyn ObjectStore>>,
}

impl Numbered {
    /// The next batch and the rest of the stream, which ends after an error; `None` at the end.
    async fn next(mut self) -> Option<(DfResult<RecordBatch>, Option<Self>)> {
        // A panic of the reader is an error of the file. The reader is not used again.
        let next = guarded_async(self.input.next()).await.unwrap_or_else(|panic| Some(Err(panic.into())));
        match next {
            Some(Ok(batch)) => {
                let timer = self.elapsed.timer();
                let numbered = self.numbering.number(batch);
                timer.done();
                let rest = numbered.is_ok().then_some(self);
                Some((numbered, rest))
            }
            // If the file changed, that is the cause of whatever the reader reports.
            Some(Err(e)) => {
                let changed = check_files(self.store.as_ref(), &self.numbering).await.err();
                Some((Err(changed.unwrap_or_else(|| self.numbering.explain(e))), None))
            }
            None => {
                let checked = check_files(self.store.as_ref(), &self.numbering).await;
                checked.and_then(|()| self.numbering.finish()).err().map(|e| (Err(e), None))
            }
        }
    }
}

/// Checks that the files are still those that were listed.
async fn check_files(store: Option<&Arc<dyn ObjectStore>>, numbering: &Numbering) -> DfResult<()> {
    let Some(store) = store else { return Ok(()) };
    let mut last = None;
    for chunk in numbering.chunks_in_order() {
        if last != Some(&chunk.pin) {
            chunk.pin.check_after_reading(store.as_ref(), &chunk.source).await?;
        }
        last = Some(&chunk.pin);
    }
    Ok(())
}

/// The rows that each partition of a node of [`NumberRows`] reads, in words; `None` for another node.
pub(in crate::source) fn rows_read(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<String>> {
    let NumberRows { chunks, .. } = OperatorExec::<NumberRows>::described(plan.as_ref())?;
    let scan = *plan.children().first()?;
    let read = |partition| {
        let chunks = chunk_order(scan, partition).into_iter().filter_map(|index| chunks.get(index as usize));
        let rows = |chunk: &Chunk| format!("{:?} {} {:?}\n", chunk.source, chunk.first_row, chunk.rows);
        chunks.map(rows).collect()
    };
    Some((0..file_groups(scan).len()).map(read).collect())
}

/// The files of a scan by partition; `None` if the input is not a file scan.
fn file_groups(input: &Arc<dyn ExecutionPlan>) -> &[FileGroup] {
    file_scan(input).map_or(&[], |scan| &scan.file_groups)
}

/// Whether an optimizer has split a file of the scan, so that a chunk occurs twice.
fn cut(input: &Arc<dyn ExecutionPlan>) -> bool {
    let mut seen = HashSet::new();
    !file_groups(input).iter().flat_map(FileGroup::iter).filter_map(chunk_of).all(|chunk| seen.insert(chunk))
}

/// The chunks that a partition of the scan reads, in order.
fn chunk_order(input: &Arc<dyn ExecutionPlan>, partition: usize) -> Vec<u32> {
    file_groups(input)
        .get(partition)
        .map_or_else(Vec::new, |group| group.iter().filter_map(chunk_of).collect())
}
