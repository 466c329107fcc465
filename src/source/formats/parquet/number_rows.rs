//! The node above a Parquet scan that adds the file and the position of each row.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions};
use arrow::compute::filter;
use arrow::datatypes::{DataType, SchemaRef, UInt32Type};
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::Time;
use futures::future::TryFutureExt;
use futures::stream::{self, StreamExt};
use object_store::ObjectStore;
use serde::{Deserialize, Serialize};

use super::reader::{pinned_scan, split_index};
use crate::error::counts::{count, counted};
use crate::error::guard::guarded_async;
use crate::error::{Context, Error};
use crate::plan::{Batches, Description, OperatorExec, Shape, Task, file_scan, only_input};
use crate::source::rows::columns::{OriginColumns, numbered_schema};
use crate::source::rows::split::{ReadPart, Split, next_run};

/// The last column of the scan: the index of the split that contains the row.
pub(crate) const SPLIT_COLUMN: &str = "__resemblance_split";

/// Replaces the split column of a scan by the origin of each row. Input: the columns of the files, then [`SPLIT_COLUMN`] (UInt32), an index
/// into `splits`. Output: the columns as `value_0`, `value_1`, ..., then `source` and `name` (Utf8View), `position` (UInt64) and
/// `partition_0`, ... (Utf8View). Partitions and the order of rows do not change. Rows are numbered by counting, so no node below may
/// divide a split, filter its rows or mix them with other rows. This node therefore accepts no filter and no limit, and requires no other
/// partitioning.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct NumberRows {
    pub splits: Arc<[Split]>,
    /// The number of rows in a full batch of the scan. A shorter batch is the last batch of a split.
    pub batch_rows: usize,
    /// The partition columns of the output.
    pub partition_columns: Vec<String>,
}

impl NumberRows {
    /// The number of rows that are read, or `None` if it is unknown.
    pub(crate) fn rows(&self) -> Option<u64> {
        self.splits.iter().map(Split::expected_rows).sum()
    }

    /// Loads the wanted rows of a partition's splits from an object and then executes the partition.
    async fn load_and_execute(
        self,
        scan: Arc<dyn ExecutionPlan>,
        order: Vec<usize>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let (mut splits, runtime) = (self.splits.to_vec(), context.runtime_env());
        for index in order {
            if let Some(wanted) = splits.get_mut(index).and_then(|split| split.wanted.as_mut()) {
                wanted.load(&runtime).await?;
            }
        }
        let number = Self { splits: splits.into(), ..self };
        let scan = pinned_scan(scan, &runtime, &number.splits, None)?;
        OperatorExec::plan(number, vec![scan])?.execute(partition, context)
    }
}

impl Description for NumberRows {
    const NAME: &'static str = "NumberRowsExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "splits={}", self.splits.len())
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> DfResult<Shape> {
        let input = only_input(Self::NAME, inputs)?;
        let inner = input.schema();
        let values = match inner.fields().split_last() {
            Some((last, values)) if last.name() == SPLIT_COLUMN && last.data_type() == &DataType::UInt32 => {
                values
            }
            _ => return Err(Error::bug("a scan without a split column cannot be numbered").into()),
        };
        // An optimizer may have divided a file of the scan.
        let mut unique = HashSet::new();
        if !file_groups(input)
            .iter()
            .flat_map(FileGroup::iter)
            .filter_map(split_index)
            .all(|at| unique.insert(at))
        {
            return Err(Error::bug("a scan was cut into pieces whose rows cannot be numbered").into());
        }
        let schema = numbered_schema(values.iter().map(|f| f.data_type()), self.partition_columns.len());
        let shape = Shape::in_partitions_of(input, schema);
        // If only some rows are wanted, the scan also returns rows in short gaps, which this node drops.
        let reads_all = self.splits.iter().all(|split| split.wanted.is_none());
        Ok(if reads_all { shape.row_by_row() } else { shape })
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> DfResult<Batches> {
        let scan = only_input(Self::NAME, task.inputs)?;
        let order = split_order(scan, task.partition);
        let is_stored = |index: &usize| {
            let wanted = self.splits.get(*index).and_then(|split| split.wanted.as_ref());
            wanted.is_some_and(|wanted| wanted.is_stored())
        };
        if order.iter().any(is_stored) {
            let (number, scan) = (Arc::unwrap_or_clone(self), Arc::clone(scan));
            let rows = number.load_and_execute(scan, order, task.partition, task.context);
            return Ok(rows.try_flatten_stream().boxed());
        }
        let store = match file_scan(scan) {
            Some(scan) => Some(task.context.runtime_env().object_store(&scan.object_store_url)?),
            None => None,
        };
        let numbering = Numbering {
            input: task.rows_of(0)?,
            number: self,
            order,
            schema: task.schema,
            elapsed: task.elapsed,
            store,
            current: None,
            last_batch: 0,
            next_row: 0,
            run_end: 0,
        };
        Ok(stream::unfold(Some(numbering), async |numbering| numbering?.next().await).boxed())
    }
}

struct Numbering {
    input: SendableRecordBatchStream,
    number: Arc<NumberRows>,
    /// The splits of this partition in the order of reading.
    order: Vec<usize>,
    schema: SchemaRef,
    elapsed: Time,
    /// The store of the files, or `None` if the input is not a file scan.
    store: Option<Arc<dyn ObjectStore>>,
    /// The current split and the number of its rows that were already read.
    current: Option<(usize, u64)>,
    /// The number of rows in the batch that was read last.
    last_batch: usize,
    /// The position after the last row.
    next_row: u64,
    /// The end of the current run of wanted rows. The field is not used if all rows are wanted.
    run_end: u64,
}

impl Numbering {
    /// Returns the next batch and the remaining stream, which ends after an error. Returns `None` at the end.
    async fn next(mut self) -> Option<(DfResult<RecordBatch>, Option<Self>)> {
        // A panic of the Parquet reader becomes an error of the file. The reader is not used again.
        let next = guarded_async(self.input.next()).await.unwrap_or_else(|panic| Some(Err(panic.into())));
        match next {
            Some(Ok(batch)) => {
                let elapsed = self.elapsed.clone();
                let timer = elapsed.timer();
                let numbered = self.number(batch);
                timer.done();
                let rest = numbered.is_ok().then_some(self);
                Some((numbered, rest))
            }
            // A change of the file can cause any error of the reader.
            Some(Err(e)) => {
                let changed = self.check_files().await.err();
                Some((Err(changed.unwrap_or_else(|| self.explain(e))), None))
            }
            None => {
                let checked = self.check_files().await;
                checked.and_then(|()| self.check_rows()).err().map(|e| (Err(e), None))
            }
        }
    }

    /// Checks that no file of the partition was replaced.
    async fn check_files(&mut self) -> DfResult<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let mut last = None;
        for Split { file, .. } in self.order.iter().filter_map(|index| self.number.splits.get(*index)) {
            if last != Some(file) {
                file.pin.check_after_reading(store.as_ref(), file.path()).await?;
            }
            last = Some(file);
        }
        Ok(())
    }

    fn split(&self, index: usize) -> DfResult<&Split> {
        let splits = &self.number.splits;
        let error = || Error::bug(format!("there is no split {index} among {}", splits.len())).into();
        splits.get(index).ok_or_else(error)
    }

    /// Replaces the split column of `batch` by the origins of its rows.
    fn number(&mut self, batch: RecordBatch) -> DfResult<RecordBatch> {
        let rows = batch.num_rows();
        let (_, mut columns, _) = batch.into_parts();
        let indices = columns.pop();
        let Some(indices) = indices.as_ref().and_then(|indices| indices.as_primitive_opt::<UInt32Type>())
        else {
            return Err(Error::bug("a scan has no split column of UInt32").into());
        };
        let mut origins = OriginColumns::new(&self.number.partition_columns);
        let mut kept = BooleanBufferBuilder::new(rows);
        let mut row = 0;
        while row < rows {
            let index = indices.value(row);
            let run = indices.values()[row..].iter().take_while(|i| **i == index).count();
            let index = index as usize;
            let before = match self.current {
                Some((current, rows)) if current == index => rows,
                _ => {
                    self.check_rows()?;
                    0
                }
            };
            let split = self.split(index)?;
            let (mut next, mut run_end) = match before {
                0 => (split.first_row, 0),
                _ => (self.next_row, self.run_end),
            };
            let count = match &split.wanted {
                None => {
                    kept.append_n(run, true);
                    next += run as u64;
                    origins.append(&split.file, next - run as u64..next)?
                }
                Some(wanted) => {
                    let mut positions = Vec::with_capacity(run);
                    for _ in 0..run {
                        if next >= run_end {
                            let Some(read) = next_run(wanted, next) else {
                                let why = format!("{} has more rows than were wanted", split.file.path);
                                return Err(Error::bug(why).into());
                            };
                            (next, run_end) = (read.start, read.end);
                        }
                        let is_wanted = wanted.contains(next);
                        positions.extend(is_wanted.then_some(next));
                        kept.append(is_wanted);
                        next += 1;
                    }
                    origins.append(&split.file, positions)?
                }
            };
            (self.next_row, self.run_end) = (next, run_end);
            self.current = Some((index, before + count as u64));
            row += run;
        }
        if rows > 0 {
            self.last_batch = rows;
        }
        let kept = BooleanArray::new(kept.build(), None);
        let rows = kept.true_count();
        if rows < kept.len() {
            columns = columns.iter().map(|column| filter(column, &kept)).collect::<Result<_, _>>()?;
        }
        columns.extend(origins.finish());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Checks that the current split had the expected number of rows.
    fn check_rows(&self) -> DfResult<()> {
        let Some((index, found)) = self.current else { return Ok(()) };
        let split = self.split(index)?;
        match split.expected_rows() {
            Some(rows) if rows != found => Err(Error::input(format!(
                "{} has {} where its footer says {}: the file is damaged, restore it",
                split.file.path,
                counted(found, "row"),
                count(rows)
            ))
            .into()),
            _ => Ok(()),
        }
    }

    /// Adds the current file to an error of the scan.
    fn explain(&self, error: DataFusionError) -> DataFusionError {
        let explained = Err::<(), _>(error).context(|| self.failed_at());
        explained.err().map_or_else(|| Error::bug("an error without a cause").into(), DataFusionError::from)
    }

    /// Describes the file at which the scan failed. If two files are possible, describes both.
    fn failed_at(&self) -> String {
        let splits = &self.number.splits;
        let path = |index: usize| splits.get(index).map_or("a file", |split| split.file.path());
        let at = self.current.and_then(|(index, _)| self.order.iter().position(|i| *i == index));
        let next = self.order.get(at.map_or(0, |at| at + 1)).map(|index| path(*index));
        let Some((index, found)) = self.current else {
            return match next {
                Some(next) => format!("reading {next} failed"),
                None => "reading the input failed".to_owned(),
            };
        };
        let split = splits.get(index);
        let rows = counted(found + split.map_or(0, |split| split.first_row), "row");
        let ended = match split.and_then(Split::expected_rows) {
            Some(rows) => found >= rows,
            None => self.last_batch < self.number.batch_rows,
        };
        match next {
            Some(next) if ended => format!("reading {next} failed"),
            Some(next) if split.is_some_and(|split| split.rows.is_none()) => {
                format!("reading {} failed after {rows}, or {next} at its start", path(index))
            }
            _ => format!("reading {} failed after {rows}", path(index)),
        }
    }
}

/// Returns the parts of files that each partition of a [`NumberRows`] node reads. Returns `None` for other nodes.
pub(in crate::source) fn rows_read(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<Vec<ReadPart>>> {
    let NumberRows { splits, .. } = OperatorExec::<NumberRows>::described(plan.as_ref())?;
    let scan = *plan.children().first()?;
    let read = |partition| {
        let splits = split_order(scan, partition).into_iter().filter_map(|index| splits.get(index));
        let part = |split: &Split| ReadPart {
            path: Arc::clone(&split.file.path),
            part: format!("{} {:?}", split.first_row, split.rows),
        };
        splits.map(part).collect()
    };
    Some((0..file_groups(scan).len()).map(read).collect())
}

/// Returns the files of each partition of a scan. Returns an empty slice for other nodes.
fn file_groups(input: &Arc<dyn ExecutionPlan>) -> &[FileGroup] {
    file_scan(input).map_or(&[], |scan| &scan.file_groups)
}

/// Returns the splits of a partition of the scan in the order of reading.
fn split_order(input: &Arc<dyn ExecutionPlan>, partition: usize) -> Vec<usize> {
    let group = file_groups(input).get(partition);
    group.map_or_else(Vec::new, |group| group.iter().filter_map(split_index).collect())
}
