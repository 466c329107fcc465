//! The one session, and the seam behind which a plan runs: here, or on a cluster.
//!
//! A step's plan is made by this session, ends in the writer node of [`crate::sink::write`] and is handed to an
//! [`Engine`], which gives back one row for each file that the plan wrote.

mod buckets;
pub mod cluster;
mod deal;
mod exchange;
mod local;
pub mod session;
pub mod spills;
pub mod stores;

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::job;
use crate::sink::manifest::File;

pub use cluster::Cluster;
pub use local::Local;

/// Partitions of a plan, at most: for each there may be a file that is open.
const MAX_PARTITIONS: usize = 512;

/// A plan whose tasks had too little memory is made anew with so many times more partitions.
const MORE_PARTITIONS: usize = 4;

/// Of what a task may reserve, the share that the rows of a partition may take: there are those of two sides of a join, and
/// what is built of them.
const BUCKET_SHARE: u64 = 6;

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

    /// Partitions of a plan in place of one whose tasks ran out of memory with so many; none where there are no more.
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

/// The engine that a job asks for: this process, or a cluster once it is there.
///
/// # Errors
/// When the folder for spills cannot be made, or no cluster answers.
pub async fn open(engine: &job::Engine, control: &RunControl) -> Result<Box<dyn Engine>> {
    Ok(match &engine.cluster {
        None => Box::new(Local::new(session::session(engine)?)),
        Some(cluster) => Box::new(Cluster::connect(engine, cluster, control).await?),
    })
}

/// What controls a run from outside: a way to stop it, and somebody who is told how far it is.
#[derive(Clone)]
pub struct RunControl {
    /// Stops the run when it is cancelled.
    pub stop: CancellationToken,
    /// Is told how far the run is.
    pub progress: Arc<dyn Progress>,
}

impl RunControl {
    /// Nobody stops the run, and nobody is told how far it is.
    pub fn detached() -> Self {
        Self { stop: CancellationToken::new(), progress: Arc::new(Silent) }
    }
}

/// Is told how far a run is. Called often: an implementation must not block.
pub trait Progress: Send + Sync {
    /// A step begins: its place among `steps`, from 1.
    fn step_begins(&self, name: &str, number: usize, steps: usize);

    /// The running step has read `rows_in` rows and written `rows_out` so far.
    fn step_advances(&self, rows_in: u64, rows_out: u64);

    /// Of the running step's tasks that a cluster has begun, this many are done, in `query_stages_done` of its
    /// `query_stages`.
    fn tasks(&self, _done: usize, _begun: usize, _query_stages_done: usize, _query_stages: usize) {}

    /// The running step is done again, in part or whole: the cluster lost a part of it, or it ran out of memory.
    fn recovering(&self, _why: &str) {}

    /// A step ended, or was found finished by an earlier run (`reused`).
    fn step_ends(&self, name: &str, rows: u64, seconds: f64, reused: bool);
}

/// Progress that nobody looks at.
pub struct Silent;

impl Progress for Silent {
    fn step_begins(&self, _name: &str, _number: usize, _steps: usize) {}
    fn step_advances(&self, _rows_in: u64, _rows_out: u64) {}
    fn step_ends(&self, _name: &str, _rows: u64, _seconds: f64, _reused: bool) {}
}
