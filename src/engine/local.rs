//! The engine that runs plans in this process.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::TryStreamExt;
use futures::future::BoxFuture;

use super::batch_queue::share_batches;
use super::control::{InputProgress, InputUnit, RunControl};
use super::exchange::{exchange, run_partitions};
use super::interface::{BUCKET_SHARE, Engine, MOST_PARTITIONS};
use super::session;
use crate::error::{Error, Kind, Result};
use crate::machine;
use crate::output::manifest::File;
use crate::plan::{OperatorExec, file_scan, scanned_rows};
use crate::rewrite::Rewrite;
use crate::source::{NumberRows, ParseFiles, READ_BYTES};

/// The interval at which the progress of the running plan is read.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum time to wait for stopped tasks, which end after their current batch.
const TASKS_END: Duration = Duration::from_secs(10);

/// The number of open files per partition: one for each exchange of a plan, and some for other uses.
const FILES_OF_PARTITION: u64 = 8;

/// The maximum number of partitions in a process that may open few files. Most systems allow 1,024 open files by default.
const FEW_PARTITIONS: usize = 512;

/// Runs plans in this process.
pub struct Local {
    session: SessionContext,
    tasks: usize,
}

impl Local {
    /// Returns an engine with the memory pool of `session`, and as many threads as the session has target partitions.
    pub fn new(session: SessionContext) -> Self {
        let tasks = session.state().config().target_partitions();
        Self { session, tasks }
    }
}

impl Engine for Local {
    fn session(&self) -> &SessionContext {
        &self.session
    }

    fn config(&self) -> SessionConfig {
        session::with_tasks_at_once(self.session.copied_config(), self.tasks)
    }

    /// Each partition on disk has an open file in each exchange of a plan.
    fn most_partitions(&self) -> usize {
        let files = machine::open_files().unwrap_or(0);
        usize::try_from(files / FILES_OF_PARTITION)
            .unwrap_or(MOST_PARTITIONS)
            .clamp(FEW_PARTITIONS, MOST_PARTITIONS)
    }

    fn is_one_process(&self) -> bool {
        true
    }

    fn bucket_bytes(&self) -> u64 {
        self.task_bytes() as u64 / self.tasks.max(1) as u64 / BUCKET_SHARE
    }

    fn run<'a>(
        &'a self,
        stage: &'a str,
        plan: Arc<dyn ExecutionPlan>,
        config: &'a SessionConfig,
        control: &'a RunControl,
    ) -> BoxFuture<'a, Result<Vec<File>>> {
        Box::pin(async move {
            let reserved = self.session.runtime_env().memory_pool.reserved();
            let ended = self.run_to_its_end(stage, plan, config, control).await;
            if ended.as_ref().is_err_and(|error| error.kind() == Kind::Memory) {
                self.reserves_at_most(reserved).await;
            }
            ended
        })
    }
}

impl Local {
    /// Runs `plan`. After an error, stopped tasks may still hold memory.
    async fn run_to_its_end(
        &self,
        stage: &str,
        plan: Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
        control: &RunControl,
    ) -> Result<Vec<File>> {
        let tasks = session::tasks_at_once(config).unwrap_or(self.tasks);
        let plan = exchange(share_batches(plan, tasks)?, tasks)?;
        let mut state = self.session.state();
        *state.config_mut() = config.clone();
        let mut written =
            run_partitions(&plan, tasks, &state.task_ctx(), |rows| rows.try_collect::<Vec<_>>());
        let mut files = Vec::new();
        let mut poll = tokio::time::interval(POLL_INTERVAL);
        loop {
            tokio::select! {
                biased;
                // Dropping the stream stops every task of the plan.
                () = control.stop.cancelled() => return Err(Error::interrupted()),
                batches = written.try_next() => match batches? {
                    Some(batches) => for batch in &batches {
                        files.extend(File::read_rows(batch)?);
                    },
                    None => break,
                },
                _ = poll.tick() => {
                    let (rows_in, rows_out) = rows_so_far(&plan);
                    control.progress.stage_advances(rows_in, rows_out);
                    if let Some(read) = input_progress(&plan) {
                        control.progress.stage_reaches(stage, read);
                    }
                }
            }
        }
        files.sort();
        Ok(files)
    }

    /// Waits until stopped tasks have released their memory, since the next plan may need all of it.
    async fn reserves_at_most(&self, bytes: usize) {
        let pool = Arc::clone(&self.session.runtime_env().memory_pool);
        let given_back = async {
            let mut poll = tokio::time::interval(Duration::from_millis(10));
            while pool.reserved() > bytes {
                poll.tick().await;
            }
        };
        if tokio::time::timeout(TASKS_END, given_back).await.is_err() {
            tracing::debug!(bytes = pool.reserved(), "tasks that were stopped still hold memory");
        }
    }
}

/// Returns the number of rows that the leaves of a plan have produced so far, and the number of rows that its root has returned.
fn rows_so_far(plan: &Arc<dyn ExecutionPlan>) -> (u64, u64) {
    fn own(plan: &Arc<dyn ExecutionPlan>) -> u64 {
        plan.metrics().and_then(|m| m.output_rows()).unwrap_or(0) as u64
    }
    fn leaves(plan: &Arc<dyn ExecutionPlan>) -> u64 {
        match plan.children().as_slice() {
            [] => own(plan),
            children => children.iter().map(|child| leaves(child)).sum(),
        }
    }
    (leaves(plan), own(plan))
}

/// Returns the part of the plan's files that was already read, if it is known. If some inputs are counted in bytes, inputs that are
/// counted in rows are ignored.
fn input_progress(plan: &Arc<dyn ExecutionPlan>) -> Option<InputProgress> {
    let mut inputs = Vec::new();
    let is_known = collect(plan, &mut inputs);
    let sum = |unit: InputUnit| {
        let counted = || inputs.iter().filter(|input| input.unit == unit);
        let (done, all) = (counted().map(|input| input.done).sum(), counted().map(|input| input.all).sum());
        InputProgress { done, all, unit }
    };
    let (bytes, rows) = (sum(InputUnit::Bytes), sum(InputUnit::Rows));
    let sum = if bytes.all > 0 { bytes } else { rows };
    (is_known && sum.all > 0).then(|| InputProgress { done: sum.done.min(sum.all), ..sum })
}

/// Collects the inputs of `plan`. Returns whether all their sizes are known.
fn collect(plan: &Arc<dyn ExecutionPlan>, inputs: &mut Vec<InputProgress>) -> bool {
    let rows = || plan.metrics().and_then(|metrics| metrics.output_rows()).unwrap_or(0) as u64;
    let bytes = || {
        let metric = plan.metrics().and_then(|metrics| metrics.sum_by_name(READ_BYTES));
        metric.map_or(0, |read| read.as_usize()) as u64
    };
    let by_rows = |all| InputProgress { done: rows(), all, unit: InputUnit::Rows };
    let by_bytes = |all| InputProgress { done: bytes(), all, unit: InputUnit::Bytes };
    let input = if let Some(numbered) = OperatorExec::<NumberRows>::described(plan.as_ref()) {
        numbered.rows().map(by_rows)
    } else if let Some(parsed) = OperatorExec::<ParseFiles>::described(plan.as_ref()) {
        Some(by_bytes(parsed.bytes()))
    } else if let Some(rewrite) = OperatorExec::<Rewrite>::described(plan.as_ref()) {
        Some(by_bytes(rewrite.bytes()))
    } else if let Some(scan) = file_scan(plan) {
        scanned_rows(scan).map(by_rows)
    } else {
        return plan.children().into_iter().all(|child| collect(child, inputs));
    };
    let is_known = input.is_some();
    inputs.extend(input);
    is_known
}
