//! The exchange of one machine: rows go to buckets by the hash of their key, and a bucket is read when its turn comes.
//!
//! This is the shuffle of MapReduce (Dean and Ghemawat, OSDI 2004, section 3.1) within a process. On a cluster the same
//! plan has a stage of as many partitions in its place. The engine's own node runs all partitions above it at once and
//! each of them holds something; here the rows wait, in memory while the pool has room and else on disk, so that there may
//! be as many buckets as the data needs and no more of them are open than there are threads.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet, SpillMetrics, Time};
use datafusion::physical_plan::repartition::{BatchPartitioner, RepartitionExec};
use datafusion::physical_plan::spill::spill_pool::{SpillPoolSink, spsc_channel};
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    Partitioning, PlanProperties, ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::stream::BoxStream;
use futures::{FutureExt, Stream, StreamExt, TryFutureExt, TryStreamExt, stream};

/// Rows, and bytes, that are gathered before they are divided into buckets: many buckets would else get a row or two of
/// each batch, and a batch costs more than a row.
const GATHERED_ROWS: usize = 1 << 16;
const GATHERED_BYTES: usize = 4 << 20;

/// Rows, and bytes, of the batches that are read from a bucket.
const READ_ROWS: usize = 8_192;
const READ_BYTES: usize = 1 << 20;

/// `plan` with our node in place of the engine's where that divides rows by a key. At most `tasks` partitions of what is
/// below it run at once.
pub(super) fn exchange(plan: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let Some(engines) = node.downcast_ref::<RepartitionExec>() else { return Ok(Transformed::no(node)) };
        match engines.partitioning() {
            Partitioning::Hash(..) => {
                let (input, properties) = (engines.input(), engines.properties());
                Ok(Transformed::yes(Arc::new(ExchangeExec::new(
                    Arc::clone(input),
                    Arc::clone(properties),
                    tasks,
                ))))
            }
            _ => Ok(Transformed::no(node)),
        }
    })
    .data()
}

/// Divides the rows of its input into buckets by the hash of expressions. Each partition that comes out is a bucket.
#[derive(Debug)]
struct ExchangeExec {
    input: Arc<dyn ExecutionPlan>,
    /// Those of the engine's node: the same rows in the same partitions.
    properties: Arc<PlanProperties>,
    tasks: usize,
    /// Of this run of the plan.
    buckets: Mutex<Option<Arc<Buckets>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl ExchangeExec {
    fn new(input: Arc<dyn ExecutionPlan>, properties: Arc<PlanProperties>, tasks: usize) -> Self {
        let (buckets, metrics) = (Mutex::new(None), ExecutionPlanMetricsSet::new());
        Self { input, properties, tasks, buckets, metrics }
    }

    fn key(&self) -> Result<(&[Arc<dyn PhysicalExpr>], usize)> {
        match &self.properties.partitioning {
            Partitioning::Hash(key, count) => Ok((key, *count)),
            other => internal_err!("rows are exchanged by a hash, not by {other}"),
        }
    }

    fn buckets(&self, context: &Arc<TaskContext>) -> Result<Arc<Buckets>> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(buckets) = buckets.as_ref() {
            return Ok(Arc::clone(buckets));
        }
        let (key, count) = self.key()?;
        let spills = SpillManager::new(
            context.runtime_env(),
            SpillMetrics::new(&self.metrics, 0),
            self.input.schema(),
        );
        let held = MemoryConsumer::new("Exchange").with_can_spill(true).register(context.memory_pool());
        let fill = Fill {
            input: Arc::clone(&self.input),
            key: key.to_vec(),
            count,
            tasks: self.tasks,
            context: Arc::clone(context),
        };
        let store = Store {
            spills: Arc::new(spills),
            inner: Mutex::new(Inner { buckets: (0..count).map(|_| Bucket::default()).collect(), held }),
        };
        let made = Arc::new(Buckets { store: Arc::new(store), filled: OnceLock::new(), fill });
        *buckets = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl DisplayAs for ExchangeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ExchangeExec: {}", self.properties.partitioning)
    }
}

impl ExecutionPlan for ExchangeExec {
    fn name(&self) -> &'static str {
        "ExchangeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (Some(input), true) = (children.pop(), children.is_empty()) else {
            return internal_err!("ExchangeExec has one input");
        };
        Ok(Arc::new(Self::new(input, Arc::clone(&self.properties), self.tasks)))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (buckets, schema) = (self.buckets(&context)?, self.schema());
        let read = async move {
            buckets.filled().await?;
            buckets.store.read(partition, &schema)
        };
        let batches = stream::once(read).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
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
struct Buckets {
    store: Arc<Store>,
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
    fn start(self, store: Arc<Store>) -> Filled {
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
            closed.close();
            Ok::<_, DataFusionError>(())
        };
        filled.map_err(Arc::new).boxed().shared()
    }
}

/// Divides the rows of a partition among the buckets.
async fn divide(
    mut rows: SendableRecordBatchStream,
    key: Vec<Arc<dyn PhysicalExpr>>,
    count: usize,
    store: &Store,
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

/// Batches that become one.
#[derive(Default)]
struct Gathered {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Gathered {
    fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes += get_record_batch_memory_size(&batch);
        self.batches.push(batch);
    }

    fn take(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let Self { batches, .. } = std::mem::take(self);
        Ok(concat_batches(schema, &batches)?)
    }
}

/// The rows of all buckets.
#[derive(Debug)]
struct Store {
    spills: Arc<SpillManager>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    buckets: Vec<Bucket>,
    /// For what the buckets hold in memory.
    held: MemoryReservation,
}

impl Store {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows to their buckets. Where the pool has no room for them, all that is in memory goes to disk first.
    fn add(&self, parts: impl Iterator<Item = Result<(usize, RecordBatch)>>) -> Result<()> {
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let bytes = parts.iter().map(|(_, part)| get_record_batch_memory_size(part)).sum();
        let mut inner = self.inner();
        let mut fits = inner.held.try_grow(bytes).is_ok();
        if !fits {
            for bucket in &mut inner.buckets {
                bucket.spill(&self.spills)?;
            }
            inner.held.free();
            fits = inner.held.try_grow(bytes).is_ok();
        }
        for (bucket, part) in parts {
            let Some(bucket) = inner.buckets.get_mut(bucket) else {
                return internal_err!("there is no bucket {bucket}");
            };
            bucket.memory.push(part);
            if !fits {
                bucket.spill(&self.spills)?;
            }
        }
        Ok(())
    }

    /// No more rows come: what is on disk can be read to its end.
    fn close(&self) {
        self.inner().buckets.iter_mut().for_each(|bucket| bucket.sink = None);
    }

    /// The rows of a bucket, which is empty then.
    fn read(&self, bucket: usize, schema: &SchemaRef) -> Result<SendableRecordBatchStream> {
        let mut inner = self.inner();
        let Some(Bucket { disk, memory, .. }) = inner.buckets.get_mut(bucket).map(std::mem::take) else {
            return internal_err!("there is no bucket {bucket}");
        };
        let bytes = memory.iter().map(get_record_batch_memory_size).sum();
        let held = inner.held.split(bytes);
        let rest = stream::iter(memory).map(move |batch| {
            // From here on it is the reader's.
            held.shrink(get_record_batch_memory_size(&batch).min(held.size()));
            Ok(batch)
        });
        let disk = disk.map_or_else(|| stream::empty().boxed(), StreamExt::boxed);
        let batches = gather(disk.chain(rest).boxed(), Arc::clone(schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches)))
    }
}

/// The same rows in fewer batches.
fn gather(
    batches: BoxStream<'static, Result<RecordBatch>>,
    schema: SchemaRef,
) -> impl Stream<Item = Result<RecordBatch>> {
    stream::try_unfold(batches, move |mut batches| {
        let schema = Arc::clone(&schema);
        async move {
            let mut gathered = Gathered::default();
            while gathered.rows < READ_ROWS && gathered.bytes < READ_BYTES {
                match batches.next().await.transpose()? {
                    Some(batch) => gathered.push(batch),
                    None if gathered.rows == 0 => return Ok(None),
                    None => break,
                }
            }
            Ok(Some((gathered.take(&schema)?, batches)))
        }
    })
}

/// The rows of a bucket: first those on disk, then those in memory.
#[derive(Default)]
struct Bucket {
    sink: Option<SpillPoolSink>,
    disk: Option<SendableRecordBatchStream>,
    memory: Vec<RecordBatch>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("spilled", &self.disk.is_some())
            .field("batches", &self.memory.len())
            .finish_non_exhaustive()
    }
}

impl Bucket {
    /// Writes what is in memory to disk.
    fn spill(&mut self, spills: &Arc<SpillManager>) -> Result<()> {
        if self.memory.is_empty() {
            return Ok(());
        }
        let batch = concat_batches(spills.schema(), &std::mem::take(&mut self.memory))?;
        if self.disk.is_none() {
            // One file: it is read once and then goes as a whole.
            let (sink, disk) = spsc_channel(usize::MAX, Arc::clone(spills));
            (self.sink, self.disk) = (Some(sink), Some(disk));
        }
        match &self.sink {
            Some(sink) => sink.push_batch(&batch),
            None => internal_err!("rows came to a bucket that is closed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use datafusion::arrow::array::{AsArray, UInt64Array};
    use datafusion::arrow::datatypes::{DataType, Field, Schema, UInt64Type};
    use datafusion::datasource::MemTable;
    use datafusion::execution::memory_pool::FairSpillPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_expr::expressions::Column;
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
