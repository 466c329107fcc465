//! The exchange of one machine: rows go to partitions by the hash of their key, and a partition is read when its turn comes.
//!
//! This is the shuffle of MapReduce (Dean and Ghemawat, OSDI 2004, section 3.1) within a process. On a cluster the same
//! plan has a query stage with as many partitions instead. DataFusion's own node runs all partitions above it at once,
//! and each of them holds memory. Here the rows wait in a [`PartitionStore`], so there may be as many partitions as the
//! data need, and no more of them are open than there are threads.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::internal_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{SpillMetrics, Time};
use datafusion::physical_plan::repartition::{BatchPartitioner, RepartitionExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, stream};

use super::repeated_keys::repeated_keys;
use crate::operator::bucket_pairs::PairRule;
use crate::operator::may_repeat::MayRepeat;
use crate::operator::score::Scoring;
use crate::plan::{
    Batches, Description, Gathered, OperatorExec, PartitionReads, PartitionStore, Requirement, Shape, Task,
    only_input,
};

/// Rows and bytes that are gathered before they are divided: otherwise many partitions would get a row or two of each
/// batch, and a batch costs more than a row.
const GATHERED_ROWS: usize = 1 << 16;
const GATHERED_BYTES: usize = 4 << 20;

/// Replaces DataFusion's node by this exchange wherever `plan` divides rows by a key. At most `tasks` partitions of its
/// input run at once.
pub(super) fn exchange(plan: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if let Some(scoring) = OperatorExec::<Scoring>::described(node.as_ref())
            && scoring.reads_again()
        {
            let inputs = node.children().into_iter().map(|input| kept(Arc::clone(input), tasks));
            let inputs = inputs.collect::<Result<Vec<_>>>()?;
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            return Ok(Transformed::yes(node.replace_children(inputs, options)?));
        }
        if OperatorExec::<PairRule>::described(node.as_ref())
            .is_some_and(|rule| matches!(rule, PairRule::All { .. }))
        {
            return self_joined(node, tasks);
        }
        if OperatorExec::<MayRepeat>::described(node.as_ref()).is_some() {
            let below: Vec<_> = node.children().into_iter().cloned().collect();
            let rows = Arc::clone(only_input(MayRepeat::NAME, &below)?);
            // Rows that are exchanged can be read once only.
            return Ok(Transformed::yes(match rows.exists(|node| Ok(is_exchange(node)))? {
                true => rows,
                false => repeated_keys(rows, tasks)?,
            }));
        }
        let Some(engines) = node.downcast_ref::<RepartitionExec>() else { return Ok(Transformed::no(node)) };
        match engines.partitioning() {
            Partitioning::Hash(..) => {
                let properties = Arc::clone(engines.properties());
                let exchange = Exchange { properties, tasks, reads: PartitionReads::Once };
                Ok(Transformed::yes(OperatorExec::plan(exchange, vec![Arc::clone(engines.input())])?))
            }
            _ => Ok(Transformed::no(node)),
        }
    })
    .data()
}

/// A self-join on the key of an exchange, with a filter in front of the exchange if its input can be read twice.
fn self_joined(join: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(exchange) = join.children().first().copied().filter(|input| is_exchange(input)) else {
        return Ok(Transformed::no(join));
    };
    let below =
        only_input(Exchange::NAME, &exchange.children().into_iter().cloned().collect::<Vec<_>>())?.clone();
    if below.exists(|node| Ok(is_exchange(node)))? {
        return Ok(Transformed::no(join));
    }
    let filtered = replaced(Arc::clone(exchange), repeated_keys(below, tasks)?)?;
    Ok(Transformed::yes(replaced(join, filtered)?))
}

fn is_exchange(plan: &Arc<dyn ExecutionPlan>) -> bool {
    OperatorExec::<Exchange>::described(plan.as_ref()).is_some()
}

/// `plan` over another input.
fn replaced(plan: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The rows of `plan` in the same partitions, which can be read more than once. All of them are on disk before the node above
/// begins, so they take no memory from it.
fn kept(plan: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let (properties, input) = match OperatorExec::<Exchange>::described(plan.as_ref()) {
        Some(exchange) => {
            let below: Vec<_> = plan.children().into_iter().cloned().collect();
            (Arc::clone(&exchange.properties), Arc::clone(only_input(Exchange::NAME, &below)?))
        }
        // The only partition is read by the only task, once.
        None if plan.output_partitioning().partition_count() == 1 => return Ok(plan),
        // Rows that are partitioned without an exchange pass through one to the same partitions.
        None => {
            let partitioning = plan.output_partitioning().clone();
            let engines = RepartitionExec::try_new(Arc::clone(&plan), partitioning)?;
            (Arc::clone(engines.properties()), plan)
        }
    };
    OperatorExec::plan(Exchange { properties, tasks, reads: PartitionReads::Again }, vec![input])
}

/// Divides the rows of its input into partitions by the hash of expressions.
#[derive(Debug, Clone)]
struct Exchange {
    /// The properties of DataFusion's node: the same rows come out in the same partitions.
    properties: Arc<PlanProperties>,
    tasks: usize,
    reads: PartitionReads,
}

/// The complete store. The work that fills it begins when the first partition is read, and ends early when all futures
/// that wait for it are dropped.
type Filled = Shared<BoxFuture<'static, Result<Arc<PartitionStore>, Arc<DataFusionError>>>>;

impl Description for Exchange {
    const NAME: &'static str = "ExchangeExec";
    const COUNTS_ROWS: bool = false;

    type Shared = OnceLock<Filled>;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.properties.partitioning)
    }

    fn shape(&self, _: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        Ok(Shape::new(Arc::clone(&self.properties), vec![Requirement::none()]))
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let Partitioning::Hash(key, count) = &self.properties.partitioning else {
            return internal_err!("rows are exchanged by a hash, not by {}", self.properties.partitioning);
        };
        let input = only_input(Self::NAME, task.inputs)?;
        let filled = task.shared.get_or_init(|| self.fill(key, *count, input, &task)).clone();
        let partition = task.partition;
        let read = async move { filled.await.map_err(DataFusionError::Shared)?.read(partition) };
        Ok(stream::once(read).try_flatten().boxed())
    }
}

impl Exchange {
    /// Fills a store with the rows of `input`, with a task for each of its partitions.
    fn fill(
        &self,
        key: &[Arc<dyn PhysicalExpr>],
        count: usize,
        input: &Arc<dyn ExecutionPlan>,
        task: &Task<'_, OnceLock<Filled>>,
    ) -> Filled {
        let (key, tasks) = (key.to_vec(), self.tasks.max(1));
        let (input, context) = (Arc::clone(input), Arc::clone(&task.context));
        let metrics = SpillMetrics::new(task.metrics, 0);
        let store = PartitionStore::new("Exchange", (count, self.reads), input.schema(), metrics, &context);
        let (store, partitions) = (Arc::new(store), input.output_partitioning().partition_count());
        let filling = Arc::clone(&store);
        let divide = move |partition| {
            let rows = input.execute(partition, Arc::clone(&context));
            let (store, key) = (Arc::clone(&filling), key.clone());
            // In a task of its own, so that as many threads divide rows as there are tasks.
            let task = SpawnedTask::spawn(async move { divide(rows?, key, count, &store).await });
            async move { task.join().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))? }
        };
        let filled = async move {
            let divided = stream::iter(0..partitions).map(divide).buffer_unordered(tasks);
            divided.try_collect::<()>().await?;
            store.complete()?;
            Ok(store)
        };
        filled.map_err(Arc::new).boxed().shared()
    }
}

/// Divides the rows of a partition of the input.
async fn divide(
    mut rows: SendableRecordBatchStream,
    key: Vec<Arc<dyn PhysicalExpr>>,
    count: usize,
    store: &PartitionStore,
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

    /// (key, number) in several partitions, exchanged by key into `buckets` partitions.
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
    async fn all_rows_of_a_key_are_in_one_partition_in_memory_and_on_disk() {
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

    /// Divided rows share the memory of their batch, which must not be counted for each partition.
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

    /// Over rows that are exchanged, and over rows that are partitioned already.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn partitions_that_are_kept_are_read_again() {
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
                // Rows that are read again hold no memory.
                assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
                assert_eq!(read(bucket).await, first, "bucket {bucket}");
                all.extend(first);
            }
            all.sort_unstable();
            assert_eq!(all, (0..ROWS).collect::<Vec<_>>());
        }
    }

    /// This is what happens when a run is interrupted.
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

    /// Documents of buckets: `join` over rows (bucket, doc) that are exchanged by bucket, once or twice.
    async fn self_join(session: &SessionContext, times: usize) -> Arc<dyn ExecutionPlan> {
        let column = |name| Field::new(name, DataType::UInt64, false);
        let schema = Arc::new(Schema::new(vec![column("bucket"), column("doc")]));
        let batch = |docs: std::ops::Range<u64>| {
            let buckets = UInt64Array::from_iter_values(docs.clone().map(|doc| doc % 9_000));
            let columns: [Arc<dyn arrow::array::Array>; 2] =
                [Arc::new(buckets), Arc::new(UInt64Array::from_iter_values(docs))];
            RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).unwrap()
        };
        let table =
            MemTable::try_new(Arc::clone(&schema), vec![vec![batch(0..5_000)], vec![batch(5_000..10_000)]]);
        let table = session.read_table(Arc::new(table.unwrap())).unwrap();
        let mut plan = table.create_physical_plan().await.unwrap();
        for _ in 0..times {
            let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new("bucket", 0));
            plan = Arc::new(RepartitionExec::try_new(plan, Partitioning::Hash(vec![key], 8)).unwrap());
        }
        exchange(OperatorExec::plan(PairRule::All { hot: 10 }, vec![plan]).unwrap(), 2).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_self_join_has_a_filter_unless_its_input_can_be_read_once_only() {
        for (times, filters) in [(1, true), (2, false)] {
            let session = session(1 << 30);
            let plan = self_join(&session, times).await;
            let text = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
            assert_eq!(text.contains("RepeatedKeysExec"), filters, "{text}");
            let pairs = datafusion::physical_plan::collect(plan, session.task_ctx()).await.unwrap();
            let column = |batch: &RecordBatch, at: usize| {
                batch.column(at).as_primitive::<UInt64Type>().values().to_vec()
            };
            let mut found: Vec<_> =
                pairs.iter().flat_map(|b| column(b, 0).into_iter().zip(column(b, 1))).collect();
            found.sort_unstable();
            assert_eq!(found, (0..1_000).map(|doc| (doc, doc + 9_000)).collect::<Vec<_>>());
        }
    }
}
