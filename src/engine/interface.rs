//! The interface between stages and engines.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::future::BoxFuture;

use super::control::RunControl;
use crate::error::Result;
use crate::output::manifest::File;

/// The maximum number of partitions of any plan, since each partition writes its own files.
pub(super) const MOST_PARTITIONS: usize = 4_096;

/// The factor by which the number of partitions grows after tasks ran out of memory.
const MORE_PARTITIONS: usize = 4;

/// The rows of a partition take at most a task's memory divided by this number. The two sides of a join and their hash tables need
/// several times as much.
pub(super) const BUCKET_SHARE: u64 = 6;

/// Runs physical plans.
pub trait Engine: Send + Sync {
    /// Returns the session that makes the plans for this engine.
    fn session(&self) -> &SessionContext;

    /// Returns the engine for plans in this process, if this is another engine. This process reads up to the returned number of bytes faster
    /// than it submits the plan.
    fn in_this_process(&self) -> Option<(&dyn Engine, u64)> {
        None
    }

    /// Finds the resources of this engine, such as the executors of a cluster. The plan of the next stage is sized for them.
    fn prepare<'a>(&'a self, _control: &'a RunControl) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { Ok(()) })
    }

    /// Returns the configuration for making and running plans, except for the number of partitions.
    fn config(&self) -> SessionConfig {
        self.session().copied_config()
    }

    /// Whether independent stages may run at the same time. Stages that share one memory pool would only slow each other down.
    fn runs_stages_together(&self) -> bool {
        false
    }

    /// Whether all tasks run in this process and can share memory.
    fn is_one_process(&self) -> bool {
        false
    }

    /// Returns the number of bytes that the operators of a task may reserve together.
    fn task_bytes(&self) -> usize {
        match self.session().runtime_env().memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes,
            _ => usize::MAX,
        }
    }

    /// Returns the maximum number of partitions of a plan.
    fn most_partitions(&self) -> usize {
        MOST_PARTITIONS
    }

    /// Returns the minimum number of partitions of a plan that shuffles `bytes`.
    fn least_partitions(&self, _bytes: u64) -> usize {
        self.config().target_partitions()
    }

    /// Returns the number of partitions of a plan that shuffles `bytes`. There are more than the minimum if partitions would be too large
    /// for a task.
    fn partitions(&self, bytes: u64) -> usize {
        let least = self.least_partitions(bytes);
        let needed =
            usize::try_from(bytes / self.bucket_bytes().max(1)).unwrap_or(usize::MAX).saturating_add(1);
        needed.min(self.most_partitions()).max(least)
    }

    /// Returns the next number of partitions for a plan whose tasks ran out of memory, if a larger number is allowed.
    fn more_partitions(&self, partitions: usize) -> Option<usize> {
        let more = partitions.saturating_mul(MORE_PARTITIONS).min(self.most_partitions());
        (more > partitions).then_some(more)
    }

    /// Returns the maximum size of the rows in one partition, in bytes.
    fn bucket_bytes(&self) -> u64;

    /// Runs `plan` for the stage `stage`. The plan was made with `config` and ends in a writer node. Returns one row for each written
    /// file.
    ///
    /// A plan that fails or is stopped may leave files that no returned row names. The error is [`crate::error::Kind::Memory`] if a task
    /// ran out of memory, and [`crate::error::Kind::Interrupted`] if the run was stopped.
    fn run<'a>(
        &'a self,
        stage: &'a str,
        plan: Arc<dyn ExecutionPlan>,
        config: &'a SessionConfig,
        control: &'a RunControl,
    ) -> BoxFuture<'a, Result<Vec<File>>>;
}
