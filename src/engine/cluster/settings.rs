//! The configurations of plans on a cluster, and the partitions of its query stages.

use std::sync::Arc;

use ballista_core::extension::SessionConfigExt;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, Partitioning};
use datafusion::prelude::SessionConfig;

use super::rest::Executors;
use crate::engine::session::{self, below_divided_sides};
use crate::error::Result;
use crate::udf;

/// The maximum size of a message between driver, scheduler and executors. The largest message is a plan with its file names.
pub(super) const MESSAGE_BYTES: u32 = 128 << 20;

/// With this memory per task, one partition per core is enough. With less, there are more partitions, so that a join or an aggregation in
/// a task has fewer rows.
const ROOMY: usize = 512 << 20;

const MAX_PER_CORE: usize = 8;

/// The maximum number of partitions of a plan, unless the executors have more cores. Two query stages exchange the square of this number
/// of files, and the scheduler keeps the location of each file.
const MAX_PARTITIONS: usize = 256;

/// Returns a session state with all functions that serialized plans can contain.
pub(super) fn state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> Result<SessionState> {
    let mut state = session::state(config, runtime)?;
    for function in udf::stage_functions() {
        state.register_udf(function)?;
    }
    Ok(state)
}

fn partitions(executors: &Executors) -> usize {
    let per_core = (ROOMY / executors.task_bytes.max(1)).clamp(1, MAX_PER_CORE);
    (executors.cores * per_core).min(MAX_PARTITIONS.max(executors.cores))
}

pub(super) fn planning(executors: &Executors) -> SessionConfig {
    let partitions = partitions(executors);
    let mut config = session::config(SessionConfig::new_with_ballista(), partitions, executors.task_bytes);
    let options = config.options_mut();
    // Hash joins hold their left side in memory. Stages put the smaller side there. Sorting both sides would cost more.
    options.optimizer.prefer_hash_join = true;
    with_sides_of_planner(config)
        .set_bool("ballista.planner.adaptive.enabled", false)
        .set_u64("ballista.scheduler.max_partitions_per_task", 1)
        .set_u64("ballista.client.grpc_max_message_size", u64::from(MESSAGE_BYTES))
        // This memory is not in the task's pool. The limit is at most half of the memory that no pool accounts for.
        .set_u64(
            "ballista.shuffle.sort_based.memory_limit_per_task_bytes",
            (executors.task_bytes / 5).min(256 << 20) as u64,
        )
}

/// Returns the configuration for running `plan` as the job `name`. `plan` was made with `planning`.
pub(super) fn running(planning: &SessionConfig, plan: &Arc<dyn ExecutionPlan>, name: &str) -> SessionConfig {
    let compression = if shuffles_texts(plan) { "lz4" } else { "none" };
    let mut config = planning
        .clone()
        .set_str("ballista.job.name", name)
        .set_str("ballista.shuffle.compression.codec", compression);
    // Rows get numbers by counting in their file, so the scheduler must not split scans.
    config.options_mut().optimizer.repartition_file_scans = false;
    let config = with_sides_of_planner(config);
    let most = config.options().optimizer.hash_join_single_partition_threshold;
    config.set_u64(HELD_BYTES, below_divided_sides(plan, most) as u64)
}

/// The setting for the maximum size of a side that Ballista's scheduler holds whole, in bytes.
const HELD_BYTES: &str = "ballista.optimizer.broadcast_join_threshold_bytes";

/// Sets the scheduler's limits on sides that are held whole to the planner's limits, because the scheduler optimizes joins again.
fn with_sides_of_planner(config: SessionConfig) -> SessionConfig {
    let optimizer = &config.options().optimizer;
    let (bytes, rows) =
        (optimizer.hash_join_single_partition_threshold, optimizer.hash_join_single_partition_threshold_rows);
    config
        .set_u64(HELD_BYTES, bytes as u64)
        .set_u64("ballista.optimizer.broadcast_join_threshold_rows", rows as u64)
}

/// Returns the approximate number of partitions in the query stages of a plan. Ballista may plan some joins differently.
pub(super) fn query_stage_partitions(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    partition_count(plan) + before_shuffles(plan)
}

fn partition_count(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    plan.output_partitioning().partition_count() as u64
}

/// Whether a plan divides rows with texts by a key. Other stages shuffle hashes, which no codec can compress.
fn shuffles_texts(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let has_texts = || plan.schema().fields().iter().any(|field| field.data_type().is_string());
    divides(plan) && has_texts() || plan.children().into_iter().any(shuffles_texts)
}

fn divides(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_hash = |plan: &RepartitionExec| matches!(plan.partitioning(), Partitioning::Hash(..));
    plan.downcast_ref::<RepartitionExec>().is_some_and(is_hash)
}

/// Returns the number of partitions in the query stages whose rows are shuffled.
fn before_shuffles(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let ends_stage =
        plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>() || divides(plan);
    let partitions = |input: &Arc<dyn ExecutionPlan>| {
        before_shuffles(input) + if ends_stage { partition_count(input) } else { 0 }
    };
    plan.children().into_iter().map(partitions).sum()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::stats::Precision;
    use datafusion::common::{JoinType, NullEquality, Statistics};
    use datafusion::physical_expr::PhysicalExpr;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
    use datafusion::physical_plan::test::exec::StatisticsExec;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    /// Returns a join of two sides with `rows` rows of two numbers and an unknown size in bytes.
    fn joined(rows: usize, mode: PartitionMode) -> Arc<dyn ExecutionPlan> {
        let schema =
            Schema::new(["id", "number"].map(|name| Field::new(name, DataType::UInt64, false)).to_vec());
        let column_statistics = Statistics::unknown_column(&schema);
        let (num_rows, total_byte_size) = (Precision::Exact(rows), Precision::Absent);
        let statistics = Statistics { num_rows, total_byte_size, column_statistics };
        let side: Arc<dyn ExecutionPlan> = Arc::new(StatisticsExec::new(statistics, schema));
        let id: Arc<dyn PhysicalExpr> = Arc::new(Column::new("id", 0));
        let on = vec![(Arc::clone(&id), id)];
        let (right, nulls) = (Arc::clone(&side), NullEquality::NullEqualsNothing);
        let join = HashJoinExec::try_new(side, right, on, None, &JoinType::Inner, None, mode, nulls, false);
        Arc::new(join.unwrap())
    }

    #[test]
    fn the_scheduler_holds_no_side_that_the_plan_does_not_hold() {
        let planned = planning(&Executors { count: 2, cores: 4, task_bytes: 64 << 20 });
        let optimizer = &planned.options().optimizer;
        let bytes = optimizer.hash_join_single_partition_threshold;
        assert_eq!((bytes, optimizer.hash_join_single_partition_threshold_rows), (4 << 20, 65_536));
        let held_below = |rows, mode| {
            running(&planned, &joined(rows, mode), "job").ballista_config().broadcast_join_threshold_bytes()
        };
        // The scheduler assumes 16 bytes for a row of two numbers, and the planner assumes more.
        for rows in [65_536, 70_000, 200_000] {
            assert!(held_below(rows, PartitionMode::Partitioned) <= 16 * rows, "{rows}");
        }
        assert_eq!(held_below(70_000, PartitionMode::CollectLeft), bytes);
        assert_eq!(held_below(1_000_000, PartitionMode::Partitioned), bytes);
        let executors = Executors { count: 1, cores: 2, task_bytes: 1 << 30 };
        let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let threshold =
            |config| running(&config, &plan, "job").ballista_config().broadcast_join_threshold_bytes();
        let planned = planning(&executors).options().optimizer.hash_join_single_partition_threshold;
        assert!(planned > 1 << 20);
        assert_eq!(threshold(planning(&executors)), planned);
        assert_eq!(threshold(session::hold_no_side(planning(&executors))), 0);
    }

    #[test]
    fn partitions_are_a_sane_multiple_of_the_cores() {
        for (cores, task_bytes, expected) in [
            (2, 1 << 30, 2),
            (2, 256 << 20, 4),
            (2, 45 << 20, 16),
            (16, 64 << 20, 128),
            (200, 64 << 20, MAX_PARTITIONS),
            (400, 64 << 20, 400),
        ] {
            let executors = Executors { count: 1, cores, task_bytes };
            assert_eq!(partitions(&executors), expected, "{executors:?}");
        }
    }

    #[tokio::test]
    async fn each_shuffle_ends_a_query_stage() {
        let config = SessionConfig::new().with_target_partitions(3);
        let session = SessionContext::new_with_config(config);
        let plan = async |sql: &str| session.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
        let rows = plan("SELECT value FROM generate_series(1, 100)").await;
        assert_eq!(query_stage_partitions(&rows), partition_count(&rows));
        let grouped = plan("SELECT value % 7, count(*) FROM generate_series(1, 100) GROUP BY 1").await;
        let mut below = &grouped;
        while !below.is::<RepartitionExec>() || !matches!(below.output_partitioning(), Partitioning::Hash(..))
        {
            below = below.children()[0];
        }
        let scanned = partition_count(below.children()[0]);
        assert_eq!((partition_count(&grouped), query_stage_partitions(&grouped)), (3, 3 + scanned));
        assert!(!shuffles_texts(&grouped));
        let texts = "SELECT arrow_cast(value, 'Utf8View'), count(*) FROM generate_series(1, 100) GROUP BY 1";
        assert!(shuffles_texts(&plan(texts).await));
        let merged: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(grouped));
        assert_eq!(query_stage_partitions(&merged), 1 + 3 + scanned);
    }
}
