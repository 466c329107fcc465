//! The session builder: functions, operators, memory and spilling, the same wherever a plan is made or run.

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
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use datafusion::prelude::{SessionConfig, SessionContext};

use super::spills::{self, Spills};
use super::stores;
use crate::error::Result;
use crate::job;
use crate::operator::OperatorPlanner;
use crate::source::Checksums;

/// The share of the memory budget that operators may reserve. The rest is for memory that no operator accounts for:
/// batches between operators, decoding and encoding, the program itself.
const POOL_SHARE: f64 = 0.7;

/// A join holds one side whole if that takes at most one part in this many of the memory pool, and the bytes of a row
/// with its entry in a hash table.
const HELD_PART: usize = 16;
pub(super) const BYTES_OF_HELD_ROW: usize = 64;

/// Rows of a batch. Documents may be long, and DataFusion gathers rows into batches of this many between threads: at its
/// default of 8,192, a batch of 5 KB texts and their shingles took 80 MB.
const BATCH_ROWS: usize = 1_024;

/// Consumers that an exhausted pool names in its error.
const NAMED_CONSUMERS: NonZeroUsize = match NonZeroUsize::new(3) {
    Some(consumers) => consumers,
    None => NonZeroUsize::MIN,
};

/// Bytes that all operators together may reserve of a budget of `memory` bytes.
pub(crate) fn pool_bytes(memory: u64) -> usize {
    (memory as f64 * POOL_SHARE) as usize
}

/// A session with our functions and operators, bounded by the job's memory budget.
///
/// # Errors
/// When the folder for spills cannot be made.
pub fn session(engine: &job::Engine) -> Result<SessionContext> {
    let config = config(SessionConfig::new(), engine.thread_count(), pool_bytes(engine.memory_bytes()));
    Ok(SessionContext::new_with_state(state(config, runtime(engine)?)?))
}

/// The memory pool, the folder for spills and the stores of a session of this process.
///
/// # Errors
/// When the folder for spills cannot be made.
pub(crate) fn runtime(engine: &job::Engine) -> Result<Arc<RuntimeEnv>> {
    let pool =
        TrackConsumersPool::new(FairSpillPool::new(pool_bytes(engine.memory_bytes())), NAMED_CONSUMERS);
    let builder = builder(engine.spill.as_ref().map(PathBuf::from))?;
    Ok(builder.with_memory_pool(Arc::new(pool)).build_arc()?)
}

/// Stores and spills, without a memory pool. Spills go to `folder`, or to the system's folder for temporary files; spills of
/// killed processes are removed there first.
///
/// # Errors
/// When the folder cannot be made.
pub(crate) fn builder(folder: Option<PathBuf>) -> Result<RuntimeEnvBuilder> {
    let parent = spills::parent(folder)?;
    spills::sweep(&parent);
    let spills = Arc::new(Spills::new(parent));
    let disk =
        DiskManagerBuilder::default().with_max_temp_directory_size(u64::MAX).with_temp_file_factory(spills);
    Ok(RuntimeEnvBuilder::new()
        .with_disk_manager_builder(disk)
        .with_object_store_registry(stores::registry()))
}

/// `config` with the settings that our plans rely on, for `partitions` whose operators reserve at most `pool_bytes` together.
pub(crate) fn config(config: SessionConfig, partitions: usize, pool_bytes: usize) -> SessionConfig {
    let mut config = Checksums::begin(config);
    config =
        config.with_target_partitions(partitions).with_batch_size(BATCH_ROWS).with_information_schema(true);
    let options = config.options_mut();
    // Each sorter reserves this for its merge: a small budget must hold one for each thread and side.
    options.execution.sort_spill_reservation_bytes =
        options.execution.sort_spill_reservation_bytes.min(pool_bytes / (8 * partitions));
    // Stages put the side that a join holds to the left, and know it better than estimates do. A small side is held whole, so
    // that the other side, such as lists of shingles, need not be shuffled. Its size is that of the files of its tables, or
    // an estimate that a filter makes several times too small.
    options.optimizer.join_reordering = false;
    options.optimizer.hash_join_single_partition_threshold = pool_bytes / HELD_PART;
    options.optimizer.hash_join_single_partition_threshold_rows = pool_bytes / HELD_PART / BYTES_OF_HELD_ROW;
    // With these filters a join waits until all its partitions have read the side that they hold. Where only some partitions
    // run at once, it would wait forever.
    options.optimizer.enable_dynamic_filter_pushdown = false;
    options.optimizer.enable_join_dynamic_filter_pushdown = false;
    config
}

/// `config` for a plan that replaces one whose tasks ran out of memory: no join holds a side whole, since the estimates of
/// its size may have been wrong.
pub fn hold_no_side(mut config: SessionConfig) -> SessionConfig {
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.hash_join_single_partition_threshold = 0;
    optimizer.hash_join_single_partition_threshold_rows = 0;
    config
}

/// `config` for a plan with this many joins that hold a side whole: each may hold this part of what one may hold alone.
pub(super) fn hold_one_part_in(mut config: SessionConfig, joins: usize) -> SessionConfig {
    let optimizer = &mut config.options_mut().optimizer;
    optimizer.hash_join_single_partition_threshold /= joins.max(1);
    optimizer.hash_join_single_partition_threshold_rows /= joins.max(1);
    config
}

/// A sort that has the memory of a task to itself reserves one part in this many for its merge. DataFusion's sort
/// reserves twice the bytes of its rows and needs three times as many: for the rows, for the sorted rows, and for the
/// keys it compares.
const MERGE_PART: usize = 3;

/// `config` for planning a stage again that sorts all rows and ran out of memory. Its plan had a sort for each partition and
/// merged them all at once, so more partitions would not help. The new plan has one sort, which may reserve `task_bytes`.
pub(crate) fn sort_alone(mut config: SessionConfig, task_bytes: usize) -> SessionConfig {
    let options = config.options_mut();
    options.execution.target_partitions = 1;
    options.execution.sort_spill_reservation_bytes = task_bytes / MERGE_PART;
    config
}

/// Partitions of a plan that this process runs at once.
#[derive(Debug, Clone, Copy)]
struct TasksAtOnce(usize);

/// The factor by which tasks are reduced when those that share a memory pool ran out of it.
const FEWER_TASKS: usize = 4;

/// `config` for plans that run `tasks` partitions at once.
pub(crate) fn with_tasks_at_once(config: SessionConfig, tasks: usize) -> SessionConfig {
    config.with_extension(Arc::new(TasksAtOnce(tasks.max(1))))
}

/// Partitions of a plan that run at once and share a memory pool; `None` where each task has its own.
pub(crate) fn tasks_at_once(config: &SessionConfig) -> Option<usize> {
    config.get_extension::<TasksAtOnce>().map(|tasks| tasks.0)
}

/// `config` for running a plan again whose tasks ran out of memory: fewer tasks run at once and share the pool. `None` if one
/// runs alone already.
pub(crate) fn fewer_tasks(config: &SessionConfig) -> Option<SessionConfig> {
    let tasks = tasks_at_once(config).filter(|tasks| *tasks > 1)?;
    Some(with_tasks_at_once(config.clone(), tasks / FEWER_TASKS))
}

/// The state of a session, with our functions and the planner that knows our operators: the same on a driver, a
/// scheduler and an executor.
///
/// # Errors
/// When a function cannot be registered.
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
