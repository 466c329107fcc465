//! What an executor does around each of its tasks: it says on which executor a task failed and why, down to the
//! innermost cause, and it notices when its own disk is full.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::config::BALLISTA_JOB_NAME;
use ballista_core::error::BallistaError;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use tokio_util::sync::CancellationToken;

use super::causes::{Cause, causes, chain};
use super::connections::Connections;
use super::failure;
use crate::engine::stores::TRANSIENT;
use crate::error::{Error, Kind};

/// How long an executor that is about to end holds a task before it hands it back: others ask for work more often.
const HAND_BACK: Duration = Duration::from_millis(500);

/// An executor whose disk was full twice within this time is better left out.
const FULL_AGAIN: Duration = Duration::from_secs(3_600);

/// Mebibytes that must be free on an executor's disk once a task has found it full.
const MIN_SPACE_MIB: usize = 16;

/// Runs the tasks of an executor as Ballista does.
pub(super) struct Tasks {
    ballista: DefaultExecutionEngine,
    state: Arc<State>,
}

/// What the tasks of an executor share.
#[derive(Debug)]
pub(super) struct State {
    /// The executor's host and port, for errors.
    executor: String,
    /// Its folder for spills and for what tasks write.
    work_dir: PathBuf,
    /// Is cancelled when the executor is about to end: it begins no more tasks.
    pub(super) leaving: CancellationToken,
    /// Is cancelled when the executor's own disk is full and stays so.
    pub(super) disk_full: CancellationToken,
    /// When a task last found no space on it.
    last_full: Mutex<Option<Instant>>,
    running: AtomicUsize,
}

impl State {
    fn new(executor: String, work_dir: PathBuf) -> Self {
        Self {
            executor,
            work_dir,
            leaving: CancellationToken::new(),
            disk_full: CancellationToken::new(),
            last_full: Mutex::default(),
            running: AtomicUsize::new(0),
        }
    }

    /// A task found no space on the executor's disk. What it had spilled is gone with it, so the disk may have space
    /// again; but where it has not, or where this happens again, others do the tasks better.
    fn note_full_disk(&self) {
        let mut last = self.last_full.lock().unwrap_or_else(PoisonError::into_inner);
        let again = last.is_some_and(|last| last.elapsed() < FULL_AGAIN);
        *last = Some(Instant::now());
        if again || !has_space(&self.work_dir) {
            self.leaving.cancel();
            self.disk_full.cancel();
        }
    }

    /// Tasks that run now.
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

/// Whether a folder takes so much as tasks write at least.
fn has_space(folder: &Path) -> bool {
    let written = || -> std::io::Result<()> {
        let mut file = tempfile::tempfile_in(folder)?;
        let part = vec![1; 1 << 20];
        for _ in 0..MIN_SPACE_MIB {
            file.write_all(&part)?;
        }
        Ok(())
    };
    written().is_ok()
}

impl Tasks {
    /// For the executor of this name, which has this folder for its files.
    pub(super) fn new(executor: String, work_dir: PathBuf) -> Self {
        let connections = Arc::new(Connections::default());
        let ballista = DefaultExecutionEngine::with_client_pool(connections);
        Self { ballista, state: Arc::new(State::new(executor, work_dir)) }
    }

    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state)
    }
}

impl ExecutionEngine for Tasks {
    fn create_query_stage_exec(
        &self,
        job_id: JobId,
        stage_id: usize,
        task_id: usize,
        global_output_partition_ids: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        work_dir: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        let (engine, outputs) = (&self.ballista, global_output_partition_ids);
        let stage =
            engine.create_query_stage_exec(job_id, stage_id, task_id, outputs, plan, work_dir, config)?;
        Ok(Arc::new(Task { stage, state: self.state() }))
    }
}

#[derive(Debug)]
struct Task {
    stage: Arc<dyn QueryStageExecutor>,
    state: Arc<State>,
}

/// Counts a task for as long as it runs, however it ends.
struct Running<'a>(&'a AtomicUsize);

impl<'a> Running<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl QueryStageExecutor for Task {
    async fn execute_query_stage(
        &self,
        task_id: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        if self.state.leaving.is_cancelled() {
            tokio::time::sleep(HAND_BACK).await;
            // A task that was cancelled is given to who asks next, and does not count as one that failed.
            return Err(BallistaError::Cancelled.into_datafusion());
        }
        let _running = Running::begin(&self.state.running);
        // Ballista's name of it: `TID job/stage.attempt/task.attempt`.
        let task = context.task_id().unwrap_or_default();
        let job = tracing::enabled!(tracing::Level::DEBUG).then(|| job_name(&context));
        tracing::debug!(task, job, "a task begins");
        let ended = self.stage.execute_query_stage(task_id, context).await;
        tracing::debug!(task, job, failed = ended.is_err(), "a task ends");
        ended.map_err(|error| explain(error, &self.state))
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.stage.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.stage.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.stage.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.stage.collect_column_stats()
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.stage.fmt(f)
    }
}

/// The name that the driver gave to a task's job, which holds the step.
fn job_name(context: &TaskContext) -> String {
    let mut settings = context.session_config().options().entries().into_iter();
    settings.find(|setting| setting.key == BALLISTA_JOB_NAME).and_then(|name| name.value).unwrap_or_default()
}

/// `error` as the driver must read it. Ballista passes on no more than its debug text, so every error that is not yet
/// one of ours becomes one, whose debug text holds all its causes.
fn explain(error: DataFusionError, state: &State) -> DataFusionError {
    let executor = &state.executor;
    match fault(&error) {
        Fault::Ours | Fault::Cancelled => error,
        Fault::Environment => failure::of_environment(&format!("the executor {executor}"), &error).into(),
        Fault::Memory => {
            let message = format!("a task ran out of memory on the executor {executor}");
            Error::new(Kind::Memory, message).because(causes(&error)).into()
        }
        Fault::Store => failure::on_executor(executor, "its storage does not answer", causes(&error)).into(),
        Fault::DiskFull => {
            state.note_full_disk();
            failure::on_executor(executor, "no space is left on its disk", causes(&error)).into()
        }
        // Ballista would run the query stages again that wrote what cannot be fetched, and then this one, which would fail
        // (see `rerun_guard`): the cause is told sooner, and is not lost, where the task fails at once.
        Fault::Fetch(why) => {
            failure::on_executor(executor, "it cannot fetch what another executor wrote", Error::engine(why))
                .into()
        }
        // Ballista tries such a task again as long as it is an I/O error.
        Fault::Io(kind) => {
            let error = failure::on_executor(executor, "reading or writing failed", causes(&error));
            DataFusionError::IoError(std::io::Error::new(kind, error))
        }
        Fault::Other => failure::on_executor(executor, "it ended with an error", causes(&error)).into(),
    }
}

/// What a task's error comes from.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// An operator of ours has said all that there is to say.
    Ours,
    /// A store that may answer later, or another executor.
    Store,
    Cancelled,
    /// The executor's own variables, or its credentials.
    Environment,
    /// The task's memory pool is too small. The driver plans the step again.
    Memory,
    /// The disk of the executor's work folder.
    DiskFull,
    /// What another executor wrote cannot be had; why.
    Fetch(String),
    Io(ErrorKind),
    Other,
}

fn fault(error: &DataFusionError) -> Fault {
    // Where a store is part of it, the full disk is the store's, and all executors write to that.
    let stored = chain(error).any(|cause| cause.is::<object_store::Error>());
    for cause in chain(error) {
        if let Some(error) = cause.downcast_ref::<BallistaError>() {
            match error {
                BallistaError::Cancelled => return Fault::Cancelled,
                BallistaError::FetchFailed(_, _, _, why) => return Fault::Fetch(why.clone()),
                _ => {}
            }
        }
        if let Some(error) = cause.downcast_ref::<std::io::Error>()
            && matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
            && !stored
        {
            return Fault::DiskFull;
        }
    }
    if chain(error).any(|cause| cause.to_string().contains(TRANSIENT)) {
        return Fault::Store;
    }
    if failure::is_of_environment(error) {
        return Fault::Environment;
    }
    if chain(error).any(|cause| cause.is::<Error>()) {
        return Fault::Ours;
    }
    // It may stand inside an error of Ballista, where it is not the root.
    let exhausted =
        |cause: Cause<'_>| matches!(cause.downcast_ref(), Some(DataFusionError::ResourcesExhausted(_)));
    if chain(error).any(exhausted) {
        return Fault::Memory;
    }
    match error.find_root() {
        DataFusionError::IoError(error) => Fault::Io(error.kind()),
        DataFusionError::External(error) => match error.downcast_ref() {
            Some(BallistaError::IoError(error)) => Fault::Io(error.kind()),
            _ => Fault::Other,
        },
        _ => Fault::Other,
    }
}

#[cfg(test)]
mod tests {
    use arrow::error::ArrowError;

    use super::*;

    fn full() -> std::io::Error {
        ErrorKind::StorageFull.into()
    }

    fn state() -> State {
        State::new("10.0.0.7:50051".into(), std::env::temp_dir())
    }

    #[test]
    fn a_full_disk_is_found_under_whatever_stands_around_it_but_not_that_of_a_store() {
        let spill = ArrowError::IoError("writing a batch".into(), full());
        for error in [
            DataFusionError::from(full()),
            DataFusionError::from(spill).context("while sorting"),
            BallistaError::IoError(full()).into_datafusion(),
            std::io::Error::other(DataFusionError::from(full())).into(),
        ] {
            assert_eq!(fault(&error), Fault::DiskFull, "{error:?}");
        }
        let store = object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(full()) };
        assert_eq!(fault(&store.into()), Fault::Other);
    }

    #[test]
    fn an_executor_is_left_out_when_its_disk_stays_full_or_is_full_again() {
        let (well, twice) = (state(), state());
        explain(std::io::Error::from(ErrorKind::ConnectionReset).into(), &well);
        explain(full().into(), &twice);
        assert!(!well.disk_full.is_cancelled() && !twice.disk_full.is_cancelled());
        explain(full().into(), &twice);
        assert!(twice.disk_full.is_cancelled());
        let gone = State::new("10.0.0.7:50051".into(), "/there/is/no/such/folder".into());
        explain(full().into(), &gone);
        assert!(gone.disk_full.is_cancelled());
    }

    #[test]
    fn errors_keep_what_ballista_does_with_them() {
        let cancelled = BallistaError::Cancelled.into_datafusion();
        assert_eq!(fault(&cancelled), Fault::Cancelled);
        let refused = std::io::Error::from(ErrorKind::ConnectionRefused);
        let error = explain(DataFusionError::from(refused).context("while reading"), &state());
        assert!(matches!(error, DataFusionError::IoError(_)), "{error:?}");
        let memory = DataFusionError::ResourcesExhausted("no more".into()).context("while sorting");
        assert_eq!(fault(&memory), Fault::Memory);
        let wrapped = BallistaError::DataFusionError(Box::new(memory)).into_datafusion();
        assert_eq!(fault(&wrapped), Fault::Memory);
        let own = DataFusionError::from(Error::input("a.csv is damaged"));
        assert_eq!(fault(&own), Fault::Ours);
        let variable = DataFusionError::from(Error::job("the variable AWS_REGION cannot be used"));
        assert_eq!(fault(&variable), Fault::Environment);
    }

    /// Ballista puts errors into errors of its own, which do not name them as their source.
    #[test]
    fn the_innermost_cause_arrives_through_ballistas_own_errors() {
        let refused =
            std::io::Error::new(ErrorKind::ConnectionRefused, format!("port 9 refused: {TRANSIENT}"));
        let own = Error::input("reading a.csv failed").because(refused);
        let wrapped = BallistaError::DataFusionError(Box::new(own.into())).into_datafusion();
        assert_eq!(fault(&wrapped), Fault::Store);
        let told = Error::from_wire(&format!("{:?}", explain(wrapped, &state()))).unwrap();
        assert_eq!(
            told.one_line(),
            format!(
                "a task failed on the executor 10.0.0.7:50051: its storage does not answer: reading a.csv failed: \
                 port 9 refused: {TRANSIENT}"
            )
        );
    }
}
