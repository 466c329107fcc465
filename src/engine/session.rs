//! Sessions and their configurations, which are identical wherever a plan is made or run.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::spills::{self, Spills};
use super::stores;
use crate::error::Result;
use crate::job;
use crate::operator::OperatorPlanner;
use crate::source::Checksums;

/// The share of the memory budget that operators may reserve. They do not account for the rest: batches between operators, decoding and
/// encoding, and the program itself.
const POOL_SHARE: f64 = 0.7;

/// A join holds a side whole if the side is at most as large as the memory pool divided by this number.
const HELD_PART: usize = 16;

/// The estimated size of a held row with its entry in a hash table, in bytes.
const BYTES_OF_HELD_ROW: usize = 64;

/// The number of rows in a batch. DataFusion gathers this number of rows between threads, and documents can be long. With the default of
/// 8,192, a batch of 5 KB texts and their shingles took 80 MB.
const BATCH_ROWS: usize = 1_024;

/// Returns the number of bytes that all operators may reserve from a budget of `memory` bytes.
pub(crate) fn pool_bytes(memory: u64) -> usize {
    (memory as f64 * POOL_SHARE) as usize
}

/// Returns a session with our functions and operators, limited to the job's memory budget.
///
/// # Errors
/// If the folder for spills cannot be created.
pub fn session(engine: &job::EngineSettings) -> Result<SessionContext> {
    let config = config(SessionConfig::new(), engine.thread_count(), pool_bytes(engine.memory_bytes()));
    Ok(SessionContext::new_with_state(state(config, runtime(engine)?)?))
}

/// Returns the memory pool, the folder for spills and the stores of a session in this process.
pub(crate) fn runtime(engine: &job::EngineSettings) -> Result<Arc<RuntimeEnv>> {
    // The number of memory consumers in the error of an exhausted pool.
    let named = NonZeroUsize::MIN.saturating_add(2);
    let pool = TrackConsumersPool::new(FairSpillPool::new(pool_bytes(engine.memory_bytes())), named);
    let builder = builder(engine.spill.as_ref().map(PathBuf::from), None)?;
    Ok(builder.with_memory_pool(Arc::new(pool)).build_arc()?)
}

/// Returns a builder with stores and spills, but without a memory pool. Spills go to `folder`, or to the system's folder for temporary
/// files. Spills of killed processes are removed there first. Errors about the environment of the stores name `process`, if it is given.
pub(crate) fn builder(folder: Option<PathBuf>, process: Option<String>) -> Result<RuntimeEnvBuilder> {
    let parent = spills::parent(folder)?;
    spills::sweep(&parent);
    let spills = Arc::new(Spills::new(parent));
    let disk =
        DiskManagerBuilder::default().with_max_temp_directory_size(u64::MAX).with_temp_file_factory(spills);
    Ok(RuntimeEnvBuilder::new()
        .with_disk_manager_builder(disk)
        .with_object_store_registry(stores::registry(process)))
}

/// Returns `config` with the settings on which our plans rely. The plans have `partitions` partitions, whose operators reserve at most
/// `pool_bytes` together.
pub(crate) fn config(config: SessionConfig, partitions: usize, pool_bytes: usize) -> SessionConfig {
    let mut config = Checksums::begin(config)
        .with_target_partitions(partitions)
        .with_batch_size(BATCH_ROWS)
        .with_information_schema(true);
    let options = config.options_mut();
    // Each sorter reserves this for its merge. Even a small budget must be enough for one sorter per thread and side of a join.
    options.execution.sort_spill_reservation_bytes =
        options.execution.sort_spill_reservation_bytes.min(pool_bytes / (8 * partitions));
    // Stages already put the build side of a join on the left, by sizes that are more reliable than the optimizer's estimates. A small
    // side is held in memory, so that the other side, such as lists of shingles, need not be shuffled. The size of a side comes from the
    // sizes of its files, or from an estimate. After a filter, an estimate can be several times too small.
    options.optimizer.join_reordering = false;
    options.optimizer.hash_join_single_partition_threshold = pool_bytes / HELD_PART;
    options.optimizer.hash_join_single_partition_threshold_rows = pool_bytes / HELD_PART / BYTES_OF_HELD_ROW;
    // With these filters, a join waits until all its partitions have read their held side. If only some partitions run at a time, it
    // waits forever.
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    config
}

/// Returns `config` for a new plan after tasks ran out of memory. No join holds a side whole, since the estimate of its size may be
/// wrong.
pub fn hold_no_side(mut config: SessionConfig) -> SessionConfig {
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.hash_join_single_partition_threshold = 0;
    optimizer.hash_join_single_partition_threshold_rows = 0;
    config
}

/// A single sort reserves a task's memory divided by this number for its merge. DataFusion's sort reserves twice the size of its rows, but
/// needs three times their size: for rows, sorted rows and compared keys.
const MERGE_PART: usize = 3;

/// Returns `config` for a new plan of a stage that ran out of memory while it sorted all rows. The old plan merged the sorts of all
/// partitions at once, so more partitions would not help. The new plan has a single sort, which may reserve `task_bytes`.
pub(crate) fn sort_alone(mut config: SessionConfig, task_bytes: usize) -> SessionConfig {
    let options = config.options_mut();
    options.execution.target_partitions = 1;
    options.execution.sort_spill_reservation_bytes = task_bytes / MERGE_PART;
    config
}

/// The number of partitions of one plan that run at the same time in this process.
#[derive(Debug, Clone, Copy)]
struct TasksAtOnce(usize);

/// The number of tasks is divided by this after they exhausted their shared memory pool.
const FEWER_TASKS: usize = 4;

pub(crate) fn with_tasks_at_once(config: SessionConfig, tasks: usize) -> SessionConfig {
    config.with_extension(Arc::new(TasksAtOnce(tasks.max(1))))
}

/// Returns the number of partitions of a plan that run at the same time and share a memory pool. Returns `None` if each task has its own
/// pool.
pub(crate) fn tasks_at_once(config: &SessionConfig) -> Option<usize> {
    config.get_extension::<TasksAtOnce>().map(|tasks| tasks.0)
}

/// Returns `config` for running a plan again with fewer tasks at a time, after its tasks exhausted the pool. Returns `None` if tasks
/// already run one at a time.
pub(crate) fn fewer_tasks(config: &SessionConfig) -> Option<SessionConfig> {
    let tasks = tasks_at_once(config).filter(|tasks| *tasks > 1)?;
    Some(with_tasks_at_once(config.clone(), tasks / FEWER_TASKS))
}

/// Returns the state of a session with our functions and the planner for our operators, which is the same on drivers, schedulers and
/// executors.
pub(crate) fn state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> Result<SessionState> {
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_query_planner(Arc::new(StagePlanner))
        .build();
    let context = SessionContext::new_with_state(state);
    crate::udf::register_all(&context)?;
    Ok(context.state())
}

/// Adds to `sides` the estimated size, in bytes, of each side that a join in `plan` holds whole.
fn held_sides(plan: &Arc<dyn ExecutionPlan>, sides: &mut Vec<usize>) {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>()
        && *join.partition_mode() == PartitionMode::CollectLeft
    {
        let side = StatisticsContext::new().compute(join.left().as_ref(), &StatisticsArgs::new());
        sides.push(side.map_or(0, |side| {
            let rows = side.num_rows.get_value().map(|rows| rows.saturating_mul(BYTES_OF_HELD_ROW));
            side.total_byte_size.get_value().copied().or(rows).unwrap_or(0)
        }));
    }
    plan.children().into_iter().for_each(|child| held_sides(child, sides));
}

/// Returns a configuration for planning `plan` again if all its joins together hold more than the limit of one join. `plan` was made with
/// `config`. The planner decides for each join separately whether to hold its left side, but all these sides may be in memory at the same
/// time. The new limit of a join is the old limit divided by the number of large sides. Small sides are held in addition.
pub(crate) fn holding_less(plan: &Arc<dyn ExecutionPlan>, config: &SessionConfig) -> Option<SessionConfig> {
    let most = config.options().optimizer.hash_join_single_partition_threshold;
    // A plan with one partition only supports joins that hold a side.
    if most == 0 || config.target_partitions() == 1 {
        return None;
    }
    let mut sides = Vec::new();
    held_sides(plan, &mut sides);
    let all = sides.iter().fold(0_usize, |all, side| all.saturating_add(*side));
    let large = sides.iter().filter(|side| **side > most / sides.len()).count();
    (all > most && large > 1).then(|| {
        let mut config = config.clone();
        let optimizer = &mut config.options_mut().optimizer;
        optimizer.hash_join_single_partition_threshold /= large;
        optimizer.hash_join_single_partition_threshold_rows /= large;
        config
    })
}

/// A lower bound for the scheduler's estimate of a row, in bytes. If the scheduler only knows the number of rows of a side, it estimates
/// the size of a row. For this, it adds up the widths of the columns.
#[cfg(feature = "cluster")]
const LEAST_BYTES_OF_ROW: usize = 8;

/// Returns the size in bytes below which Ballista's scheduler may hold a side of `plan` whole. It is at most `most`, the limit of the
/// planner, and smaller than any side that the planner divided because of its number of rows.
#[cfg(feature = "cluster")]
pub(super) fn below_divided_sides(plan: &Arc<dyn ExecutionPlan>, most: usize) -> usize {
    let sides = match plan.downcast_ref::<HashJoinExec>() {
        Some(join) if *join.partition_mode() == PartitionMode::Partitioned => vec![join.left(), join.right()],
        _ => Vec::new(),
    };
    let divided = sides.into_iter().filter_map(|side| {
        let side = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new()).ok()?;
        if side.total_byte_size.get_value().is_some_and(|bytes| *bytes > 0) {
            return None;
        }
        let rows = *side.num_rows.get_value()?;
        (rows.saturating_mul(BYTES_OF_HELD_ROW) >= most).then(|| rows.saturating_mul(LEAST_BYTES_OF_ROW))
    });
    let below = plan.children().into_iter().map(|input| below_divided_sides(input, most));
    divided.chain(below).fold(most, usize::min)
}

#[derive(Debug)]
struct StagePlanner;

#[async_trait]
impl QueryPlanner for StagePlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(OperatorPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{RecordBatch, UInt64Array};
    use datafusion::common::JoinType;
    use datafusion::prelude::DataFrame;

    use super::*;

    fn numbers(session: &SessionContext, name: &str, bytes: usize) -> DataFrame {
        let numbers = Arc::new(UInt64Array::from_iter_values(0..bytes as u64 / 8)) as _;
        session.read_batch(RecordBatch::try_from_iter([(name, numbers)]).unwrap()).unwrap()
    }

    fn held(plan: &Arc<dyn ExecutionPlan>) -> Vec<usize> {
        let mut sides = Vec::new();
        held_sides(plan, &mut sides);
        sides
    }

    #[tokio::test]
    async fn sides_that_are_large_together_share_what_one_may_take() {
        let settings = job::EngineSettings { threads: 2, ..job::EngineSettings::local(64 << 20) };
        let session = session(&settings).unwrap();
        let config = session.copied_config();
        let most = config.options().optimizer.hash_join_single_partition_threshold;
        // A join above another join, whose left sides have these sizes in bytes.
        let planned = async |upper: usize, lower: usize| {
            let table = |name: &str, bytes: usize| numbers(&session, name, bytes);
            let below =
                table("b", lower).join(table("c", 4 * most), JoinType::Right, &["b"], &["c"], None).unwrap();
            let above = table("a", upper).join(below, JoinType::Right, &["a"], &["c"], None).unwrap();
            above.create_physical_plan().await.unwrap()
        };
        let few = planned(800, 800).await;
        assert_eq!(held(&few).len(), 2);
        assert!(holding_less(&few, &config).is_none());
        let large = planned(most * 3 / 4, most * 3 / 4).await;
        let both = held(&large);
        assert!(both.len() == 2 && both.iter().sum::<usize>() > most, "{both:?}");
        let less = holding_less(&large, &config).unwrap();
        assert_eq!(less.options().optimizer.hash_join_single_partition_threshold, most / 2);
        let one = planned(2 * most, 800).await;
        assert_eq!(held(&one).len(), 1);
        assert!(holding_less(&one, &config).is_none());
        let unequal = planned(most * 15 / 16, most / 8).await;
        let both = held(&unequal);
        assert!(both.len() == 2 && both.iter().sum::<usize>() > most, "{both:?}");
        assert!(holding_less(&unequal, &config).is_none(), "a small side makes no difference");
    }
}
