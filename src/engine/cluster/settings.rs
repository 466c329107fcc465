//! The configuration that plans are made and run with on a cluster.

use std::sync::Arc;

use ballista_core::extension::SessionConfigExt;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::prelude::SessionConfig;

use super::rest::Executors;
use crate::engine::session;
use crate::error::Result;
use crate::udf;

/// The largest message between driver, scheduler and executors: a plan with the names of its files.
pub(super) const MESSAGE_BYTES: u32 = 128 << 20;

/// Memory of a task from which one partition for each core is enough. With less there are more partitions, so that what a
/// task holds at once of a join or an aggregation is less too.
const ROOMY: usize = 512 << 20;

/// Partitions for each core, at most.
const MAX_PER_CORE: usize = 8;

/// Partitions of a plan, unless there are more cores. Between two query stages there are as many pieces as the square of
/// them, and the scheduler keeps the place of each.
const MAX_PARTITIONS: usize = 256;

/// A session in which plans that arrive as bytes find all they name.
///
/// # Errors
/// When a function cannot be registered.
pub(super) fn state(config: SessionConfig, runtime: Arc<RuntimeEnv>) -> Result<SessionState> {
    let mut state = session::state(config, runtime)?;
    for function in udf::of_stages() {
        state.register_udf(function)?;
    }
    Ok(state)
}

/// Partitions of a plan for executors of so many cores together.
fn partitions(executors: &Executors) -> usize {
    let per_core = (ROOMY / executors.task_bytes.max(1)).clamp(1, MAX_PER_CORE);
    (executors.cores * per_core).min(MAX_PARTITIONS.max(executors.cores))
}

/// What plans are made with: they fit the executors that are there.
pub(super) fn planning(executors: &Executors) -> SessionConfig {
    let partitions = partitions(executors);
    let mut config = session::config(SessionConfig::new_with_ballista(), partitions, executors.task_bytes);
    let options = config.options_mut();
    // Hash joins hold one side, which the stages see to being the small one; sorting both costs more.
    options.optimizer.prefer_hash_join = true;
    config
        .set_bool("ballista.planner.adaptive.enabled", false)
        .set_u64("ballista.scheduler.max_partitions_per_task", 1)
        .set_u64("ballista.client.grpc_max_message_size", u64::from(MESSAGE_BYTES))
        // What is held whole is what the planner says; the scheduler thinks so too.
        .set_u64("ballista.optimizer.broadcast_join_threshold_bytes", (executors.task_bytes / 4) as u64)
        .set_u64("ballista.optimizer.broadcast_join_threshold_rows", (executors.task_bytes / 256) as u64)
        // Beside the task's pool, and no more than half of what the executor keeps for what no pool accounts for.
        .set_u64(
            "ballista.shuffle.sort_based.memory_limit_per_task_bytes",
            (executors.task_bytes / 5).min(256 << 20) as u64,
        )
}

/// What a plan that was made with `planning` is run with, as the job `name`.
pub(super) fn running(planning: &SessionConfig, name: &str) -> SessionConfig {
    let mut config = planning.clone().set_str("ballista.job.name", name);
    // The rows of a file are numbered by counting, so the scheduler must leave scans as they were planned.
    config.options_mut().optimizer.repartition_file_scans = false;
    // The scheduler looks at joins once more. Where the planner was told to hold no side whole, it must not either.
    match config.options().optimizer.hash_join_single_partition_threshold {
        0 => config
            .set_u64("ballista.optimizer.broadcast_join_threshold_bytes", 0)
            .set_u64("ballista.optimizer.broadcast_join_threshold_rows", 0),
        _ => config,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_holds_no_side_is_run_by_a_scheduler_that_holds_none() {
        let executors = Executors { count: 1, cores: 2, task_bytes: 1 << 30 };
        let threshold = |config| running(&config, "job").ballista_config().broadcast_join_threshold_bytes();
        assert_eq!(threshold(planning(&executors)), 1 << 28);
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
}
