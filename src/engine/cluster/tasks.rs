//! The tasks of an executor, and the effects of their errors on a stage.
//!
//! The error of a task names the executor and all causes. A full disk ends the executor. Tasks share their connections to other executors,
//! because a connection per fetch would use up the ports of a machine. Ballista's own pool is private.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
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
use tokio_util::task::TaskTracker;

use super::checksums::TaskFiles;
use super::wire::SHUFFLE_LOST;
use crate::engine::stores::{TRANSIENT, environment_error};
use crate::environment::names_variable;
use crate::error::library_errors::{is_exhausted_pool, is_passing_in_ballista};
use crate::error::{Cause, Error, Kind, cause};

/// The time for which a stopping executor holds a new task before it returns it, so that other executors poll for the task first.
const HAND_BACK: Duration = Duration::from_millis(500);

/// The executor ends if its disk is full a second time within this period.
const FULL_AGAIN: Duration = Duration::from_secs(3_600);

/// The number of mebibytes that must be free after a task filled the disk.
const MIN_SPACE_MIB: usize = 16;

/// Runs the tasks of an executor with Ballista's engine.
pub(super) struct Tasks {
    ballista: DefaultExecutionEngine,
    state: Arc<ExecutorState>,
}

#[derive(Debug, Default)]
pub(super) struct ExecutorState {
    /// The executor's host and port, for error messages.
    executor: String,
    /// The folder for spills and for the files that tasks write.
    work_dir: PathBuf,
    /// Cancelled when the executor is about to end. It then starts no more tasks.
    pub(super) leaving: CancellationToken,
    /// Cancelled when the executor's disk stays full.
    pub(super) disk_full: CancellationToken,
    /// The time when a task last found no space on the disk.
    last_full: Mutex<Option<Instant>>,
    pub(super) tasks: TaskTracker,
}

impl ExecutorState {
    fn new(executor: String, work_dir: PathBuf) -> Self {
        Self { executor, work_dir, ..Self::default() }
    }

    /// Registers a task that found no space on the disk. Its spills are removed with it, so space may be free again. The executor ends if
    /// there is still no space, or if this happens a second time.
    fn note_full_disk(&self) {
        let mut last = self.last_full.lock();
        let again = last.is_some_and(|last| last.elapsed() < FULL_AGAIN);
        *last = Some(Instant::now());
        if again || !has_space(&self.work_dir) {
            self.leaving.cancel();
            self.disk_full.cancel();
        }
    }
}

/// Whether a folder has enough space for a small output.
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
    /// Returns an engine for the tasks of `executor`, which is a host and a port. Its folder is `work_dir`.
    pub(super) fn new(executor: String, work_dir: PathBuf) -> Self {
        let ballista = DefaultExecutionEngine::with_client_pool(Arc::new(Connections::default()));
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
    /// Checks the files that the task reads, runs the task, and writes the checksums of its output.
    async fn run(&self, task_id: usize, context: Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        let damaged =
            |why| on_executor(&self.state.executor, "a shuffled file on its disk is damaged or gone", why);
        self.files.check_inputs().map_err(damaged)?;
        let output = self.stage.execute_query_stage(task_id, context).await?;
        self.files.write_checksums(&output)?;
        Ok(output)
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
            // The scheduler reassigns a cancelled task, and does not count it as failed.
            return Err(BallistaError::Cancelled.into_datafusion());
        }
        let _running = self.state.tasks.token();
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

/// Returns the name of a task's job, which contains the name of the stage.
fn job_name(context: &TaskContext) -> String {
    let mut settings = context.session_config().options().entries().into_iter();
    settings.find(|setting| setting.key == BALLISTA_JOB_NAME).and_then(|name| name.value).unwrap_or_default()
}

/// Converts `error` for the driver. Ballista only passes on the debug text, so the result is an error of ours with all causes in this
/// text.
fn explain(error: DataFusionError, state: &ExecutorState) -> DataFusionError {
    let executor = &state.executor;
    match fault(&error) {
        Fault::Ours | Fault::Cancelled => error,
        Fault::Environment => {
            let own = chain(&error).find_map(|cause| cause.downcast_ref::<Error>());
            let kind = own.map_or(Kind::Input, Error::kind);
            environment_error(&format!("the executor {executor}"), kind, causes(&error)).into()
        }
        Fault::Memory => {
            let message = format!("a task ran out of memory on the executor {executor}");
            Error::new(Kind::Memory, message).because(causes(&error)).into()
        }
        Fault::Store => on_executor(executor, "its storage does not answer", causes(&error)).into(),
        Fault::DiskFull => {
            state.note_full_disk();
            on_executor(executor, "no space is left on its disk", causes(&error)).into()
        }
        // Without this conversion, Ballista would rerun the query stages whose output cannot be fetched, and then this stage. `wire`
        // would fail the rerun stage, with an error that lacks this cause.
        Fault::Fetch(why) => {
            on_executor(executor, "it cannot fetch what another executor wrote", Error::engine(why)).into()
        }
        // Ballista reruns a task after an I/O error.
        Fault::Io(kind) => {
            let error = on_executor(executor, "reading or writing failed", causes(&error));
            DataFusionError::IoError(std::io::Error::new(kind, error))
        }
        Fault::Other => on_executor(executor, "it ended with an error", causes(&error)).into(),
    }
}

/// Who or what caused a task's error.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// An operator of ours, whose error message is complete.
    Ours,
    /// A store that may answer a later request.
    Store,
    Cancelled,
    /// The variables or the credentials of the executor.
    Environment,
    /// The task's memory pool is too small. The driver then plans the stage again.
    Memory,
    DiskFull,
    /// The output of another executor cannot be fetched, for this reason.
    Fetch(String),
    Io(ErrorKind),
    Other,
}

fn fault(error: &DataFusionError) -> Fault {
    // If a store is among the causes, the disk of the store is full, and not the disk of the executor.
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
    if chain(error).any(|cause| names_variable(&cause.to_string())) {
        return Fault::Environment;
    }
    if chain(error).any(|cause| cause.is::<Error>()) {
        return Fault::Ours;
    }
    // `find_root` does not look inside Ballista's errors.
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

#[derive(Debug)]
pub(super) enum AttemptFailure {
    /// A part of the cluster was lost, so another attempt may succeed.
    Lost(Error),
    /// Another attempt would also fail.
    Final(Error),
}

/// The prefix of an error that another executor could avoid.
const ON_EXECUTOR: &str = "a task failed on the executor ";

/// Returns the error for a task that failed because of `executor` or its connections.
fn on_executor(
    executor: &str,
    fault: &str,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> Error {
    Error::engine(format!("{ON_EXECUTOR}{executor}: {fault}")).because(cause)
}

/// Determines why an attempt failed. The error crossed processes, so only its text is left.
pub(super) fn read_failure(error: &DataFusionError) -> AttemptFailure {
    let text = error.to_string();
    if text.contains(SHUFFLE_LOST) {
        return AttemptFailure::Lost(Error::engine(SHUFFLE_LOST));
    }
    let own = Error::from_wire(&text);
    let exhausted = match &own {
        Some(own) => own.kind() == Kind::Memory,
        None => is_exhausted_pool(&text),
    };
    if exhausted {
        let advice = "a task's share of an executor's memory is too small for this stage: start the executors with \
                      more --memory or fewer --vcores";
        let cause = own.map_or_else(|| first_line(&text), |own| own.one_line());
        return AttemptFailure::Final(Error::new(Kind::Memory, advice).because(cause));
    }
    if let Some(own) = own {
        let passes = is_passing_in_ballista(&text) || text.contains(TRANSIENT);
        let is_lost = passes || own.to_string().starts_with(ON_EXECUTOR);
        return if is_lost { AttemptFailure::Lost(own) } else { AttemptFailure::Final(own) };
    }
    AttemptFailure::Lost(Error::engine(first_line(&text)))
}

/// Returns the first line of a text, without plans and backtraces, and at most 500 characters.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(500).collect()
}

/// Returns an error of ours with the messages of `error` and its causes.
fn causes(error: &DataFusionError) -> Error {
    use BallistaError::{ArrowError, DataFusionError as EngineError, IoError};
    let only_wraps = |cause: &Cause<'_>| {
        matches!(cause.downcast_ref(), Some(DataFusionError::External(_)))
            || matches!(cause.downcast_ref(), Some(EngineError(_) | ArrowError(_) | IoError(_)))
    };
    let messages = chain(error).filter(|cause| !only_wraps(cause)).map(|cause| cause.to_string()).collect();
    Error::chained(Kind::Engine, messages).unwrap_or_else(|| Error::engine(error.to_string()))
}

/// Returns an error and its causes, outermost first. Ballista's errors do not return their causes as sources.
fn chain(error: &DataFusionError) -> impl Iterator<Item = Cause<'_>> {
    let error: Cause = error;
    std::iter::successors(Some(error), |error| match error.downcast_ref::<BallistaError>() {
        Some(BallistaError::DataFusionError(error)) => Some(error.as_ref() as Cause),
        Some(BallistaError::ArrowError(error)) => Some(error.as_ref() as Cause),
        Some(BallistaError::IoError(error)) => Some(error as Cause),
        Some(BallistaError::TonicError(error)) => Some(error as Cause),
        Some(_) => None,
        None => cause(*error),
    })
}

/// The time without use after which connections are closed.
const IDLE: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(super) struct Connections {
    idle: Arc<Mutex<Vec<IdleConnection>>>,
}

struct IdleConnection {
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
    /// Closes connections that were unused for too long, and takes the last used connection.
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
        let put_back = move |client| idle.lock().push(IdleConnection { to, since: Instant::now(), client });
        Ok(PooledClient::new(client, Box::new(put_back)))
    }

    async fn evict_idle(&self) {
        self.idle.lock().retain(|idle| idle.since.elapsed() < IDLE);
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
        assert_eq!(fault(&BallistaError::Cancelled.into_datafusion()), Fault::Cancelled);
        let refused = std::io::Error::from(ErrorKind::ConnectionRefused);
        let error = explain(DataFusionError::from(refused).context("while reading"), &state());
        assert!(matches!(error, DataFusionError::IoError(_)), "{error:?}");
        let memory = DataFusionError::ResourcesExhausted("no more".into()).context("while sorting");
        assert_eq!(fault(&memory), Fault::Memory);
        let wrapped = BallistaError::DataFusionError(Box::new(memory)).into_datafusion();
        assert_eq!(fault(&wrapped), Fault::Memory);
        assert_eq!(fault(&Error::input("a.csv is damaged").into()), Fault::Ours);
        assert_eq!(fault(&Error::job("the variable AWS_REGION cannot be used").into()), Fault::Environment);
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
    fn the_innermost_cause_arrives_through_ballistas_own_errors() {
        let refused =
            std::io::Error::new(ErrorKind::ConnectionRefused, format!("port 9 refused: {TRANSIENT}"));
        let own = Error::input("reading a.csv failed").because(refused);
        let wrapped = BallistaError::DataFusionError(Box::new(own.into())).into_datafusion();
        assert_eq!(fault(&wrapped), Fault::Store);
        let own = Error::from_wire(&format!("{:?}", explain(wrapped, &state()))).unwrap();
        let told = "its storage does not answer: reading a.csv failed: port 9 refused";
        assert_eq!(own.one_line(), format!("{ON_EXECUTOR}10.0.0.7:50051: {told}: {TRANSIENT}"));
    }

    fn failed(inner: DataFusionError) -> DataFusionError {
        let inner = BallistaError::DataFusionError(Box::new(inner));
        let task = ballista_core::serde::protobuf::FailedTask::from(inner);
        DataFusionError::Execution(format!("Job abc failed: {}", task.error))
    }

    #[test]
    fn failed_attempts_are_final_or_repeated() {
        let away = Error::input(format!("s3://bucket/a: the storage answered 503: {TRANSIENT}"));
        let away = Error::input("reading s3://bucket/a failed").because(away);
        let disk = DataFusionError::from(full()).context("while sorting");
        let disk = on_executor("10.0.0.7:50051", "no space is left on its disk", disk);
        let exhausted = || DataFusionError::ResourcesExhausted("no more".into());
        let reset = std::io::Error::from(ErrorKind::ConnectionReset);
        for (error, kind, message, cause) in [
            (failed(exhausted()), Some(Kind::Memory), "executors", "no more"),
            (failed(Error::from(exhausted()).into()), Some(Kind::Memory), "executors", "no more"),
            (failed(away.into()), None, "", "503"),
            (failed(disk.into()), None, "10.0.0.7:50051", "no storage space"),
            (failed(reset.into()), None, "", ""),
            (DataFusionError::Execution("h2: broken pipe".into()), None, "", ""),
        ] {
            let (found, why) = match read_failure(&error) {
                AttemptFailure::Final(why) => (Some(why.kind()), why),
                AttemptFailure::Lost(why) => (None, why),
            };
            assert_eq!(found, kind, "{error}");
            assert!(why.to_string().contains(message) && innermost(&why).contains(cause), "{why:?}");
        }
        let error = failed(Error::input("a.csv is damaged").into());
        let AttemptFailure::Final(own) = read_failure(&error) else { panic!("{error}") };
        assert_eq!((own.kind(), own.to_string().as_str()), (Kind::Input, "a.csv is damaged"));
    }

    #[test]
    fn an_error_of_an_executors_environment_names_the_executor() {
        let variable = Error::job("the variable AWS_REGION cannot be used: expected the name of a region");
        let error = DataFusionError::from(variable).context("while planning");
        let error = failed(explain(error, &state()));
        let AttemptFailure::Final(own) = read_failure(&error) else { panic!("{error}") };
        assert_eq!(own.kind(), Kind::Job);
        assert!(own.to_string().starts_with("the executor 10.0.0.7:50051 cannot use the storage"), "{own}");
        assert!(innermost(&own).contains("AWS_REGION"), "{own:?}");
        let damaged = Error::input("reading s3://bucket/AWS_REGION/a.csv failed");
        assert_eq!(fault(&damaged.into()), Fault::Ours);
    }

    fn innermost(error: &Error) -> String {
        crate::error::chain(error).last().unwrap().to_string()
    }
}
