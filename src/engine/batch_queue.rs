//! The queue of batches between partitions: each output partition takes the next batch, unchanged. DataFusion's round-robin node instead
//! gathers a fixed number of rows into a batch. These rows can contain long texts, so its memory would depend on the input and not on the
//! budget.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::mpsc::{Receiver, channel};

use super::exchange::run_partitions;
use crate::plan::{Batches, Description, OperatorExec, Requirement, Shape, Task, only_input};

/// Replaces DataFusion's round-robin node in `plan` by this queue. A queue reads at most `tasks` input partitions at the same time.
pub(super) fn share_batches(plan: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(engines) = node.downcast_ref::<RepartitionExec>() else { return Ok(Transformed::no(node)) };
        match engines.partitioning() {
            Partitioning::RoundRobinBatch(partitions) if !engines.preserve_order() => {
                let queue = BatchQueue { partitions: *partitions, tasks };
                Ok(Transformed::yes(OperatorExec::plan(queue, vec![Arc::clone(engines.input())])?))
            }
            _ => Ok(Transformed::no(node)),
        }
    })
    .data()
}

/// Passes each batch from any input partition to the first free output partition.
#[derive(Debug, Clone)]
struct BatchQueue {
    partitions: usize,
    /// The maximum number of input partitions that are read at the same time.
    tasks: usize,
}

#[derive(Debug, Default)]
pub(crate) struct QueueState {
    queue: Option<Arc<Queue>>,
    started: usize,
}

/// The batches from all input partitions. Dropping the queue stops reading.
#[derive(Debug)]
struct Queue {
    batches: Mutex<Receiver<Result<RecordBatch>>>,
    /// Wakes all waiting tasks. If only one task were woken, it might no longer be polled, and no other task would take the batch.
    arrived: Arc<Notify>,
    _reader: SpawnedTask<()>,
}

impl Queue {
    async fn next(&self) -> Option<Result<RecordBatch>> {
        loop {
            // The task registers before it looks at the queue, so that a batch that arrives after the look wakes it.
            let arrived = self.arrived.notified();
            match self.batches.lock().try_recv() {
                Ok(batch) => return Some(batch),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {}
            }
            arrived.await;
        }
    }
}

impl Description for BatchQueue {
    const NAME: &'static str = "BatchQueueExec";
    const COUNTS_ROWS: bool = false;

    type Shared = Mutex<QueueState>;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "partitions={}", self.partitions)
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let input = only_input(Self::NAME, inputs)?;
        Ok(Shape::in_partitions(self.partitions, input.schema(), input, vec![Requirement::none()]))
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let mut state = task.shared.lock();
        if state.started == self.partitions {
            return internal_err!("all partitions of the batch queue were started already");
        }
        let queue = match state.queue.take() {
            Some(queue) => queue,
            None => Arc::new(self.read(only_input(Self::NAME, task.inputs)?, &task.context)),
        };
        state.started += 1;
        // After the last partition has started, the state keeps no reference, so that reading stops when the streams are dropped.
        state.queue = (state.started < self.partitions).then(|| Arc::clone(&queue));
        let batches = stream::unfold(queue, async |queue| queue.next().await.map(|batch| (batch, queue)));
        Ok(batches.boxed())
    }
}

impl BatchQueue {
    fn read(&self, input: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Queue {
        // The channel buffers one batch. Producers of other batches wait.
        let (sender, receiver) = channel(1);
        let (errors, arrived) = (sender.clone(), Arc::new(Notify::new()));
        let (arriving, ended) = (Arc::clone(&arrived), Arc::clone(&arrived));
        // An open partition holds data in memory, such as a row group of Parquet, so at most `tasks` partitions are open.
        let mut read = run_partitions(input, self.tasks, context, move |mut rows| {
            let (sender, arrived) = (sender.clone(), Arc::clone(&arriving));
            async move {
                while let Some(batch) = rows.next().await.transpose()? {
                    if sender.send(Ok(batch)).await.is_err() {
                        break;
                    }
                    arrived.notify_waiters();
                }
                Ok(())
            }
        });
        let reader = SpawnedTask::spawn(async move {
            while let Some(end) = read.next().await {
                // Without this error, a partition whose reader panicked would look complete.
                if let Err(error) = end {
                    let _ = errors.send(Err(error)).await;
                    ended.notify_waiters();
                }
            }
            drop((read, errors));
            ended.notify_waiters();
        });
        Queue { batches: Mutex::new(receiver), arrived, _reader: reader }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow::array::{AsArray, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::error::DataFusionError;
    use datafusion::execution::SendableRecordBatchStream;
    use datafusion::physical_plan::collect_partitioned;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
    use datafusion::physical_plan::test::exec::PanicExec;
    use futures::FutureExt;
    use futures::stream::BoxStream;

    use super::*;

    #[tokio::test]
    async fn every_batch_comes_out_once_and_as_it_was() {
        let schema = schema();
        let batch = |n: u64| {
            let numbers = Arc::new(UInt64Array::from(vec![2 * n, 2 * n + 1]));
            RecordBatch::try_new(Arc::clone(&schema), vec![numbers]).unwrap()
        };
        let partitions: Vec<Vec<_>> = vec![(0..50).map(batch).collect(), (50..60).map(batch).collect()];
        let input = MemorySourceConfig::try_new_exec(&partitions, Arc::clone(&schema), None).unwrap();
        let engines = RepartitionExec::try_new(input, Partitioning::RoundRobinBatch(3)).unwrap();
        let plan = share_batches(Arc::new(engines), 2).unwrap();
        assert_eq!(plan.name(), "BatchQueueExec");
        let taken = collect_partitioned(plan, Arc::default()).await.unwrap();
        assert_eq!(taken.len(), 3);
        let batches: Vec<RecordBatch> = taken.into_iter().flatten().collect();
        assert!(batches.iter().all(|batch| batch.num_rows() == 2), "a batch was joined to another");
        let mut found: Vec<u64> =
            batches.iter().flat_map(|b| b.column(0).as_primitive::<UInt64Type>().values().to_vec()).collect();
        found.sort();
        assert_eq!(found, (0..120).collect::<Vec<u64>>());
    }

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("n", DataType::UInt64, false)]))
    }

    /// A partition whose batches come from a function.
    struct Made<F>(SchemaRef, F);

    impl<F> std::fmt::Debug for Made<F> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Made")
        }
    }

    impl<F: Fn() -> BoxStream<'static, Result<RecordBatch>> + Send + Sync> PartitionStream for Made<F> {
        fn schema(&self) -> &SchemaRef {
            &self.0
        }

        fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.0), self.1()))
        }
    }

    /// Returns a plan in which tasks share the batches of `inputs`.
    fn shared(inputs: Vec<Arc<dyn PartitionStream>>, queue: BatchQueue) -> Arc<dyn ExecutionPlan> {
        let input = StreamingTableExec::try_new(schema(), inputs, None, [], false, None).unwrap();
        OperatorExec::plan(queue, vec![Arc::new(input)]).unwrap()
    }

    #[tokio::test]
    async fn no_more_partitions_are_open_than_there_are_tasks() {
        static OPEN: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let counted = || {
            MOST.fetch_max(OPEN.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            let next = |sent| async move {
                tokio::task::yield_now().await;
                if sent == 3 {
                    OPEN.fetch_sub(1, Ordering::SeqCst);
                    return None;
                }
                Some((Ok(RecordBatch::new_empty(schema())), sent + 1))
            };
            stream::unfold(0, next).boxed()
        };
        let input = |_| -> Arc<dyn PartitionStream> { Arc::new(Made(schema(), counted)) };
        let plan = shared((0..12).map(input).collect(), BatchQueue { partitions: 20, tasks: 3 });
        let taken = collect_partitioned(plan, Arc::default()).await;
        assert_eq!(taken.unwrap().iter().flatten().count(), 36);
        assert_eq!((MOST.load(Ordering::SeqCst), OPEN.load(Ordering::SeqCst)), (3, 0));
    }

    #[tokio::test]
    async fn a_panic_is_an_error() {
        let input = Arc::new(PanicExec::new(schema(), 1));
        let plan = OperatorExec::plan(BatchQueue { partitions: 1, tasks: 1 }, vec![input]).unwrap();
        let error = collect_partitioned(plan, Arc::default()).await.unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ExecutionJoin(_)), "{error:?}");
    }

    #[tokio::test]
    async fn a_partition_that_is_no_longer_polled_keeps_nothing_from_the_others() {
        let (sender, receiver) = channel(1);
        let receiver = Mutex::new(Some(receiver));
        let sent = move || {
            let mut batches: Receiver<RecordBatch> = receiver.lock().take().unwrap();
            stream::poll_fn(move |context| batches.poll_recv(context).map(|batch| batch.map(Ok))).boxed()
        };
        let plan = shared(vec![Arc::new(Made(schema(), sent))], BatchQueue { partitions: 2, tasks: 1 });
        let mut once = plan.execute(0, Arc::default()).unwrap();
        let again = plan.execute(1, Arc::default()).unwrap();
        assert!(once.next().now_or_never().is_none(), "there is no batch yet");
        let taken = tokio::spawn(again.map(Result::unwrap).count());
        for _ in 0..5 {
            sender.send(RecordBatch::new_empty(schema())).await.unwrap();
        }
        drop(sender);
        // Without the timeout, a deadlock would block the test.
        let taken = tokio::time::timeout(std::time::Duration::from_secs(60), taken).await;
        assert_eq!(taken.expect("the second one got nothing").unwrap(), 5);
        assert!(once.next().await.is_none());
    }

    #[tokio::test]
    async fn a_partition_that_is_read_alone_gets_all_batches() {
        let schema = schema();
        let numbers = Arc::new(UInt64Array::from(vec![7]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![numbers]).unwrap();
        let input = MemorySourceConfig::try_new_exec(&[vec![batch; 20]], schema, None).unwrap();
        let plan = OperatorExec::plan(BatchQueue { partitions: 2, tasks: 1 }, vec![input]).unwrap();
        let first: Vec<_> = plan.execute(0, Arc::default()).unwrap().collect().await;
        let second: Vec<_> = plan.execute(1, Arc::default()).unwrap().collect().await;
        assert_eq!((first.len(), second.len()), (20, 0));
        assert!(plan.execute(0, Arc::default()).is_err());
    }
}
