//! What an engine is to whoever runs steps on it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};

use super::control::RunControl;
use crate::error::Result;
use crate::output::manifest::File;

/// Partitions of a plan, at most: for each there may be a file that is open.
const MAX_PARTITIONS: usize = 512;

/// A plan whose tasks had too little memory is made again with so many times more partitions.
const MORE_PARTITIONS: usize = 4;

/// Of what a task may reserve, the share that the rows of a partition may take: there are those of two sides of a join, and
/// what is built of them.
pub(super) const BUCKET_SHARE: u64 = 6;

/// What runs physical plans.
#[async_trait]
pub trait Engine: Send + Sync {
    /// The session that plans what this engine runs.
    fn session(&self) -> &SessionContext;

    /// Looks at what there is to run plans on. It is asked before each step, and the step's plan fits what it finds.
    ///
    /// # Errors
    /// When there is nothing, also after a time.
    async fn prepare(&self, _control: &RunControl) -> Result<()> {
        Ok(())
    }

    /// What plans are made with, but for their number of partitions, and what they are run with.
    fn config(&self) -> SessionConfig {
        self.session().copied_config()
    }

    /// Whether two steps that do not need each other may run at the same time. Where all tasks share one memory, a second
    /// step would only take from the first.
    fn runs_steps_together(&self) -> bool {
        false
    }

    /// Whether all tasks run in this process: what one of them holds others can use, and what one has written others can read.
    fn is_one_process(&self) -> bool {
        false
    }

    /// Bytes that the operators of a task may reserve together.
    fn task_bytes(&self) -> usize {
        match self.session().runtime_env().memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes,
            _ => usize::MAX,
        }
    }

    /// Partitions of a plan that shuffles so many bytes between them: one for each task that can run at once, or more where
    /// the rows of a partition would take too much of what a task may hold.
    fn partitions(&self, bytes: u64) -> usize {
        let least = self.config().target_partitions();
        let needed =
            usize::try_from(bytes / self.bucket_bytes().max(1)).unwrap_or(usize::MAX).saturating_add(1);
        needed.min(MAX_PARTITIONS).max(least)
    }

    /// Partitions of a plan instead of one whose tasks ran out of memory with so many; `None` if there are no more.
    fn more_partitions(&self, partitions: usize) -> Option<usize> {
        let more = partitions.saturating_mul(MORE_PARTITIONS).min(MAX_PARTITIONS);
        (more > partitions).then_some(more)
    }

    /// Bytes of rows that one partition may have, so that a task can hold them with what it builds of them.
    fn bucket_bytes(&self) -> u64;

    /// Runs `plan`, which was made with `config` and ends in a writer node, for the step `step`, and returns a row for each
    /// file that it wrote.
    ///
    /// Files of a plan that fails or is stopped may stay behind; no row names them.
    ///
    /// # Errors
    /// What the plan's operators say, [`crate::error::Kind::Memory`] when a task had too little of it, or
    /// [`crate::error::Kind::Interrupted`] when `control` was told to stop.
    async fn run(
        &self,
        step: &str,
        plan: Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
        control: &RunControl,
    ) -> Result<Vec<File>>;
}
