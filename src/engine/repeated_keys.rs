//! A filter in front of an exchange: rows whose key no other row has do not travel.
//!
//! Most documents share no bucket with another one, so most rows of a self-join on the bucket have no partner. The input is read
//! twice: the first time its keys set two bits of a slot (seen, and seen twice), and the second time only rows of slots that were
//! seen twice go on. Keys that share a slot by chance go on too, so the filter never removes a row that has a partner. It is a
//! counting Bloom filter (Fan, Cao, Almeida and Broder, *Summary cache*, SIGCOMM 1998) with one hash and a counter of two bits,
//! which counts to two.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::BooleanArray;
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use datafusion::common::Result;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, reset_plan_states};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use crate::plan::{
    Batches, Description, OperatorExec, Shape, SharedValue, Task, file_scan, only_input, scanned_rows,
};

/// The filter takes at most one part in this many of the memory pool.
const PART_OF_POOL: usize = 8;

/// Keys whose slots are looked up before they are set, so that the processor waits for all of them at once.
const KEYS_AT_ONCE: usize = 64;

/// The rows of `input` whose first column, a UInt64, is also in another row, and few others. `tasks` partitions are read
/// at once. `input` is read twice, so it must not have an exchange.
pub(super) fn repeated_keys(input: Arc<dyn ExecutionPlan>, tasks: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let keys = most_rows(&input).unwrap_or_else(|| most_keys(&input));
    OperatorExec::plan(RepeatedKeys { keys, tasks }, vec![input])
}

/// Drops rows whose key no other row has.
#[derive(Debug, Clone)]
struct RepeatedKeys {
    /// About how many rows there are.
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
    /// Reads all keys of `input`. `None` if there is no memory for a filter that would remove rows.
    async fn seen_twice(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<Option<SeenTwice>> {
        let Some(seen) = SeenTwice::for_keys(self.keys, context) else { return Ok(None) };
        let (seen, input) = (Arc::new(seen), keys_of(reset_plan_states(Arc::clone(input))?, context)?);
        let partitions = stream::iter(0..input.output_partitioning().partition_count());
        let read = partitions.map(|partition| {
            let (rows, seen) = (input.execute(partition, Arc::clone(context)), Arc::clone(&seen));
            let task = SpawnedTask::spawn(async move { add_keys(rows?, &seen).await });
            async move { task.join().await.map_err(|e| DataFusionError::ExecutionJoin(Box::new(e)))? }
        });
        read.buffer_unordered(self.tasks.max(1)).try_collect::<()>().await?;
        Ok(Arc::into_inner(seen))
    }
}

async fn add_keys(mut rows: SendableRecordBatchStream, seen: &SeenTwice) -> Result<()> {
    while let Some(batch) = rows.next().await.transpose()? {
        as_uint64_array(batch.column(0))?.values().chunks(KEYS_AT_ONCE).for_each(|keys| seen.add(keys));
        tokio::task::consume_budget().await;
    }
    Ok(())
}

/// The first column of `input`, so that only that one is read where the files have it.
fn keys_of(input: Arc<dyn ExecutionPlan>, context: &TaskContext) -> Result<Arc<dyn ExecutionPlan>> {
    let name = input.schema().field(0).name().clone();
    let key = vec![(Arc::new(Column::new(&name, 0)) as Arc<dyn PhysicalExpr>, name)];
    let keys = Arc::new(ProjectionExec::try_new(key, input)?);
    ProjectionPushdown::new().optimize(keys, context.session_config().options())
}

/// The rows of the files of `plan`; `None` if it may have more rows than those.
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

/// The most keys that the files of `plan` can have: a key is a hash of 8 bytes, which does not compress.
fn most_keys(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    match file_scan(plan) {
        Some(scan) => {
            let files = scan.file_groups.iter().flat_map(|group| group.iter());
            files.map(|file| file.effective_size() / 8).sum()
        }
        None => plan.children().into_iter().map(most_keys).sum(),
    }
}

/// Two bits for each slot: seen, and seen twice.
#[derive(Debug)]
struct SeenTwice {
    slots: Vec<AtomicU64>,
    /// The bits of a mixed key that are not its slot.
    shift: u32,
    _held: MemoryReservation,
}

/// Slots in a number of 64 bits.
const SLOTS: usize = 32;

impl SeenTwice {
    /// A filter with four slots or more for each of `keys`, or fewer if the memory is small. `None` below one for each.
    fn for_keys(keys: u64, context: &TaskContext) -> Option<Self> {
        let held = MemoryConsumer::new("RepeatedKeys").register(context.memory_pool());
        let most = match context.memory_pool().memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / PART_OF_POOL,
            MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
        };
        let keys = usize::try_from(keys).ok()?.max(SLOTS);
        let mut slots = keys.checked_mul(4)?.checked_next_power_of_two()?;
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

    /// The place of a key's number, and its first bit there.
    #[inline(always)]
    fn slot(&self, key: u64) -> (usize, u32) {
        // A key may have the same bits in many rows, as the number of its band.
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
            // What was found may be old, and then lacks bits that are set here again.
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

    use arrow::array::{RecordBatch, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    fn context(pool: usize) -> Arc<TaskContext> {
        let pool = Arc::new(GreedyMemoryPool::new(pool));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc().unwrap();
        SessionContext::new_with_config_rt(SessionConfig::new(), runtime).task_ctx()
    }

    /// (key, number): a third of the keys are in two rows, which are in different partitions.
    fn rows() -> Vec<Vec<(u64, u64)>> {
        let key = |number: u64| (number % 15_000).wrapping_mul(0x2545_F491_4F6C_DD1D);
        let row = |number: u64| (key(number), number);
        vec![(0..7_000).map(row).collect(), (7_000..20_000).map(row).collect()]
    }

    fn plan(rows: &[Vec<(u64, u64)>]) -> Arc<dyn ExecutionPlan> {
        let column = |name| Field::new(name, DataType::UInt64, false);
        let schema = Arc::new(Schema::new(vec![column("key"), column("number")]));
        let batch = |rows: &[(u64, u64)]| {
            let column =
                |value: fn(&(u64, u64)) -> u64| UInt64Array::from_iter_values(rows.iter().map(value));
            let columns = [column(|row| row.0), column(|row| row.1)].map(|column| Arc::new(column) as _);
            RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).unwrap()
        };
        let partitions: Vec<Vec<_>> =
            rows.iter().map(|rows| rows.chunks(1_000).map(batch).collect()).collect();
        MemorySourceConfig::try_new_exec(&partitions, schema.clone(), None).unwrap()
    }

    fn filter(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        OperatorExec::plan(RepeatedKeys { keys: 20_000, tasks: 2 }, vec![input]).unwrap()
    }

    async fn filtered(filter: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for partition in 0..filter.output_partitioning().partition_count() {
            let batches = filter.execute(partition, Arc::clone(context)).unwrap();
            for batch in batches.try_collect::<Vec<_>>().await.unwrap() {
                let column = |at: usize| as_uint64_array(batch.column(at)).unwrap().values().to_vec();
                found.extend(column(0).into_iter().zip(column(1)));
            }
        }
        found
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_row_whose_key_another_row_has_goes_on() {
        let rows = rows();
        let mut times: BTreeMap<u64, usize> = BTreeMap::new();
        rows.iter().flatten().for_each(|row| *times.entry(row.0).or_default() += 1);
        let context = context(1 << 30);
        let found = filtered(&filter(plan(&rows)), &context).await;
        let repeated = |found: &[(u64, u64)]| -> Vec<_> {
            found.iter().copied().filter(|row| times[&row.0] > 1).collect()
        };
        assert_eq!(repeated(&found), repeated(&rows.concat()));
        assert_eq!(repeated(&found).len(), 10_000);
        // By chance a fifth of the others at most.
        assert!(found.len() < 12_000, "{} rows", found.len());
        assert_eq!(context.memory_pool().reserved(), 0);
    }

    #[tokio::test]
    async fn without_memory_for_a_filter_all_rows_go_on() {
        let (rows, context) = (rows(), context(16));
        let filter = filter(plan(&rows));
        assert_eq!(filtered(&filter, &context).await, rows.concat());
    }
}
