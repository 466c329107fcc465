//! The tasks of an executor: their errors name the executor and all causes, and a full disk ends the executor. They share their
//! connections to other executors: one for each fetch would use up the ports of a machine, and Ballista's own pool is private.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::client::BallistaClient;
use ballista_core::client_pool::{BallistaClientPool, PooledClient};
use ballista_core::config::BALLISTA_JOB_NAME;
use ballista_core::error::BallistaError;
use ballista_core::extension::BallistaConfigGrpcEndpoint;
use ballista_core::serde::protobuf::{
    RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport,
};
use ballista_core::utils::GrpcClientConfig;
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::common::Result;
use datafusion::error::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::checksums::TaskFiles;
use super::failure::{self, causes, chain};
use crate::engine::stores::TRANSIENT;
use crate::error::{Cause, Error, Kind};

/// How long an ending executor holds a task before it hands it back, so that others can poll for it meanwhile.
const HAND_BACK: Duration = Duration::from_millis(500);

/// An executor whose disk is full twice within this time ends.
const FULL_AGAIN: Duration = Duration::from_secs(3_600);

/// Mebibytes that must be free after a task has found the disk full.
const MIN_SPACE_MIB: usize = 16;

/// Runs the tasks of an executor with Ballista's engine.
pub(super) struct Tasks {
    ballista: DefaultExecutionEngine,
    state: Arc<ExecutorState>,
}

/// The state that the tasks of an executor share.
#[derive(Debug)]
pub(super) struct ExecutorState {
    /// The executor's host and port, for errors.
    executor: String,
    /// The folder for spills and for the output of tasks.
    work_dir: PathBuf,
    /// Cancelled when the executor is about to end and begins no more tasks.
    pub(super) leaving: CancellationToken,
    /// Cancelled when the executor's disk stays full.
    pub(super) disk_full: CancellationToken,
    /// When a task last found no space on it.
    last_full: Mutex<Option<Instant>>,
    running: AtomicUsize,
}

impl ExecutorState {
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

    /// Registers a task that found no space on the disk. Its spills are removed with it, so there may be space again. If there
    /// is not, or if this happens again, the executor ends.
    fn note_full_disk(&self) {
        let mut last = self.last_full.lock();
        let again = last.is_some_and(|last| last.elapsed() < FULL_AGAIN);
        *last = Some(Instant::now());
        if again || !has_space(&self.work_dir) {
            self.leaving.cancel();
            self.disk_full.cancel();
        }
    }

    /// Running tasks.
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }
}

/// Whether a folder has space for a small output.
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
    /// For the executor at this host and port, and its folder.
    pub(super) fn new(executor: String, work_dir: PathBuf) -> Self {
        let connections = Arc::new(Connections::default());
        let ballista = DefaultExecutionEngine::with_client_pool(connections);
        Self { ballista, state: Arc::new(ExecutorState::new(executor, work_dir)) }
    }

    pub(super) fn state(&self) -> Arc<ExecutorState> {
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
        let files = TaskFiles::new(work_dir, job_id.clone(), stage_id, &plan)?;
        let stage =
            engine.create_query_stage_exec(job_id, stage_id, task_id, outputs, plan, work_dir, config)?;
        Ok(Arc::new(RunningTask { stage, files, state: self.state() }))
    }
}

#[derive(Debug)]
struct RunningTask {
    stage: Arc<dyn QueryStageExecutor>,
    files: TaskFiles,
    state: Arc<ExecutorState>,
}

impl RunningTask {
    /// Runs the task between the checks of the files that it reads and the checksums of those that it writes.
    async fn run(&self, task_id: usize, context: Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        let damaged = |why| {
            failure::on_executor(&self.state.executor, "a shuffled file on its disk is damaged or gone", why)
        };
        self.files.check_inputs().map_err(damaged)?;
        let output = self.stage.execute_query_stage(task_id, context).await?;
        self.files.write_checksums(&output)?;
        Ok(output)
    }
}

/// Counts a task while it runs.
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
impl QueryStageExecutor for RunningTask {
    async fn execute_query_stage(
        &self,
        task_id: usize,
        context: Arc<TaskContext>,
    ) -> Result<Vec<ShuffleWritePartition>> {
        if self.state.leaving.is_cancelled() {
            tokio::time::sleep(HAND_BACK).await;
            // The scheduler assigns a cancelled task again, and does not count it as failed.
            return Err(BallistaError::Cancelled.into_datafusion());
        }
        let _running = Running::begin(&self.state.running);
        let task = context.task_id().unwrap_or_default();
        let job = tracing::enabled!(tracing::Level::DEBUG).then(|| job_name(&context));
        tracing::debug!(task, job, "a task begins");
        let ended = self.run(task_id, context).await;
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

impl fmt::Display for RunningTask {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.stage.fmt(f)
    }
}

/// The name of a task's job, which contains the stage.
fn job_name(context: &TaskContext) -> String {
    let mut settings = context.session_config().options().entries().into_iter();
    settings.find(|setting| setting.key == BALLISTA_JOB_NAME).and_then(|name| name.value).unwrap_or_default()
}

/// `error` for the driver. Ballista passes on the debug text alone, so every error becomes one of ours, whose debug text has all
/// causes.
fn explain(error: DataFusionError, state: &ExecutorState) -> DataFusionError {
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
        // Ballista would run the query stages again whose output cannot be fetched, and then this one, which would fail (see
        // `rerun_guard`) without this cause.
        Fault::Fetch(why) => {
            failure::on_executor(executor, "it cannot fetch what another executor wrote", Error::engine(why))
                .into()
        }
        // Ballista runs a task again after an I/O error.
        Fault::Io(kind) => {
            let error = failure::on_executor(executor, "reading or writing failed", causes(&error));
            DataFusionError::IoError(std::io::Error::new(kind, error))
        }
        Fault::Other => failure::on_executor(executor, "it ended with an error", causes(&error)).into(),
    }
}

/// The origin of a task's error.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// An operator of ours, whose error is complete.
    Ours,
    /// A store that may answer later.
    Store,
    Cancelled,
    /// The executor's own variables, or its credentials.
    Environment,
    /// The task's memory pool is too small. The driver plans the stage again.
    Memory,
    /// The disk of the executor's work folder.
    DiskFull,
    /// The output of another executor cannot be fetched; the reason.
    Fetch(String),
    Io(ErrorKind),
    Other,
}

fn fault(error: &DataFusionError) -> Fault {
    // If a store is among the causes, its disk is full, and not the executor's.
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
    // `find_root` does not look inside errors of Ballista.
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

/// Connections that were unused for this long are closed.
const IDLE: Duration = Duration::from_secs(30);

/// Open, unused connections.
#[derive(Default)]
pub(super) struct Connections {
    idle: Arc<Mutex<Vec<Idle>>>,
}

struct Idle {
    to: (String, u16, GrpcClientConfig),
    since: Instant,
    client: BallistaClient,
}

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Connections")
    }
}

impl Connections {
    /// Closes connections that were unused for too long, and takes the one that was used last.
    fn take(&self, to: &(String, u16, GrpcClientConfig)) -> Option<BallistaClient> {
        let mut idle = self.idle.lock();
        idle.retain(|idle| idle.since.elapsed() < IDLE);
        let last = idle.iter().rposition(|idle| idle.to == *to)?;
        Some(idle.remove(last).client)
    }
}

#[async_trait]
impl BallistaClientPool for Connections {
    async fn acquire(
        &self,
        host: &str,
        port: u16,
        config: &GrpcClientConfig,
        customize_endpoint: Option<Arc<BallistaConfigGrpcEndpoint>>,
    ) -> ballista_core::error::Result<PooledClient> {
        let to = (host.to_owned(), port, config.clone());
        let client = match self.take(&to) {
            Some(client) => client,
            None => {
                BallistaClient::try_new(
                    host,
                    port,
                    config.max_message_size,
                    config.use_tls,
                    customize_endpoint,
                    config.io_retries_times,
                    config.io_retry_wait_time_ms,
                    config.initial_connection_window_size,
                    config.initial_stream_window_size,
                )
                .await?
            }
        };
        let idle = Arc::clone(&self.idle);
        let put_back = move |client| {
            let mut idle = idle.lock();
            idle.push(Idle { to, since: Instant::now(), client });
        };
        Ok(PooledClient::new(client, Box::new(put_back)))
    }

    async fn evict_idle(&self) {
        let mut idle = self.idle.lock();
        idle.retain(|idle| idle.since.elapsed() < IDLE);
    }
}

#[cfg(test)]
mod tests {
    use arrow::error::ArrowError;

    use super::*;

    fn full() -> std::io::Error {
        ErrorKind::StorageFull.into()
    }

    fn state() -> ExecutorState {
        ExecutorState::new("10.0.0.7:50051".into(), std::env::temp_dir())
    }

    #[test]
    fn a_full_disk_is_found_among_the_causes_but_not_that_of_a_store() {
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
    fn an_executor_ends_when_its_disk_stays_full_or_is_full_again() {
        let (well, twice) = (state(), state());
        explain(std::io::Error::from(ErrorKind::ConnectionReset).into(), &well);
        explain(full().into(), &twice);
        assert!(!well.disk_full.is_cancelled() && !twice.disk_full.is_cancelled());
        explain(full().into(), &twice);
        assert!(twice.disk_full.is_cancelled());
        let gone = ExecutorState::new("10.0.0.7:50051".into(), "/there/is/no/such/folder".into());
        explain(full().into(), &gone);
        assert!(gone.disk_full.is_cancelled());
    }

    #[test]
    fn ballista_still_distinguishes_errors() {
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

    #[test]
    fn the_innermost_cause_arrives_through_ballistas_own_errors() {
        let refused =
            std::io::Error::new(ErrorKind::ConnectionRefused, format!("port 9 refused: {TRANSIENT}"));
        let own = Error::input("reading a.csv failed").because(refused);
        let wrapped = BallistaError::DataFusionError(Box::new(own.into())).into_datafusion();
        assert_eq!(fault(&wrapped), Fault::Store);
        let own = Error::from_wire(&format!("{:?}", explain(wrapped, &state()))).unwrap();
        assert_eq!(
            own.one_line(),
            format!(
                "a task failed on the executor 10.0.0.7:50051: its storage does not answer: reading a.csv failed: \
                 port 9 refused: {TRANSIENT}"
            )
        );
    }
}
