//! The exchange on one machine: rows are divided into partitions by the hash of their key, and the partitions are read one after another.
//!
//! This is the shuffle of MapReduce (Dean and Ghemawat, OSDI 2004, section 3.1) within a process. On a cluster, the same plan has a query
//! stage with as many partitions instead. DataFusion's own node runs all partitions above it at the same time, and each of them holds
//! memory. This node stores the rows in a [`PartitionStore`]. So at most one partition per thread is open, and the number of partitions
//! can depend on the amount of data.
//!
//! A filter in front of an exchange drops rows whose key occurs in no other row. Most documents share no bucket with another document, so
//! most rows of a self-join on the bucket have no partner. The filter reads its input twice. In the first pass, each key sets a bit of
//! its slot: seen, or seen twice. The second pass returns only rows whose slot was seen twice. Keys that share a slot by chance also
//! pass, so a row with a partner is never dropped. The filter is a counting Bloom filter (Fan, Cao, Almeida and Broder, *Summary cache*,
//! SIGCOMM 1998) with one hash and counters of two bits.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::internal_err;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, reset_plan_states};
use datafusion::physical_plan::metrics::{SpillMetrics, Time};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::{BatchPartitioner, RepartitionExec};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::future::{BoxFuture, Shared};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt};

use crate::operator::bucket_pairs::PairRule;
use crate::operator::filters::MayRepeat;
use crate::operator::score::Scoring;
use crate::plan::{
    Batches, Description, Gathered, OperatorExec, PartitionReads, PartitionStore, Requirement, Shape,
    SharedValue, Task, file_scan, only_input, scanned_rows,
};

/// Rows are gathered up to this number of rows or bytes before they are divided. Otherwise many partitions would get only one or two rows
/// of each batch, and a batch costs more than a row.
const GATHERED_ROWS: usize = 1 << 16;
const GATHERED_BYTES: usize = 4 << 20;

/// Starts a task for each partition of `plan`, at most `tasks` at the same time. Returns the results of `work` in the order in which the
/// tasks end.
pub(super) fn run_partitions<T: Send + 'static, F: Future<Output = Result<T>> + Send + 'static>(
    plan: &Arc<dyn ExecutionPlan>,
    tasks: usize,
    context: &Arc<TaskContext>,
    work: impl Fn(SendableRecordBatchStream) -> F + Send + 'static,
) -> BoxStream<'static, Result<T>> {
    let partitions = plan.output_partitioning().partition_count();
    let (plan, context) = (Arc::clone(plan), Arc::clone(context));
    let run = move |partition| {
        let work = plan.execute(partition, Arc::clone(&context)).map(&work);
        let task = SpawnedTask::spawn(async move { work?.await });
        async move { task.join().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))? }
    };
    stream::iter(0..partitions).map(run).buffer_unordered(tasks.max(1)).boxed()
}

/// Replaces DataFusion's node by this exchange wherever `plan` divides rows by a key. At most `tasks` input partitions of an exchange run
/// at the same time.
pub(super) fn exchange(plan: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        if OperatorExec::<Scoring>::described(node.as_ref()).is_some_and(Scoring::reads_again) {
            let inputs = node.children().into_iter().map(|input| readable_again(Arc::clone(input), tasks));
            let inputs = inputs.collect::<Result<_>>()?;
            return Ok(Transformed::yes(with_inputs(node, inputs)?));
        }
        if let Some(PairRule::All { .. }) = OperatorExec::described(node.as_ref()) {
            return filter_self_join(node, tasks);
        }
        if OperatorExec::<MayRepeat>::described(node.as_ref()).is_some() {
            let rows = only_child(&node)?;
            let filtered = if has_exchange(&rows)? { rows } else { repeated_keys(rows, tasks)? };
            return Ok(Transformed::yes(filtered));
        }
        match node.downcast_ref::<RepartitionExec>() {
            Some(engines) if matches!(engines.partitioning(), Partitioning::Hash(..)) => {
                let properties = Arc::clone(engines.properties());
                let exchange = Exchange { properties, tasks, reads: PartitionReads::Once };
                Ok(Transformed::yes(OperatorExec::plan(exchange, vec![Arc::clone(engines.input())])?))
            }
            _ => Ok(Transformed::no(node)),
        }
    })
    .data()
}

/// Adds a filter in front of the exchange of a self-join if the exchange's input can be read twice.
fn filter_self_join(
    join: Arc<dyn ExecutionPlan>,
    tasks: usize,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let exchange = only_child(&join)?;
    if !is_exchange(&exchange) {
        return Ok(Transformed::no(join));
    }
    let rows = only_child(&exchange)?;
    if has_exchange(&rows)? {
        return Ok(Transformed::no(join));
    }
    let filtered = with_inputs(exchange, vec![repeated_keys(rows, tasks)?])?;
    Ok(Transformed::yes(with_inputs(join, vec![filtered])?))
}

fn is_exchange(plan: &Arc<dyn ExecutionPlan>) -> bool {
    OperatorExec::<Exchange>::described(plan.as_ref()).is_some()
}

/// Whether `plan` contains an exchange. The rows of an exchange can be read only once.
fn has_exchange(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| Ok(is_exchange(node)))
}

fn only_child(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    match plan.children().as_slice() {
        [child] => Ok(Arc::clone(child)),
        children => internal_err!("{} has {} inputs", plan.name(), children.len()),
    }
}

fn with_inputs(
    plan: Arc<dyn ExecutionPlan>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Returns the rows of `plan` in the same partitions, in a form that can be read repeatedly. They are on disk before the node above
/// starts, so they use no memory while it runs.
fn readable_again(plan: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let (properties, input) = match OperatorExec::<Exchange>::described(plan.as_ref()) {
        Some(exchange) => (Arc::clone(&exchange.properties), only_child(&plan)?),
        // A single task reads the single partition only once, so the rows need not be stored.
        None if plan.output_partitioning().partition_count() == 1 => return Ok(plan),
        // Rows that are partitioned without an exchange pass through an exchange into the same partitions.
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
    /// The properties of DataFusion's node, which returns the same rows in the same partitions.
    properties: Arc<PlanProperties>,
    tasks: usize,
    reads: PartitionReads,
}

/// The filled store. Reading the first partition starts to fill it. Filling stops when all futures that await it are dropped.
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
    /// Fills a store with the rows of `input`, with a task per partition.
    fn fill(
        &self,
        key: &[Arc<dyn PhysicalExpr>],
        count: usize,
        input: &Arc<dyn ExecutionPlan>,
        task: &Task<'_, OnceLock<Filled>>,
    ) -> Filled {
        let metrics = SpillMetrics::new(task.metrics, 0);
        let store =
            PartitionStore::new("Exchange", (count, self.reads), input.schema(), metrics, &task.context);
        let (key, store) = (key.to_vec(), Arc::new(store));
        let filling = Arc::clone(&store);
        let divided = run_partitions(input, self.tasks, &task.context, move |rows| {
            divide(rows, key.clone(), count, Arc::clone(&filling))
        });
        let filled = async move {
            divided.try_collect::<()>().await?;
            store.complete()?;
            Ok(store)
        };
        filled.map_err(Arc::new).boxed().shared()
    }
}

async fn divide(
    mut rows: SendableRecordBatchStream,
    key: Vec<Arc<dyn PhysicalExpr>>,
    count: usize,
    store: Arc<PartitionStore>,
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

/// The maximum size of the filter is the memory pool divided by this number.
const PART_OF_POOL: usize = 8;

/// The number of keys whose slots are loaded before any is set, so that the processor waits for all these loads at once.
const KEYS_AT_ONCE: usize = 64;

/// Returns the rows of `input` whose first column, a UInt64, has the same value in another row. By chance, also returns a few other rows.
/// Reads `input` twice, `tasks` partitions at a time, so `input` must not contain an exchange.
fn repeated_keys(input: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let keys = most_rows(&input).unwrap_or_else(|| most_keys(&input));
    OperatorExec::plan(RepeatedKeys { keys, tasks }, vec![input])
}

#[derive(Debug, Clone)]
struct RepeatedKeys {
    /// The approximate number of rows.
    keys: u64,
    tasks: usize,
}

impl Description for RepeatedKeys {
    const NAME: &'static str = "RepeatedKeysExec";

    type Shared = SharedValue<Option<SeenTwice>>;

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let input = only_input(Self::NAME, inputs)?;
        Ok(Shape::in_partitions_of(input, input.schema()))
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let (shared, partition, context) = (Arc::clone(task.shared), task.partition, task.context);
        let input = Arc::clone(only_input(Self::NAME, task.inputs)?);
        let rows = async move {
            let seen = shared.get(self.seen_twice(&input, &context)).await?;
            let rows = input.execute(partition, context)?;
            Ok::<_, DataFusionError>(rows.map(move |batch| {
                let batch = batch?;
                let Some(seen) = seen.as_ref() else { return Ok(batch) };
                let keys = as_uint64_array(batch.column(0))?.values();
                let repeated = BooleanBuffer::collect_bool(keys.len(), |row| seen.has(keys[row]));
                Ok(filter_record_batch(&batch, &BooleanArray::new(repeated, None))?)
            }))
        };
        Ok(stream::once(rows).try_flatten().boxed())
    }
}

impl RepeatedKeys {
    /// Reads all keys of `input`, and returns the filter, unless there is too little memory for an effective one.
    async fn seen_twice(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<Option<SeenTwice>> {
        let Some(seen) = SeenTwice::for_keys(self.keys, context) else { return Ok(None) };
        let (seen, input) = (Arc::new(seen), first_column(reset_plan_states(Arc::clone(input))?, context)?);
        let adding = Arc::clone(&seen);
        let read =
            run_partitions(&input, self.tasks, context, move |rows| add_keys(rows, Arc::clone(&adding)));
        read.try_collect::<()>().await?;
        Ok(Arc::into_inner(seen))
    }
}

async fn add_keys(mut rows: SendableRecordBatchStream, seen: Arc<SeenTwice>) -> Result<()> {
    while let Some(batch) = rows.next().await.transpose()? {
        as_uint64_array(batch.column(0))?.values().chunks(KEYS_AT_ONCE).for_each(|keys| seen.add(keys));
        tokio::task::consume_budget().await;
    }
    Ok(())
}

/// Returns a plan that reads only the first column of `input` from its files.
fn first_column(input: Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
    let name = input.schema().field(0).name().clone();
    let key = vec![(Arc::new(Column::new(&name, 0)) as Arc<dyn PhysicalExpr>, name)];
    let keys = Arc::new(ProjectionExec::try_new(key, input)?);
    ProjectionPushdown::new().optimize(keys, context.session_config().options())
}

/// Returns the maximum number of rows of `plan`, from the rows of its files. Returns `None` if `plan` may add rows.
fn most_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    if let Some(scan) = file_scan(plan) {
        return scanned_rows(scan);
    }
    match plan.cardinality_effect() {
        CardinalityEffect::Equal | CardinalityEffect::LowerEqual if !plan.children().is_empty() => {
            plan.children().into_iter().map(most_rows).sum()
        }
        _ => None,
    }
}

/// Returns the maximum number of keys in the files of `plan`: a key is a hash of 8 bytes, which cannot be compressed.
fn most_keys(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    match file_scan(plan) {
        Some(scan) => {
            let files = scan.file_groups.iter().flat_map(|group| group.iter());
            files.map(|file| file.effective_size() / 8).sum()
        }
        None => plan.children().into_iter().map(most_keys).sum(),
    }
}

/// Two bits per slot: seen, and seen twice.
#[derive(Debug)]
struct SeenTwice {
    slots: Vec<AtomicU64>,
    shift: u32,
    _held: MemoryReservation,
}

/// The number of slots in a 64-bit number.
const SLOTS: usize = 32;

impl SeenTwice {
    /// Returns a filter with eight or more slots per key, or fewer if there is little memory. Returns `None` if the memory is not enough
    /// for one slot per key.
    fn for_keys(keys: u64, context: &TaskContext) -> Option<Self> {
        let held = MemoryConsumer::new("RepeatedKeys").register(context.memory_pool());
        let most = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / PART_OF_POOL,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let keys = usize::try_from(keys).ok()?.max(SLOTS);
        let mut slots = keys.checked_mul(8)?.checked_next_power_of_two()?;
        while slots / 4 > most || held.try_grow(slots / 4).is_err() {
            slots /= 2;
            if slots < keys {
                return None;
            }
        }
        Some(Self {
            slots: (0..slots / SLOTS).map(|_| AtomicU64::new(0)).collect(),
            shift: 64 - slots.ilog2(),
            _held: held,
        })
    }

    /// Returns the index of the 64-bit number with a key's slot, and the position of the slot's first bit in it.
    #[inline(always)]
    fn slot(&self, key: u64) -> (usize, u32) {
        // Keys may have equal bits, such as a band's number, so they are mixed.
        let slot = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> self.shift) as usize;
        (slot / SLOTS, 2 * (slot % SLOTS) as u32)
    }

    /// Sets the bits of at most [`KEYS_AT_ONCE`] keys.
    fn add(&self, keys: &[u64]) {
        let mut found = [0; KEYS_AT_ONCE];
        for (found, &key) in found.iter_mut().zip(keys) {
            let (at, bit) = self.slot(key);
            *found = self.slots[at].load(Ordering::Relaxed) >> bit & 3;
        }
        for (&found, &key) in found.iter().zip(keys) {
            let (at, bit) = self.slot(key);
            // The loaded value may lack bits of other threads. Setting these bits again is harmless.
            if found < 2 {
                let before = self.slots[at].fetch_or(1 << bit, Ordering::Relaxed);
                if before >> bit & 1 == 1 {
                    self.slots[at].fetch_or(2 << bit, Ordering::Relaxed);
                }
            }
        }
    }

    /// Whether the slot of `key` was seen twice.
    #[inline(always)]
    fn has(&self, key: u64) -> bool {
        let (at, bit) = self.slot(key);
        self.slots[at].load(Ordering::Relaxed) >> bit & 2 != 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use datafusion::catalog::memory::MemorySourceConfig;

    use super::*;
    use crate::operator::fixtures::{numbers, pairs, session};

    const KEYS: u64 = 1_000;
    const ROWS: u64 = 300_000;

    /// Returns the rows (key, number) of several partitions, exchanged by key into `buckets` partitions.
    fn exchanged(buckets: usize) -> Arc<dyn ExecutionPlan> {
        let mut partitions = vec![Vec::new(); 5];
        (0..ROWS).for_each(|n| partitions[n as usize / 1_000 % 5].push((n % KEYS, n)));
        exchange(by_key(keyed_plan(&partitions), buckets), 2).unwrap()
    }

    fn by_key(plan: Arc<dyn ExecutionPlan>, buckets: usize) -> Arc<dyn ExecutionPlan> {
        let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new("key", 0));
        Arc::new(RepartitionExec::try_new(plan, Partitioning::Hash(vec![key], buckets)).unwrap())
    }

    type Plan = Arc<dyn ExecutionPlan>;

    async fn read(plan: &Plan, partition: usize, context: Arc<TaskContext>) -> Vec<(u64, u64)> {
        let batches = plan.execute(partition, context).unwrap().try_collect::<Vec<_>>();
        batches.await.unwrap().iter().flat_map(pairs).collect()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn all_rows_of_a_key_are_in_one_partition_in_memory_and_on_disk() {
        for (pool, spills) in [(1 << 30, false), (4 << 20, true)] {
            let session = session(pool);
            let plan = exchanged(64);
            assert_eq!(plan.name(), "ExchangeExec");
            let mut bucket_of = BTreeMap::new();
            let mut rows = Vec::new();
            for bucket in 0..64 {
                for (key, number) in read(&plan, bucket, session.task_ctx()).await {
                    assert_eq!(*bucket_of.entry(key).or_insert(bucket), bucket);
                    assert_eq!(key, number % KEYS);
                    rows.push(number);
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

    /// Divided rows share the memory of their batch, which must be counted only once.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn rows_in_memory_are_counted_once_and_free_when_they_are_read() {
        let session = session(1 << 30);
        let plan = exchanged(64);
        let bytes = ROWS as usize * 16;
        let mut before = 2 * bytes;
        for bucket in 0..64 {
            read(&plan, bucket, session.task_ctx()).await;
            let reserved = session.runtime_env().memory_pool.reserved();
            assert!(reserved < before, "{reserved} bytes after bucket {bucket}, {before} before it");
            before = reserved.max(1);
        }
    }

    /// Tests a plan whose top node is an exchange, and a partitioned plan to which `readable_again` adds an exchange.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn partitions_that_are_kept_are_read_again() {
        for (pool, exchanged_before) in [(1 << 30, true), (4 << 20, true), (1 << 30, false)] {
            let session = session(pool);
            let rows = exchanged(8);
            let column =
                |(at, name)| (Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>, name.to_owned());
            let below: Arc<dyn ExecutionPlan> = if exchanged_before {
                rows
            } else {
                let columns = ["key", "number"].into_iter().enumerate().map(column);
                Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), rows).unwrap())
            };
            let kept = readable_again(below, 2).unwrap();
            let numbers = async |bucket| {
                let rows = read(&kept, bucket, session.task_ctx()).await.into_iter();
                let mut numbers: Vec<u64> = rows.map(|(_, number)| number).collect();
                numbers.sort_unstable();
                numbers
            };
            let mut all = Vec::new();
            for bucket in 0..8 {
                let first = numbers(bucket).await;
                // Rows that are read a second time hold no memory.
                assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
                assert_eq!(numbers(bucket).await, first, "bucket {bucket}");
                all.extend(first);
            }
            all.sort_unstable();
            assert_eq!(all, (0..ROWS).collect::<Vec<_>>());
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_plan_that_is_dropped_half_way_gives_everything_back() {
        let session = session(4 << 20);
        let plan = exchanged(16);
        let mut batches = plan.execute(3, session.task_ctx()).unwrap();
        assert!(batches.try_next().await.unwrap().is_some());
        drop(batches);
        drop(plan);
        assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
    }

    /// Returns a self-join over rows (bucket, doc) that are exchanged by bucket, once or twice.
    fn self_join(times: usize) -> Arc<dyn ExecutionPlan> {
        let rows: [Vec<_>; 2] =
            [0..5_000, 5_000..10_000].map(|docs| docs.map(|doc| (doc % 9_000, doc)).collect());
        let plan = (0..times).fold(keyed_plan(&rows), |plan, _| by_key(plan, 8));
        exchange(OperatorExec::plan(PairRule::All { hot: 10 }, vec![plan]).unwrap(), 2).unwrap()
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_self_join_has_a_filter_unless_its_input_can_be_read_once_only() {
        for (times, filters) in [(1, true), (2, false)] {
            let session = session(1 << 30);
            let plan = self_join(times);
            let text = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
            assert_eq!(text.contains("RepeatedKeysExec"), filters, "{text}");
            let found = datafusion::physical_plan::collect(plan, session.task_ctx()).await.unwrap();
            let mut found: Vec<_> = found.iter().flat_map(pairs).collect();
            found.sort_unstable();
            assert_eq!(found, (0..1_000).map(|doc| (doc, doc + 9_000)).collect::<Vec<_>>());
        }
    }

    /// Returns rows (key, number). A third of the keys occur in two rows, in different partitions.
    fn keyed_rows() -> Vec<Vec<(u64, u64)>> {
        let key = |number: u64| (number % 15_000).wrapping_mul(0x2545_F491_4F6C_DD1D);
        let row = |number: u64| (key(number), number);
        vec![(0..7_000).map(row).collect(), (7_000..20_000).map(row).collect()]
    }

    fn keyed_plan(rows: &[Vec<(u64, u64)>]) -> Arc<dyn ExecutionPlan> {
        let batch = |rows: &[(u64, u64)]| numbers(["key", "number"], rows);
        let partitions: Vec<Vec<_>> =
            rows.iter().map(|rows| rows.chunks(1_000).map(batch).collect()).collect();
        MemorySourceConfig::try_new_exec(&partitions, batch(&[]).schema(), None).unwrap()
    }

    fn filter(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        OperatorExec::plan(RepeatedKeys { keys: 20_000, tasks: 2 }, vec![input]).unwrap()
    }

    async fn filtered(filter: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for partition in 0..filter.output_partitioning().partition_count() {
            found.extend(read(filter, partition, Arc::clone(context)).await);
        }
        found
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_row_whose_key_another_row_has_goes_on() {
        let rows = keyed_rows();
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        rows.iter().flatten().for_each(|row| *times.entry(row.0).or_default() += 1);
        let context = session(1 << 30).task_ctx();
        let found = filtered(&filter(keyed_plan(&rows)), &context).await;
        let repeated = |found: &[(u64, u64)]| -> Vec<_> {
            found.iter().copied().filter(|row| times[&row.0] > 1).collect()
        };
        assert_eq!(repeated(&found), repeated(&rows.concat()));
        assert_eq!(repeated(&found).len(), 10_000);
        // By chance, at most a fifth of the other rows pass.
        assert!(found.len() < 12_000, "{} rows", found.len());
        assert_eq!(context.memory_pool().reserved(), 0);
    }

    #[tokio::test]
    async fn without_memory_for_a_filter_all_rows_go_on() {
        let (rows, context) = (keyed_rows(), session(16).task_ctx());
        assert_eq!(filtered(&filter(keyed_plan(&rows)), &context).await, rows.concat());
    }
}
