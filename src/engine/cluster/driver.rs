//! The cluster engine: submits the plan of a stage, and submits it again if a part of the cluster was lost. `stalls` watches its job.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileScanConfigBuilder;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::connections::{Trust, scheme, with_endpoints};
use super::rest::{Executors, Rest};
use super::stalls::{JobWatch, Jobs, LastJobState, POLL_INTERVAL, StageRun, Watched};
use super::tasks::{AttemptFailure, read_failure};
use super::{Codec, settings};
use crate::engine::control::RunControl;
use crate::engine::interface::{BUCKET_SHARE, Engine};
use crate::engine::local::Local;
use crate::engine::session;
use crate::environment::{Environment, SMALL_STAGES};
use crate::error::{Context, Error, Kind, Result};
use crate::job;
use crate::output::attempt::STORED_ROWS;
use crate::output::manifest::File;
use crate::output::write::Write;
use crate::plan::{OperatorExec, file_scan};
use crate::source::{NumberRows, ParseFiles};

/// The maximum number of times that the pause before a resubmission is doubled.
const MAX_DOUBLINGS: u32 = 4;

/// The value of [`SMALL_STAGES`] if it is not set, unless this is a large part of the driver's memory. This process needs about as long for
/// such a stage as the executors need to exchange its rows.
const SMALL_BYTES: u64 = 64 << 20;
const PART_OF_MEMORY: u64 = 16;

/// The number of bytes for which a separate task is worth its start, and the number of such tasks for each core.
const TASK_BYTES: u64 = 16 << 20;
const TASKS_PER_CORE: usize = 4;

/// The maximum number of reasons in the error of a stage whose attempts were all lost.
const MAX_CAUSES: usize = 3;

/// Runs plans on the executors of a scheduler.
pub struct ClusterEngine {
    session: SessionContext,
    /// Runs small stages in this process.
    local: Local,
    small_bytes: u64,
    settings: job::EngineSettings,
    scheduler: String,
    rest: Rest,
    trust: Option<Trust>,
    /// The executors that the cluster had before the last stage began.
    executors: Mutex<Executors>,
    jobs: Mutex<Jobs>,
    run: String,
}

impl ClusterEngine {
    /// Connects to the cluster of `scheduler`, and waits until the cluster has an executor. Plans are sized for the executors at the time
    /// of planning. Small queries run in this process with the memory of `engine`.
    ///
    /// # Errors
    /// [`crate::error::Kind::Engine`] if nothing listens on the scheduler's address, or if no scheduler with an executor answers in time.
    /// [`crate::error::Kind::Job`] if the scheduler refuses this process or cannot be trusted.
    pub async fn connect(
        engine: &job::EngineSettings,
        scheduler: &str,
        control: &RunControl,
    ) -> Result<Self> {
        let trust = Trust::from_environment()?;
        let rest = Rest::new(scheduler, trust.as_ref())?;
        absent(scheduler).await.map_or(Ok(()), Err)?;
        rest.accepts().await?;
        let executors = executors(&rest, (scheduler, engine.wait_seconds), control, None).await?;
        let Executors { count, cores, .. } = executors;
        tracing::info!(scheduler, executors = count, cores, "on a cluster");
        let local = session::session(engine)?;
        let state = session::state(settings::planning(&executors), local.runtime_env())?;
        let small_bytes = match Environment::process().get(SMALL_STAGES) {
            None => SMALL_BYTES.min(engine.memory_bytes() / PART_OF_MEMORY),
            Some(text) => job::parse_size(text).context(|| format!("{SMALL_STAGES} is wrong"))?,
        };
        Ok(Self {
            session: SessionContext::new_with_state(state),
            local: Local::new(local),
            small_bytes,
            settings: engine.clone(),
            scheduler: scheduler.to_owned(),
            rest,
            trust,
            executors: Mutex::new(executors),
            jobs: Mutex::new(Jobs { moved: Instant::now(), running: BTreeMap::new() }),
            run: uuid::Uuid::new_v4().simple().to_string(),
        })
    }

    /// Returns the executors of the cluster. `after` is the reason why the last attempt was lost.
    async fn executors_now(&self, control: &RunControl, after: Option<Error>) -> Result<Executors> {
        executors(&self.rest, (&self.scheduler, self.settings.wait_seconds), control, after).await
    }

    fn executors(&self) -> Executors {
        *self.executors.lock()
    }

    /// Submits the plan as a job of its own, and returns the rows of its only partition.
    async fn attempt(
        &self,
        stage: &StageRun<'_>,
        config: &SessionConfig,
        control: &RunControl,
    ) -> Result<Vec<RecordBatch>, AttemptFailure> {
        let plan = &stage.plan;
        let name = format!("{}/{}/{}", self.run, stage.name, uuid::Uuid::new_v4().simple());
        let running = with_endpoints(settings::running(config, plan, &name), self.trust.as_ref());
        let (ballista, codec) = (running.ballista_config(), Codec::default());
        let submit = async {
            let scheduler = format!("{}://{}", scheme(self.trust.as_ref()), self.scheduler);
            let (plan, id, running) = (Arc::clone(plan), self.session.session_id(), running.clone());
            execute_physical_plan::<PhysicalPlanNode>(scheduler, &ballista, plan, &codec, id, running)
                .await?
                .try_collect()
                .await
        };
        let mut seen =
            LastJobState { partitions: settings::query_stage_partitions(plan), ..LastJobState::default() };
        let (rest, settings, job) = (&self.rest, &self.settings, Watched::begin(&self.jobs, &name));
        let watch = JobWatch { rest, settings, job, stage, control };
        let failure = tokio::select! {
            biased;
            () = control.stop.cancelled() => AttemptFailure::Final(Error::interrupted()),
            batches = submit => match batches {
                Ok(batches) => {
                    // This poll also counts work that was lost or repeated since the last one.
                    watch.look(&mut seen).await;
                    return Ok(batches);
                }
                // The job has ended, so it is not cancelled.
                Err(error) => return Err(read_failure(&error)),
            },
            why = watch.until_lost(&mut seen) => why,
        };
        self.cancel(&name).await;
        Err(failure)
    }

    /// Cancels a job. If that fails, the job ends by itself, and its files are never used.
    async fn cancel(&self, name: &str) {
        let cancelled = match self.rest.job_id(name).await {
            Ok(Some(job)) => self.rest.cancel(&job).await,
            other => other.map(|_| ()),
        };
        if let Err(why) = cancelled {
            tracing::debug!(job = name, why, "the job could not be cancelled");
        }
    }
}

impl Engine for ClusterEngine {
    fn session(&self) -> &SessionContext {
        &self.session
    }

    fn in_this_process(&self) -> Option<(&dyn Engine, u64)> {
        Some((&self.local, self.small_bytes))
    }

    fn prepare<'a>(&'a self, control: &'a RunControl) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let now = self.executors_now(control, None).await?;
            let before = std::mem::replace(&mut *self.executors.lock(), now);
            if now != before {
                tracing::info!(executors = now.count, cores = now.cores, "the cluster has changed");
            }
            Ok(())
        })
    }

    fn config(&self) -> SessionConfig {
        settings::planning(&self.executors())
    }

    /// Each task has its own memory, and executors run only as many tasks at once as their memory allows.
    fn runs_stages_together(&self) -> bool {
        true
    }

    fn task_bytes(&self) -> usize {
        self.executors().task_bytes
    }

    /// Executors take tasks when they are free, so a slow executor does fewer of them. With few tasks, the others would wait for it.
    fn least_partitions(&self, bytes: u64) -> usize {
        let (least, cores) = (self.config().target_partitions(), self.executors().cores);
        let even = usize::try_from(bytes / TASK_BYTES).unwrap_or(usize::MAX);
        even.min(cores.saturating_mul(TASKS_PER_CORE)).min(self.most_partitions()).max(least)
    }

    fn bucket_bytes(&self) -> u64 {
        self.task_bytes() as u64 / BUCKET_SHARE
    }

    fn run<'a>(
        &'a self,
        stage: &'a str,
        plan: Arc<dyn ExecutionPlan>,
        config: &'a SessionConfig,
        control: &'a RunControl,
    ) -> BoxFuture<'a, Result<Vec<File>>> {
        Box::pin(async move {
            // If the final query stage had several partitions, the loss of an executor would lose the rows of all partitions that it
            // wrote.
            let plan: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(portable(
                with_stored_rows(&self.session, plan).await?,
            )?));
            let stage = &StageRun { name: stage, plan, dead: Mutex::default() };
            let mut attempts = 0;
            // Why attempts were lost, latest first.
            let mut lost: Vec<String> = Vec::new();
            loop {
                let why = match self.attempt(stage, config, control).await {
                    Ok(batches) => {
                        let mut files = Vec::new();
                        for batch in &batches {
                            files.extend(File::read_rows(batch)?);
                        }
                        files.sort();
                        return Ok(files);
                    }
                    Err(AttemptFailure::Final(error)) => return Err(error),
                    Err(AttemptFailure::Lost(why)) => why,
                };
                attempts += 1;
                let why = why.one_line();
                put_first(&mut lost, &why);
                let because = || Error::chained(Kind::Engine, lost.clone());
                if attempts >= self.settings.attempts {
                    let error = Error::engine(format!(
                        "stage {} was submitted {attempts} times and never finished; run the same command again to \
                         continue from the last finished stage",
                        stage.name
                    ));
                    return Err(error.with_cause(because()));
                }
                tracing::warn!(stage = stage.name, attempts, why, "the stage is submitted again");
                control.progress.recovering(&why);
                let pause = POLL_INTERVAL.saturating_mul(1 << (attempts - 1).min(MAX_DOUBLINGS));
                tokio::select! {
                    () = control.stop.cancelled() => return Err(Error::interrupted()),
                    () = tokio::time::sleep(pause) => {}
                }
                self.executors_now(control, because()).await?;
            }
        })
    }
}

/// Puts the reason of a lost attempt before the earlier reasons, without repetitions.
fn put_first(lost: &mut Vec<String>, why: &str) {
    lost.retain(|earlier| earlier != why);
    lost.insert(0, why.to_owned());
    lost.truncate(MAX_CAUSES);
}

/// Stores the sets of wanted rows in `plan` in an object next to the tables that it writes. Each task gets the whole plan, but loads only
/// the sets for the files that it reads.
async fn with_stored_rows(
    session: &SessionContext,
    plan: Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(write) = OperatorExec::<Write>::described(plan.as_ref()) else { return Ok(plan) };
    let (store, inside) = (ObjectStoreUrl::parse(&write.store_url)?, write.attempt.part(STORED_ROWS, 0));
    let root = Path::parse(&write.root).map_err(object_store::Error::from)?;
    let path = inside.split('/').fold(root, |path, part| path.join(part));
    let mut bytes = Vec::new();
    let stored = |node: Arc<dyn ExecutionPlan>| -> Result<_, DataFusionError> {
        let inputs = || node.children().into_iter().cloned().collect();
        if let Some(parse) = OperatorExec::<ParseFiles>::described(node.as_ref()) {
            let mut files = parse.files.to_vec();
            let sets = files.iter_mut().filter_map(|split| split.wanted.as_mut());
            sets.for_each(|rows| rows.store(&store, &path, &mut bytes));
            let parse = ParseFiles { files: files.into(), parser: parse.parser.clone() };
            return Ok(Transformed::yes(OperatorExec::plan(parse, inputs())?));
        }
        if let Some(number) = OperatorExec::<NumberRows>::described(node.as_ref()) {
            let mut splits = number.splits.to_vec();
            let sets = splits.iter_mut().filter_map(|split| split.wanted.as_mut());
            sets.for_each(|rows| rows.store(&store, &path, &mut bytes));
            let number = NumberRows { splits: splits.into(), ..number.clone() };
            return Ok(Transformed::yes(OperatorExec::plan(number, inputs())?));
        }
        Ok(Transformed::no(node))
    };
    let plan = Arc::clone(&plan).transform_up(stored)?.data;
    if !bytes.is_empty() {
        let why = || format!("cannot write {path}");
        let store = session.runtime_env().object_store(&store)?;
        store.put(&path, bytes.into()).await.context(why)?;
    }
    Ok(plan)
}

/// Returns `plan` in a form that can be serialized.
///
/// File scans lose their output partitionings, which only keep the optimizer of this process from cutting scans. On a cluster, a task reads
/// fewer partitions than they declare. A node without rows becomes a scan of no rows, because an `EmptyExec` has no metrics. The scheduler
/// never ends a query stage whose tasks have different numbers of metrics.
fn portable(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let scan = |node: Arc<dyn ExecutionPlan>| -> Result<_, DataFusionError> {
        if node.is::<EmptyExec>() {
            let partitions = vec![Vec::new(); node.output_partitioning().partition_count()];
            let scan = MemorySourceConfig::try_new_exec(&partitions, node.schema(), None)?;
            return Ok(Transformed::yes(scan as Arc<dyn ExecutionPlan>));
        }
        let Some(scan) = file_scan(&node).filter(|scan| scan.output_partitioning.is_some()) else {
            return Ok(Transformed::no(node));
        };
        let scan = FileScanConfigBuilder::from(scan.clone()).with_output_partitioning(None).build();
        let scan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(scan);
        Ok(Transformed::yes(scan))
    };
    Ok(plan.transform_up(scan)?.data)
}

/// Returns an error if the scheduler's host is unknown or nothing listens on its address, even after a short time. A missing answer is no
/// error yet.
async fn absent(scheduler: &str) -> Option<Error> {
    let mut why = None;
    for pause in [POLL_INTERVAL, Duration::ZERO] {
        why = match tokio::net::lookup_host(scheduler).await {
            Err(error) => {
                let message =
                    format!("the host of the scheduler {scheduler} is unknown: correct engine.scheduler");
                Some(Error::engine(message).because(error))
            }
            Ok(addresses) => match TcpStream::connect(addresses.collect::<Vec<_>>().as_slice()).await {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => Some(Error::engine(format!(
                    "no scheduler listens on {scheduler}: start one, or correct engine.scheduler"
                ))),
                _ => return None,
            },
        };
        tokio::time::sleep(pause).await;
    }
    why
}

/// Waits at most `wait_seconds` for a scheduler with an executor, and returns the executors. `after` is the reason why the last attempt
/// was lost.
async fn executors(
    rest: &Rest,
    (scheduler, wait_seconds): (&str, u64),
    control: &RunControl,
    after: Option<Error>,
) -> Result<Executors> {
    let began = Instant::now();
    loop {
        let missing = match rest.executors().await {
            Ok(executors) if executors.count > 0 => return Ok(executors),
            Ok(_) => "it has no executor".to_owned(),
            Err(why) => why,
        };
        if began.elapsed().as_secs() >= wait_seconds {
            let message = format!("the scheduler {scheduler} had no executor for {wait_seconds} seconds");
            let missing = Error::engine(missing);
            return Err(Error::engine(message).because(missing.with_cause(after)));
        }
        tokio::select! {
            () = control.stop.cancelled() => return Err(Error::interrupted()),
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_the_first_loss_stays_behind_later_ones() {
        let mut lost = Vec::new();
        for why in ["no space is left", "no executor for 3 seconds", "no executor for 3 seconds"] {
            put_first(&mut lost, why);
        }
        assert_eq!(lost, ["no executor for 3 seconds", "no space is left"]);
        (0..10).for_each(|number| put_first(&mut lost, &number.to_string()));
        assert_eq!(lost, ["9", "8", "7"]);
    }
}
