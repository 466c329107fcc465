//! How a step is done: its frames are planned, executed, and published by one manifest, or it is taken over from an earlier
//! run.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};

use super::step::Step;
use super::tables::AnyTable;
use crate::engine::{Engine, Local, RunControl, session};
use crate::error::{Context, Error, Kind, Result};
use crate::job::Job;
use crate::operator::score;
use crate::output::claim::Claim;
use crate::output::manifest::{File, FinishedStep, StepTime};
use crate::output::write::Write;
use crate::output::{Layout, check, read};
use crate::plan::OperatorExec;
use crate::schema::{SourceTypes, Table};

/// The steps of a run, in order, and what those that are done have written.
pub(super) struct Steps<'a> {
    engine: &'a dyn Engine,
    output: &'a Layout,
    claim: &'a Claim,
    control: &'a RunControl,
    fingerprint: &'a str,
    /// What the names of its step manifests bear: the steps of a run that replaces a result are not those of the run that
    /// made it.
    key: String,
    job: &'a Job,
    /// What the tables' columns take from the source.
    source: SourceTypes,
    reached: Mutex<Reached>,
    /// Steps of an earlier attempt, each checked once.
    earlier: Mutex<BTreeMap<String, FinishedStep>>,
}

/// How far a run is.
#[derive(Default)]
struct Reached {
    /// Steps that the run has, and of those the ones that have begun.
    total: usize,
    begun: usize,
    /// Steps that an earlier run had finished.
    reused: usize,
    /// The steps that are done, by their place among those that have begun.
    done: BTreeMap<usize, FinishedStep>,
}

impl<'a> Steps<'a> {
    pub(super) fn new(
        engine: &'a dyn Engine,
        output: &'a Layout,
        claim: &'a Claim,
        control: &'a RunControl,
        fingerprint: &'a str,
        key: String,
        job: &'a Job,
    ) -> Self {
        Self {
            engine,
            output,
            claim,
            control,
            fingerprint,
            key,
            job,
            source: SourceTypes::default(),
            reached: Mutex::new(Reached { total: Step::of(job).len(), ..Reached::default() }),
            earlier: Mutex::default(),
        }
    }

    /// The same over a source that gives its columns these types.
    pub(super) fn over(self, source: SourceTypes) -> Self {
        Self { source, ..self }
    }

    /// The session that plans the steps.
    pub(super) fn session(&self) -> &'a SessionContext {
        self.engine.session()
    }

    /// What runs the steps.
    pub(super) fn engine(&self) -> &'a dyn Engine {
        self.engine
    }

    /// Bytes that the operators of a task may reserve together.
    pub(super) fn task_bytes(&self) -> usize {
        self.engine.task_bytes()
    }

    /// Whether two steps that do not need each other may run at the same time.
    pub(super) fn run_together(&self) -> bool {
        self.engine.runs_steps_together()
    }

    /// There will be more steps than was said at first.
    pub(super) fn expect(&self, more: usize) {
        self.reached().total += more;
    }

    pub(super) fn stopped(&self) -> bool {
        self.control.stop.is_cancelled()
    }

    /// Steps that an earlier run had finished.
    pub(super) fn reused(&self) -> usize {
        self.reached().reused
    }

    /// What every step so far took.
    pub(super) fn times(&self) -> impl Iterator<Item = StepTime> {
        let reached = self.reached();
        let times = reached.done.values().map(|finished| StepTime {
            name: finished.step.clone(),
            seconds: finished.seconds,
            rows: rows_of(finished),
            road: finished.road.clone(),
        });
        times.collect::<Vec<_>>().into_iter()
    }

    pub(super) fn output(&self) -> &'a Layout {
        self.output
    }

    /// The claim under which the run writes.
    pub(super) fn claim(&self) -> &'a Claim {
        self.claim
    }

    pub(super) fn fingerprint(&self) -> &'a str {
        self.fingerprint
    }

    /// Whether this run has come past the step.
    pub(super) fn is_taken(&self, step: Step) -> bool {
        let name = step.name();
        self.reached().done.values().any(|done| done.step == name)
    }

    /// Whether an earlier run finished the step, so that what only it needs can be left undone.
    pub(super) async fn is_done(&self, step: Step) -> Result<bool> {
        Ok(self.find(step).await?.is_some())
    }

    /// The step as an earlier attempt finished it; `None` if it has to be done, also since what it wrote is damaged.
    async fn find(&self, step: Step) -> Result<Option<FinishedStep>> {
        let name = step.name();
        if let Some(finished) = self.earlier().get(name.as_ref()) {
            return Ok(Some(finished.clone()));
        }
        let inside = Layout::step(&name, &self.key);
        let damage = match self.output.read::<FinishedStep>(&inside).await {
            Ok(None) => return Ok(None),
            // The names of step manifests hold half of the fingerprint: this is another run's.
            Ok(Some(finished)) if finished.fingerprint != self.fingerprint => {
                "it belongs to another run".to_owned()
            }
            Ok(Some(finished)) => {
                let damage = check::bytes(self.output, &finished.files.iter().collect::<Vec<_>>()).await?;
                match damage.first() {
                    None => {
                        self.earlier().insert(name.into_owned(), finished.clone());
                        return Ok(Some(finished));
                    }
                    Some(first) => first.to_string(),
                }
            }
            // Cut off, as by a power cut.
            Err(error) if error.source().is_some_and(|cause| cause.is::<serde_json::Error>()) => {
                format!("{inside} cannot be read")
            }
            Err(error) => return Err(error),
        };
        tracing::warn!("{name} of an earlier run is damaged and is done again: {damage}");
        self.output.discard(&inside).await?;
        Ok(None)
    }

    /// The names of the steps whose manifests earlier runs left.
    pub(super) async fn finished_earlier(&self) -> Result<Vec<String>> {
        self.output.steps(&self.key).await
    }

    /// Removes what a step wrote, which no later one reads. What stays is removed with the rest at the end of the run.
    pub(super) async fn remove(&self, step: Step) {
        let name = step.name();
        self.earlier().remove(name.as_ref());
        let written =
            self.reached().done.values().find(|finished| finished.step == name).map(|s| s.files.clone());
        let Some(files) = written else { return };
        if let Err(error) = self.output.remove_step(&name, &self.key, &files).await {
            tracing::debug!(%error, %step, "what an earlier step wrote could not be removed");
        }
    }

    fn earlier(&self) -> MutexGuard<'_, BTreeMap<String, FinishedStep>> {
        self.earlier.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reached(&self) -> MutexGuard<'_, Reached> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `frames` one after the other, each into all tables of `step`, and publishes what they wrote. `bytes` is what
    /// they shuffle between their partitions, of which there are as many as that needs.
    pub(super) async fn run(&self, step: Step, bytes: u64, frames: Vec<DataFrame>) -> Result<()> {
        self.run_made(step, bytes, |_| Ok(frames.clone())).await
    }

    /// The same with frames that are made for a number of partitions. They have the same rows for any number.
    pub(super) async fn run_made(
        &self,
        step: Step,
        bytes: u64,
        frames: impl Fn(usize) -> Result<Vec<DataFrame>>,
    ) -> Result<()> {
        self.run_on(self.engine, step, bytes, |config| config, frames).await
    }

    /// The same with batches of so many rows at most, where a row may be long.
    pub(super) async fn run_in_batches(
        &self,
        step: Step,
        bytes: u64,
        rows: usize,
        frames: Vec<DataFrame>,
    ) -> Result<()> {
        let shorter = |config: SessionConfig| {
            let rows = rows.clamp(1, config.batch_size().max(1));
            config.with_batch_size(rows)
        };
        self.run_on(self.engine, step, bytes, shorter, |_| Ok(frames.clone())).await
    }

    /// The same in this process, for rows that it holds: on their way to a cluster they might be too many.
    pub(super) async fn run_here(&self, step: Step, frames: Vec<DataFrame>) -> Result<()> {
        let here = Local::new(self.session().clone());
        self.run_on(&here, step, 0, |config| config, |_| Ok(frames.clone())).await
    }

    async fn run_on(
        &self,
        engine: &dyn Engine,
        step: Step,
        bytes: u64,
        change: impl Fn(SessionConfig) -> SessionConfig,
        frames: impl Fn(usize) -> Result<Vec<DataFrame>>,
    ) -> Result<()> {
        let name = step.name();
        let progress = &self.control.progress;
        let (number, total) = {
            let mut reached = self.reached();
            reached.begun += 1;
            (reached.begun, reached.total)
        };
        progress.step_begins(&name, number, total);
        if let Some(finished) = self.find(step).await? {
            progress.step_ends(&name, rows_of(&finished), finished.seconds, true);
            let mut reached = self.reached();
            reached.reused += 1;
            reached.done.insert(number, finished);
            return Ok(());
        }
        let began = Instant::now();
        engine.prepare(self.control).await?;
        let Written { files, road } = self.write(engine, step, bytes, change, frames).await?;
        let seconds = began.elapsed().as_secs_f64();
        let finished = FinishedStep {
            step: name.clone().into_owned(),
            fingerprint: self.fingerprint.to_owned(),
            seconds,
            road,
            files,
        };
        let finished = self.publish(step, finished).await?;
        progress.step_ends(&name, rows_of(&finished), seconds, false);
        self.reached().done.insert(number, finished);
        Ok(())
    }

    /// Runs the frames, with more partitions where a task runs out of memory. What a plan that failed has written, no
    /// manifest names; it is removed at the end of the run.
    async fn write(
        &self,
        engine: &dyn Engine,
        step: Step,
        bytes: u64,
        change: impl Fn(SessionConfig) -> SessionConfig,
        frames: impl Fn(usize) -> Result<Vec<DataFrame>>,
    ) -> Result<Written> {
        let (config, partitions) = (change(engine.config()), engine.partitions(bytes));
        let mut attempt = Attempt { config, partitions, is_divided: false, sorts_alone: false };
        let mut made = frames(attempt.partitions)?;
        if made.is_empty() {
            // It was done a moment ago, so that nothing was planned for it.
            return Err(self.removed(step));
        }
        let (mut files, mut road, mut written) = (Vec::new(), None, 0);
        while let Some(frame) = made.get(written) {
            let plan = self.plan(step, frame.clone(), &attempt).await?;
            road = score::road(&plan).or(road);
            let error = match engine.run(&step.name(), plan, &attempt.config, self.control).await {
                Ok(more) => {
                    files.extend(more);
                    written += 1;
                    continue;
                }
                Err(error) if error.kind() == Kind::Memory => error,
                Err(error) => return Err(error),
            };
            let before = attempt.partitions;
            let Some(next) = self.with_more_memory(engine, step, &attempt, written, &frames).await? else {
                return Err(error)
                    .context(|| format!("{step} runs out of memory even with {before} partitions"));
            };
            attempt = next;
            made = frames(attempt.partitions)?;
            let (why, partitions) = (error.one_line(), attempt.partitions);
            let tasks = session::tasks_at_once(&attempt.config);
            let message = "a task ran out of memory, so the step is planned again";
            tracing::warn!(%step, before, partitions, tasks, why, "{message}");
            self.control.progress.recovering(&why);
        }
        Ok(Written { files, road: road.map(str::to_owned) })
    }

    /// How a step is tried again whose tasks ran out of memory while it wrote a frame of these: a task has less to hold, or is one
    /// of fewer; `None` if one runs alone and has all that there is.
    async fn with_more_memory(
        &self,
        engine: &dyn Engine,
        step: Step,
        tried: &Attempt,
        frame: usize,
        frames: impl Fn(usize) -> Result<Vec<DataFrame>>,
    ) -> Result<Option<Attempt>> {
        let held_sides = tried.config.options().optimizer.hash_join_single_partition_threshold > 0;
        let config = session::hold_no_side(tried.config.clone());
        // What a task needs may follow its rows or not, so both are tried in turn.
        let fewer = || Some(Attempt { config: session::fewer_tasks(&config)?, is_divided: false, ..*tried });
        if tried.is_divided
            && let Some(fewer) = fewer()
        {
            return Ok(Some(fewer));
        }
        let more = engine.more_partitions(tried.partitions).or(held_sides.then_some(tried.partitions));
        if let Some(partitions) = more
            && let Some(frame) = frames(partitions)?.get(frame)
        {
            let more = Attempt { config: config.clone(), partitions, is_divided: true, ..*tried };
            let plan = self.plan(step, frame.clone(), &more).await?;
            if divides(&plan) {
                return Ok(Some(more));
            }
            // More partitions would leave each task what it has.
            if sorts(&plan) && !tried.sorts_alone {
                let config = session::sort_alone(config, engine.task_bytes());
                return Ok(Some(Attempt { config, partitions: 1, is_divided: true, sorts_alone: true }));
            }
        }
        Ok(fewer())
    }

    /// The plan that writes a frame's rows into the tables of `step`.
    async fn plan(
        &self,
        step: Step,
        frame: DataFrame,
        Attempt { config, partitions, .. }: &Attempt,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (mut state, plan) = frame.into_parts();
        *state.config_mut() = config.clone();
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = options.execution.target_partitions.max(*partitions);
        let plan = state.create_physical_plan(&plan).await.context(|| format!("cannot plan {step}"))?;
        let write = Write {
            store_url: self.output.store_url().clone(),
            root: self.output.root().clone(),
            attempt: self.claim.attempt().clone(),
            targets: step.targets(self.job, &self.source),
        };
        let plan = OperatorExec::plan(write, vec![plan])?;
        let shown = datafusion::physical_plan::displayable(plan.as_ref());
        tracing::debug!(%step, partitions, plan = %shown.indent(false), "planned");
        Ok(plan)
    }

    /// Writes the step's manifest; where another run of the same job was faster, its step is the one that counts.
    async fn publish(&self, step: Step, finished: FinishedStep) -> Result<FinishedStep> {
        if self.output.create(&Layout::step(&finished.step, &self.key), &finished).await? {
            return Ok(finished);
        }
        match self.find(step).await? {
            Some(other) => Ok(other),
            None => Err(self.removed(step)),
        }
    }

    fn removed(&self, step: Step) -> Error {
        let output = self.output.shown();
        Error::input(format!(
            "another run removed {step} from {output}: let only one run at a time write there"
        ))
    }

    /// The files of a table that a step wrote.
    pub(super) fn files(&self, table: impl Into<AnyTable>) -> Vec<File> {
        let name = table.into().name();
        let reached = self.reached();
        reached.done.values().flat_map(|s| &s.files).filter(|f| f.table == name).cloned().collect()
    }

    /// The rows of a table that a step wrote.
    pub(super) fn rows(&self, table: impl Into<AnyTable>) -> u64 {
        let name = table.into().name();
        self.reached().done.values().map(|s| s.rows(&name)).sum()
    }

    /// The bytes of a table that a step wrote.
    pub(super) fn bytes(&self, table: impl Into<AnyTable>) -> u64 {
        self.files(table).iter().map(|f| f.bytes).sum()
    }

    /// What the tables' columns take from the source.
    pub(super) fn source(&self) -> &SourceTypes {
        &self.source
    }

    /// The table as a frame to compute on.
    pub(super) fn table(&self, table: impl Into<AnyTable>) -> Result<DataFrame> {
        let table = table.into();
        let frame = self.stored(table)?;
        match table {
            AnyTable::Public(public) => read::unsigned(frame, public),
            AnyTable::Work(_) => Ok(frame),
        }
    }

    /// The table as its files have it.
    pub(super) fn stored(&self, table: impl Into<AnyTable>) -> Result<DataFrame> {
        let table = table.into();
        read::frame(self.session(), self.output, &self.files(table), table.schema(self.job, &self.source))
    }
}

/// How a step is planned and run.
struct Attempt {
    config: SessionConfig,
    partitions: usize,
    /// Whether it has more partitions than the one before, and as many tasks at once.
    is_divided: bool,
    /// Whether its only sort has the memory alone.
    sorts_alone: bool,
}

/// What came of the frames of a step.
struct Written {
    files: Vec<File>,
    /// The road on which sketches came to candidates, where the step compares such.
    road: Option<String>,
}

/// Whether a plan divides rows among its partitions by a key.
fn divides(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let by_key = plan
        .downcast_ref::<RepartitionExec>()
        .is_some_and(|node| matches!(node.partitioning(), Partitioning::Hash(..)));
    by_key || plan.children().into_iter().any(divides)
}

/// Whether a plan sorts rows.
fn sorts(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<SortExec>().is_some() || plan.children().into_iter().any(sorts)
}

/// The rows that a step is known by: those of its public tables, or of all where it has none.
fn rows_of(finished: &FinishedStep) -> u64 {
    let public = |file: &&File| Table::named(&file.table).is_some();
    match finished.files.iter().any(|file| public(&file)) {
        true => finished.files.iter().filter(public).map(|f| f.rows).sum(),
        false => finished.files.iter().map(|f| f.rows).sum(),
    }
}
