//! The exchange of one machine: rows go to buckets by the hash of their key, and a bucket is read when its turn comes.
//!
//! This is the shuffle of MapReduce (Dean and Ghemawat, OSDI 2004, section 3.1) within a process. On a cluster the same
//! plan has a query stage of as many partitions in its place. The engine's own node runs all partitions above it at once and
//! each of them holds something; here the rows wait, in memory while the pool has room and else on disk, so that there may
//! be as many buckets as the data needs and no more of them are open than there are threads.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use datafusion::common::internal_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{SpillMetrics, Time};
use datafusion::physical_plan::repartition::{BatchPartitioner, RepartitionExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, stream};

use super::buckets::{BucketStore, Gathered, Reads};
use crate::operator::score::Scoring;
use crate::plan::{Batches, Description, OperatorExec, Requirement, Shape, Task, only_input};

/// Rows, and bytes, that are gathered before they are divided into buckets: many buckets would else get a row or two of
/// each batch, and a batch costs more than a row.
const GATHERED_ROWS: usize = 1 << 16;
const GATHERED_BYTES: usize = 4 << 20;

/// `plan` with our node instead of the engine's where that divides rows by a key. At most `tasks` partitions of what is
/// below it run at once.
pub(super) fn exchange(plan: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if let Some(scoring) = OperatorExec::<Scoring>::described(node.as_ref())
            && scoring.reads_again()
        {
            return Ok(Transformed::yes(with_kept_inputs(node, tasks)?));
        }
        let Some(engines) = node.downcast_ref::<RepartitionExec>() else { return Ok(Transformed::no(node)) };
        match engines.partitioning() {
            Partitioning::Hash(..) => {
                let properties = Arc::clone(engines.properties());
                let exchange = Exchange { properties, tasks, reads: Reads::Once };
                Ok(Transformed::yes(OperatorExec::plan(exchange, vec![Arc::clone(engines.input())])?))
            }
            _ => Ok(Transformed::no(node)),
        }
    })
    .data()
}

/// `node` over exchanges whose buckets can be read more than once. They take no memory from it, as all of their rows are on disk
/// before it begins.
fn with_kept_inputs(node: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let inputs = node.children().into_iter().map(|input| kept(Arc::clone(input), tasks));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    node.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The rows of `plan` in the same partitions, which can be read more than once.
fn kept(plan: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let (properties, input) = match OperatorExec::<Exchange>::described(plan.as_ref()) {
        Some(exchange) => {
            let below: Vec<_> = plan.children().into_iter().cloned().collect();
            (Arc::clone(&exchange.properties), Arc::clone(only_input(Exchange::NAME, &below)?))
        }
        // The only partition is read by the only task, once.
        None if plan.output_partitioning().partition_count() == 1 => return Ok(plan),
        // Rows that came to their partitions by themselves pass through an exchange to the same ones.
        None => {
            let partitioning = plan.output_partitioning().clone();
            let engines = RepartitionExec::try_new(Arc::clone(&plan), partitioning)?;
            (Arc::clone(engines.properties()), plan)
        }
    };
    OperatorExec::plan(Exchange { properties, tasks, reads: Reads::Again }, vec![input])
}

/// Divides the rows of its input into buckets by the hash of expressions. Each partition that comes out is a bucket.
#[derive(Debug, Clone)]
struct Exchange {
    /// What the engine's node says of itself: the same rows come out in the same partitions.
    properties: Arc<PlanProperties>,
    tasks: usize,
    reads: Reads,
}

impl Exchange {
    fn key(&self) -> Result<(&[Arc<dyn PhysicalExpr>], usize)> {
        match &self.properties.partitioning {
            Partitioning::Hash(key, count) => Ok((key, *count)),
            other => internal_err!("rows are exchanged by a hash, not by {other}"),
        }
    }

    fn buckets(&self, task: &Task<'_, Mutex<Option<Arc<Buckets>>>>) -> Result<Arc<Buckets>> {
        let mut buckets = task.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(buckets) = buckets.as_ref() {
            return Ok(Arc::clone(buckets));
        }
        let (key, count) = self.key()?;
        let input = Arc::clone(only_input(Self::NAME, task.inputs)?);
        let spills = SpillMetrics::new(task.metrics, 0);
        let store = BucketStore::new(count, self.reads, input.schema(), spills, &task.context);
        let (key, tasks, context) = (key.to_vec(), self.tasks, Arc::clone(&task.context));
        let fill = Fill { input, key, count, tasks, context };
        let made = Arc::new(Buckets { store: Arc::new(store), filled: OnceLock::new(), fill });
        *buckets = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.properties.partitioning.fmt(f)
    }
}

impl Description for Exchange {
    const NAME: &'static str = "ExchangeExec";
    const COUNTS_ROWS: bool = false;

    /// The buckets of this run of the plan.
    type Shared = Mutex<Option<Arc<Buckets>>>;

    fn shape(&self, _: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        Ok(Shape::new(Arc::clone(&self.properties), vec![Requirement::none()]))
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let buckets = self.buckets(&task)?;
        let Task { partition, schema, .. } = task;
        let read = async move {
            buckets.filled().await?;
            buckets.store.read(partition, &schema)
        };
        Ok(stream::once(read).try_flatten().boxed())
    }
}

/// How the buckets are filled.
#[derive(Debug, Clone)]
struct Fill {
    input: Arc<dyn ExecutionPlan>,
    key: Vec<Arc<dyn PhysicalExpr>>,
    count: usize,
    tasks: usize,
    context: Arc<TaskContext>,
}

/// Ends when the buckets are filled.
type Filled = Shared<BoxFuture<'static, Result<(), Arc<DataFusionError>>>>;

/// The buckets, and the work that fills them, which begins when the first of them is read.
#[derive(Debug)]
pub(crate) struct Buckets {
    store: Arc<BucketStore>,
    fill: Fill,
    filled: OnceLock<Filled>,
}

impl Buckets {
    /// Fills the buckets, or waits for whoever does. Dropped, they end the work.
    async fn filled(&self) -> Result<()> {
        let filled = self.filled.get_or_init(|| self.fill.clone().start(Arc::clone(&self.store)));
        filled.clone().await.map_err(DataFusionError::Shared)
    }
}

impl Fill {
    /// The work, which spawns a task for each partition of the input.
    fn start(self, store: Arc<BucketStore>) -> Filled {
        let Self { input, key, count, tasks, context } = self;
        let (partitions, closed) = (input.output_partitioning().partition_count(), Arc::clone(&store));
        let divide = move |partition| {
            let rows = input.execute(partition, Arc::clone(&context));
            let (store, key) = (Arc::clone(&store), key.clone());
            // A task of its own, so that as many threads divide rows as there are tasks.
            let task = SpawnedTask::spawn(async move { divide(rows?, key, count, &store).await });
            async move { task.join().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))? }
        };
        let filled = async move {
            stream::iter(0..partitions)
                .map(divide)
                .buffer_unordered(tasks.max(1))
                .try_collect::<()>()
                .await?;
            closed.close()
        };
        filled.map_err(Arc::new).boxed().shared()
    }
}

/// Divides the rows of a partition among the buckets.
async fn divide(
    mut rows: SendableRecordBatchStream,
    key: Vec<Arc<dyn PhysicalExpr>>,
    count: usize,
    store: &BucketStore,
) -> Result<()> {
    let mut partitioner = BatchPartitioner::new_hash_partitioner(key, count, Time::new())?;
    let mut gathered = Gathered::default();
    while let Some(batch) = rows.next().await.transpose()? {
        gathered.push(batch);
        if gathered.rows >= GATHERED_ROWS || gathered.bytes >= GATHERED_BYTES {
            let batch = gathered.take(&rows.schema())?;
            store.add(partitioner.partition_iter(batch)?)?;
            tokio::task::consume_budget().await;
        }
    }
    let rest = gathered.take(&rows.schema())?;
    store.add(partitioner.partition_iter(rest)?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow::array::{AsArray, RecordBatch, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
    use datafusion::datasource::MemTable;
    use datafusion::execution::memory_pool::FairSpillPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::projection::ProjectionExec;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    const KEYS: u64 = 1_000;
    const ROWS: u64 = 300_000;

    fn session(pool: usize) -> SessionContext {
        let runtime =
            RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(pool))).build_arc();
        SessionContext::new_with_config_rt(SessionConfig::new(), runtime.unwrap())
    }

    /// (key, number) in several partitions, exchanged by key into `buckets`.
    async fn exchanged(session: &SessionContext, buckets: usize) -> Arc<dyn ExecutionPlan> {
        let column = |name| Field::new(name, DataType::UInt64, false);
        let schema = Arc::new(Schema::new(vec![column("key"), column("number")]));
        let mut partitions = vec![Vec::new(); 5];
        for start in (0..ROWS).step_by(1_000) {
            let numbers = UInt64Array::from_iter_values(start..start + 1_000);
            let keys = UInt64Array::from_iter_values(numbers.values().iter().map(|n| n % KEYS));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys), Arc::new(numbers)]);
            partitions[start as usize / 1_000 % 5].push(batch.unwrap());
        }
        let table = MemTable::try_new(schema, partitions).unwrap();
        let table = session.read_table(Arc::new(table)).unwrap().create_physical_plan().await.unwrap();
        let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new("key", 0));
        let engines = RepartitionExec::try_new(table, Partitioning::Hash(vec![key], buckets)).unwrap();
        exchange(Arc::new(engines), 2).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn all_rows_of_a_key_are_in_one_bucket_in_memory_and_on_disk() {
        for (pool, spills) in [(1 << 30, false), (4 << 20, true)] {
            let session = session(pool);
            let plan = exchanged(&session, 64).await;
            assert_eq!(plan.name(), "ExchangeExec");
            let mut bucket_of = BTreeMap::new();
            let mut rows = Vec::new();
            for bucket in 0..64 {
                let mut batches = plan.execute(bucket, session.task_ctx()).unwrap();
                while let Some(batch) = batches.try_next().await.unwrap() {
                    let column = |at: usize| batch.column(at).as_primitive::<UInt64Type>().values().to_vec();
                    for (key, number) in column(0).into_iter().zip(column(1)) {
                        assert_eq!(*bucket_of.entry(key).or_insert(bucket), bucket);
                        assert_eq!(key, number % KEYS);
                        rows.push(number);
                    }
                }
            }
            rows.sort_unstable();
            assert_eq!(rows, (0..ROWS).collect::<Vec<_>>());
            let spilled = plan.metrics().unwrap().spilled_rows().unwrap_or(0);
            assert_eq!(spilled > 0, spills, "{spilled} rows went to disk");
            drop(plan);
            assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
        }
    }

    /// Rows that are divided share the memory of their batch, which is not to be counted for each bucket.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rows_in_memory_are_counted_once_and_free_when_they_are_read() {
        let session = session(1 << 30);
        let plan = exchanged(&session, 64).await;
        let bytes = ROWS as usize * 16;
        let mut before = 2 * bytes;
        for bucket in 0..64 {
            let batches = plan.execute(bucket, session.task_ctx()).unwrap();
            batches.try_collect::<Vec<_>>().await.unwrap();
            let reserved = session.runtime_env().memory_pool.reserved();
            assert!(reserved < before, "{reserved} bytes after bucket {bucket}, {before} before it");
            before = reserved.max(1);
        }
    }

    /// The plan of a step that reads the buckets of its first input again and again, over rows that are exchanged or have their
    /// partitions already.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn buckets_that_are_kept_are_read_again() {
        for (pool, exchanged_before) in [(1 << 30, true), (4 << 20, true), (1 << 30, false)] {
            let session = session(pool);
            let rows = exchanged(&session, 8).await;
            let column =
                |(at, name)| (Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>, name.to_owned());
            let below: Arc<dyn ExecutionPlan> = match exchanged_before {
                true => rows,
                false => {
                    let columns = ["key", "number"].into_iter().enumerate().map(column);
                    Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), rows).unwrap())
                }
            };
            let kept = kept(below, 2).unwrap();
            let read = async |bucket| {
                let mut batches = kept.execute(bucket, session.task_ctx()).unwrap();
                let mut numbers = Vec::new();
                while let Some(batch) = batches.try_next().await.unwrap() {
                    numbers.extend(batch.column(1).as_primitive::<UInt64Type>().values().to_vec());
                }
                numbers.sort_unstable();
                numbers
            };
            let mut all = Vec::new();
            for bucket in 0..8 {
                let first = read(bucket).await;
                // What is read again takes nothing from whoever computes with it.
                assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
                assert_eq!(read(bucket).await, first, "bucket {bucket}");
                all.extend(first);
            }
            all.sort_unstable();
            assert_eq!(all, (0..ROWS).collect::<Vec<_>>());
        }
    }

    /// Whoever stops reading, as a run that is interrupted, leaves nothing behind.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_plan_that_is_dropped_half_way_gives_everything_back() {
        let session = session(4 << 20);
        let plan = exchanged(&session, 16).await;
        let mut batches = plan.execute(3, session.task_ctx()).unwrap();
        assert!(batches.try_next().await.unwrap().is_some());
        drop(batches);
        drop(plan);
        assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
    }
}
