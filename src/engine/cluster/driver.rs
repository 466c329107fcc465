//! The engine itself: it submits the plan of a stage, watches it, and submits it again if a part of the cluster was lost.

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

use super::credentials::{Trust, scheme, with_endpoints};
use super::failure::{self, AttemptFailure};
use super::rest::{Advance, Executors, Rest};
use super::{Codec, settings};
use crate::engine::control::{InputProgress, InputUnit, RunControl};
use crate::engine::interface::{BUCKET_SHARE, Engine};
use crate::engine::session;
use crate::error::{Context, Error, Kind, Result};
use crate::job;
use crate::output::manifest::File;
use crate::output::names::STORED_ROWS;
use crate::output::write::Write;
use crate::plan::{OperatorExec, file_scan};
use crate::source::{NumberRows, ParseFiles};

/// How often a running job, or a scheduler that does not answer yet, is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The factor for the time limit of a stall while tasks run, since they report nothing until they end.
const RUNNING_STALL_FACTOR: u32 = 20;

/// The pause before a stage is submitted again doubles at most this many times.
const MAX_DOUBLINGS: u32 = 4;

/// Reasons in the error of a stage that was lost repeatedly.
const MAX_CAUSES: usize = 3;

/// Runs plans on the executors of a scheduler.
pub struct ClusterEngine {
    session: SessionContext,
    settings: job::Engine,
    /// The scheduler's `host:port`.
    scheduler: String,
    rest: Rest,
    trust: Option<Trust>,
    /// The executors before the last stage.
    executors: Mutex<Executors>,
    jobs: Mutex<Jobs>,
    /// The prefix of the names of this run's jobs.
    run: String,
}

impl ClusterEngine {
    /// The engine on the cluster of `scheduler`, once it has an executor. Plans fit the executors at the time of planning; small queries run in
    /// this process, with the memory of `engine`.
    ///
    /// # Errors
    /// [`crate::error::Kind::Engine`] when nothing listens on the scheduler's address, or no scheduler with an executor answers in
    /// time; [`crate::error::Kind::Job`] when the scheduler refuses this process, or cannot be trusted.
    pub async fn connect(engine: &job::Engine, scheduler: &str, control: &RunControl) -> Result<Self> {
        let trust = Trust::of_process()?;
        let rest = Rest::new(scheduler, trust.as_ref())?;
        absent(scheduler).await.map_or(Ok(()), Err)?;
        rest.accepts().await?;
        let executors = executors(&rest, (scheduler, engine.wait_seconds), control, None).await?;
        let Executors { count, cores, .. } = executors;
        tracing::info!(scheduler, executors = count, cores, "on a cluster");
        let state = session::state(settings::planning(&executors), session::runtime(engine)?)?;
        Ok(Self {
            session: SessionContext::new_with_state(state),
            settings: engine.clone(),
            scheduler: scheduler.to_owned(),
            rest,
            trust,
            executors: Mutex::new(executors),
            jobs: Mutex::new(Jobs { moved: Instant::now(), running: BTreeMap::new() }),
            run: uuid::Uuid::new_v4().simple().to_string(),
        })
    }

    /// The executors that the cluster has now. `after` is the reason of the last lost attempt.
    async fn executors_now(&self, control: &RunControl, after: Option<Error>) -> Result<Executors> {
        executors(&self.rest, (&self.scheduler, self.settings.wait_seconds), control, after).await
    }

    fn executors(&self) -> Executors {
        *self.executors.lock()
    }

    /// Submits `plan` as a job of its own and returns the rows of its only partition.
    async fn attempt(
        &self,
        stage: &str,
        plan: &Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
        control: &RunControl,
    ) -> Result<Vec<RecordBatch>, AttemptFailure> {
        let name = format!("{}/{stage}/{}", self.run, uuid::Uuid::new_v4().simple());
        let compression = if settings::shuffles_texts(plan) { "lz4" } else { "none" };
        let running = settings::with_compression(settings::running(config, plan, &name), compression);
        let running = with_endpoints(running, self.trust.as_ref());
        let (ballista, codec) = (running.ballista_config(), Codec::default());
        let submit = async {
            let scheduler = format!("{}://{}", scheme(self.trust.as_ref()), self.scheduler);
            let (plan, session) = (Arc::clone(plan), self.session.session_id());
            let batches = execute_physical_plan::<PhysicalPlanNode>(
                scheduler,
                &ballista,
                plan,
                &codec,
                session,
                running.clone(),
            );
            batches.await?.try_collect().await
        };
        let mut seen =
            LastJobState { partitions: settings::query_stage_partitions(plan), ..LastJobState::default() };
        let _watched = Watched::begin(&self.jobs, &name);
        let failure = tokio::select! {
            biased;
            () = control.stop.cancelled() => AttemptFailure::Final(Error::interrupted()),
            batches = submit => match batches {
                Ok(batches) => {
                    // Work that was lost and repeated since the last poll counts too.
                    self.look(&name, stage, &mut seen, control).await;
                    return Ok(batches);
                }
                // The job has ended: there is nothing to cancel.
                Err(error) => return Err(failure::read(&error)),
            },
            why = self.watch_over(&name, stage, &mut seen, control) => AttemptFailure::Lost(Error::engine(why)),
        };
        self.cancel(&name).await;
        Err(failure)
    }

    /// Polls a job once. Returns whether anything has changed since the last time.
    async fn look(&self, name: &str, stage: &str, seen: &mut LastJobState, control: &RunControl) -> bool {
        if seen.job.is_none() {
            seen.job = self.rest.job_id(name).await.unwrap_or(None);
        }
        let Some(job) = &seen.job else { return false };
        let Ok(now) = self.rest.advance(job).await else { return false };
        let last = std::mem::replace(&mut seen.advance, now.clone());
        if now == last {
            return false;
        }
        if now.query_stages_done < last.query_stages_done || now.lost > last.lost {
            control.progress.recovering("the work of an executor was lost and is done again");
        }
        control.progress.tasks(now.done, now.tasks, now.query_stages_done, now.query_stages);
        control.progress.stage_advances(now.rows_in, now.rows_out);
        let all = seen.partitions.max(1);
        let reached = InputProgress { done: now.partitions_done.min(all), all, unit: InputUnit::Partitions };
        control.progress.stage_reaches(stage, reached);
        true
    }

    /// Polls a job until it stalls or exceeds its deadline, and returns the reason.
    async fn watch_over(
        &self,
        name: &str,
        stage: &str,
        seen: &mut LastJobState,
        control: &RunControl,
    ) -> String {
        let began = Instant::now();
        // Since when the cluster has no executor.
        let mut alone = None;
        let stall = Duration::from_secs(self.settings.stall_seconds);
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.look(name, stage, seen, control).await {
                self.jobs.lock().moved(name, seen.advance.running);
                alone = None;
            } else if self.rest.executors().await.is_ok_and(|executors| executors.count == 0) {
                let since = *alone.get_or_insert_with(Instant::now);
                if since.elapsed().as_secs() >= self.settings.wait_seconds {
                    let waited = self.settings.wait_seconds;
                    return format!("the scheduler has had no executor for {waited} seconds");
                }
            } else {
                alone = None;
            }
            let (moved, running) = self.jobs.lock().last();
            let limit = if running { stall.saturating_mul(RUNNING_STALL_FACTOR) } else { stall };
            if moved.elapsed() > limit {
                return format!("no task began or ended for {} seconds", moved.elapsed().as_secs());
            }
            let deadline = self.settings.deadline_seconds;
            if deadline > 0 && began.elapsed().as_secs() >= deadline {
                return format!("it took longer than {deadline} seconds (engine.deadline_seconds)");
            }
        }
    }

    /// Cancels a job. If that fails, the job ends by itself and its files stay unused.
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

/// The running jobs of a run: one for each stage that runs at the same time. A job may wait while another has all executors,
/// so none counts as stalled while one makes progress.
struct Jobs {
    /// When a task of one of them last began or ended.
    moved: Instant,
    /// The running tasks of each job.
    running: BTreeMap<String, usize>,
}

impl Jobs {
    /// The job `name` made progress and has `running` tasks.
    fn moved(&mut self, name: &str, running: usize) {
        self.moved = Instant::now();
        self.running.insert(name.to_owned(), running);
    }

    /// When one of them last made progress, and whether a task runs.
    fn last(&self) -> (Instant, bool) {
        (self.moved, self.running.values().any(|running| *running > 0))
    }
}

/// Counts a job as running while the value lives.
struct Watched<'a> {
    jobs: &'a Mutex<Jobs>,
    name: &'a str,
}

impl<'a> Watched<'a> {
    fn begin(jobs: &'a Mutex<Jobs>, name: &'a str) -> Self {
        jobs.lock().moved(name, 0);
        Self { jobs, name }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut jobs = self.jobs.lock();
        // Its executors are free for the others from now on.
        jobs.moved = Instant::now();
        jobs.running.remove(self.name);
    }
}

/// The last state of a job.
#[derive(Default)]
struct LastJobState {
    /// Its id, once it is known.
    job: Option<String>,
    advance: Advance,
    /// The partitions of its query stages, about.
    partitions: u64,
}

impl Engine for ClusterEngine {
    fn session(&self) -> &SessionContext {
        &self.session
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

    /// Each task has memory of its own, and the executors take no more tasks than they have room for.
    fn runs_stages_together(&self) -> bool {
        true
    }

    fn task_bytes(&self) -> usize {
        self.executors().task_bytes
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
            // With many partitions, the rows of the final query stage would be lost with any executor that wrote some.
            let plan: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(portable(
                with_stored_rows(&self.session, plan).await?,
            )?));
            let mut attempts = 0;
            // The reasons of lost attempts, the latest first.
            let mut lost: Vec<String> = Vec::new();
            loop {
                let why = match self.attempt(stage, &plan, config, control).await {
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
                        "stage {stage} was submitted {attempts} times and never finished; run the same command again to \
                     continue from the last finished stage"
                    ));
                    return Err(match because() {
                        Some(why) => error.because(why),
                        None => error,
                    });
                }
                tracing::warn!(stage, attempts, why, "the stage is submitted again");
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

/// Puts the reason of a lost attempt before earlier ones, each reason once.
fn put_first(lost: &mut Vec<String>, why: &str) {
    lost.retain(|earlier| earlier != why);
    lost.insert(0, why.to_owned());
    lost.truncate(MAX_CAUSES);
}

/// `plan` with its sets of rows in an object next to the tables that it writes: each task gets all of a plan, and loads only the sets
/// of the files that it reads.
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
            let sets = files.iter_mut().filter_map(|file| file.wanted.as_mut());
            sets.for_each(|rows| rows.store(&store, &path, &mut bytes));
            let parse = ParseFiles { files: files.into(), parser: parse.parser.clone() };
            return Ok(Transformed::yes(OperatorExec::plan(parse, inputs())?));
        }
        if let Some(number) = OperatorExec::<NumberRows>::described(node.as_ref()) {
            let mut chunks = number.chunks.to_vec();
            let sets = chunks.iter_mut().filter_map(|chunk| chunk.wanted.as_mut());
            sets.for_each(|wanted| wanted.rows.store(&store, &path, &mut bytes));
            let number = NumberRows { chunks: chunks.into(), batch_rows: number.batch_rows };
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

/// `plan` in a form that can be sent.
///
/// File scans lose their output partitionings. They keep the optimizer of this process from cutting scans, and would have more
/// partitions than a task has. A node without rows becomes a scan of no rows: an `EmptyExec` has no metrics, and the scheduler
/// never ends a query stage whose tasks have different numbers of them.
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

/// The error of an address whose host is unknown, or on which nothing listens, also after a short time. One that does not answer is
/// waited for.
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

/// The executors of a scheduler, once it has one, within so many seconds. `after` is the reason of the last lost attempt.
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
            return Err(Error::engine(message).because(match after {
                Some(why) => missing.because(why),
                None => missing,
            }));
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

    #[test]
    fn a_job_that_waits_for_another_of_its_run_is_not_stalled() {
        let jobs = Mutex::new(Jobs { moved: Instant::now(), running: BTreeMap::new() });
        let _waits = Watched::begin(&jobs, "waits");
        let works = Watched::begin(&jobs, "works");
        let (began, running) = jobs.lock().last();
        assert!(!running);
        jobs.lock().moved("works", 2);
        let (moved, running) = jobs.lock().last();
        assert!(running && moved >= began);
        drop(works);
        let (ended, running) = jobs.lock().last();
        assert!(!running && ended >= moved, "the executors are free");
    }
}
