//! Runs stages: plans the frames of a stage, executes the plans, and publishes their files in one manifest. Takes over the files of
//! earlier attempts.

use std::collections::{BTreeMap, HashSet};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_expr::expressions::col as column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use datafusion::prelude::{DataFrame, SessionConfig};
use parking_lot::Mutex;

use crate::engine::{Engine, RunControl, holding_less, session};
use crate::error::{Context, Error, Kind, Result};
use crate::job::{InputFile, ReadRanges};
use crate::operator::score;
use crate::output::claim::Claim;
use crate::output::manifest::{File, FinishedStage, StageTime};
use crate::output::write::{TableTarget, Write};
use crate::output::{Layout, check, read};
use crate::plan::OperatorExec;
use crate::schema::Table;
use crate::source::{self, Checksums, checksum_of};

/// Runs the stages of one run on an engine.
pub(crate) struct Runner<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) output: &'a Layout,
    pub(super) claim: &'a Claim,
    pub(super) control: &'a RunControl,
    /// The fingerprint of the run. Stages of other runs are not taken over.
    pub(super) fingerprint: &'a str,
    /// Part of the name of each stage manifest: see [`PreviousResult::key`](super::existing::PreviousResult::key).
    pub(super) key: String,
    reached: Mutex<RunProgress>,
    earlier: Mutex<BTreeMap<String, FinishedStage>>,
}

pub(crate) struct StageWork<'w> {
    pub(crate) name: &'w str,
    pub(crate) targets: Vec<TableTarget>,
    /// The columns that sort the rows in each partition. Empty if any order is allowed.
    pub(crate) sorted_by: &'static [&'static str],
    pub(crate) rows: Planned<'w>,
}

/// The number of short rows in a batch: see [`Planned::short`].
const SHORT_ROWS: usize = 8_192;

/// The plan of a stage: a function from a number of partitions to frames, and the settings for their execution.
pub(crate) struct Planned<'a> {
    pub(crate) frames: Box<dyn Fn(usize) -> Result<Vec<DataFrame>> + Send + Sync + 'a>,
    /// The number of bytes that are shuffled between partitions. It determines the number of partitions.
    pub(crate) bytes: u64,
    /// The number of rows per batch. `None` for the engine's batch size.
    pub(crate) batch_rows: Option<usize>,
    /// The number of parts in which the stage reads the source. With fewer than 2 parts, the stage is published as a whole.
    pub(crate) parts: usize,
}

impl Planned<'static> {
    /// Plans `frames`, which shuffle about `bytes` between partitions.
    pub(crate) fn new(bytes: u64, frames: Vec<DataFrame>) -> Self {
        Planned::made(bytes, move |_| Ok(frames.clone()))
    }

    /// Plans `frames` with short rows, of numbers and ids, in large batches, because a batch costs more than a row.
    pub(crate) fn short(bytes: u64, frames: Vec<DataFrame>) -> Self {
        Self { batch_rows: Some(SHORT_ROWS), ..Planned::new(bytes, frames) }
    }
}

impl<'a> Planned<'a> {
    /// Plans the frames that `frames` creates for a number of partitions. The rows do not depend on this number.
    pub(crate) fn made(
        bytes: u64,
        frames: impl Fn(usize) -> Result<Vec<DataFrame>> + Send + Sync + 'a,
    ) -> Self {
        Self { frames: Box::new(frames), bytes, batch_rows: None, parts: 0 }
    }
}

#[derive(Default)]
struct RunProgress {
    total: usize,
    /// The number of stages that have started.
    begun: usize,
    /// The number of stages that earlier attempts had finished.
    reused: usize,
    /// The finished stages, by the order in which they started.
    done: BTreeMap<usize, FinishedStage>,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(
        engine: &'a dyn Engine,
        (output, claim): (&'a Layout, &'a Claim),
        control: &'a RunControl,
        fingerprint: &'a str,
        key: String,
    ) -> Self {
        let (reached, earlier) = (Mutex::default(), Mutex::default());
        Self { engine, output, claim, control, fingerprint, key, reached, earlier }
    }

    /// Reports the start of a run with these stages.
    pub(super) fn begin(&self, stages: &[String]) {
        self.control.progress.run_begins(stages);
        self.expect(stages.len());
    }

    pub(crate) fn expect(&self, more: usize) {
        self.reached.lock().total += more;
    }

    pub(super) fn stopped(&self) -> bool {
        self.control.stop.is_cancelled()
    }

    /// The number of stages that were taken over from earlier attempts.
    pub(super) fn reused(&self) -> usize {
        self.reached.lock().reused
    }

    /// The time and the number of rows of every finished stage.
    pub(super) fn times(&self) -> Vec<StageTime> {
        let time = |finished: &FinishedStage| StageTime {
            name: finished.stage.clone(),
            seconds: finished.seconds,
            rows: rows_of(finished),
            bytes: finished.files.iter().map(|file| file.bytes).sum(),
            join: finished.join.clone(),
        };
        self.reached.lock().done.values().map(time).collect()
    }

    pub(super) fn is_taken(&self, name: &str) -> bool {
        self.reached.lock().done.values().any(|done| done.stage == name)
    }

    /// Returns the stage as an earlier attempt finished it, unless its files are damaged.
    pub(super) async fn find(&self, name: &str) -> Result<Option<FinishedStage>> {
        if let Some(finished) = self.earlier.lock().get(name) {
            return Ok(Some(finished.clone()));
        }
        let inside = Layout::stage(name, &self.key);
        let damage = match self.output.read::<FinishedStage>(&inside).await {
            Ok(None) => return Ok(None),
            // The name of a stage manifest contains only half of the fingerprint, so this can be another run's stage.
            Ok(Some(finished)) if finished.fingerprint != self.fingerprint => {
                "it belongs to another run".to_owned()
            }
            Ok(Some(finished)) => {
                let files = finished.files.iter().collect::<Vec<_>>();
                let damage = check::bytes(self.output, &files, &check::unseen).await?;
                match damage.first() {
                    None => {
                        self.earlier.lock().insert(name.to_owned(), finished.clone());
                        return Ok(Some(finished));
                    }
                    Some(first) => first.to_string(),
                }
            }
            // The manifest is incomplete, for example after a power cut.
            Err(error) if error.source().is_some_and(|cause| cause.is::<serde_json::Error>()) => {
                format!("{inside} cannot be read")
            }
            Err(error) => return Err(error),
        };
        tracing::warn!("{name} of an earlier run is damaged and is done again: {damage}");
        self.output.discard(&inside).await?;
        Ok(None)
    }

    pub(super) async fn finished_earlier(&self) -> Result<Vec<String>> {
        self.output.stages(&self.key).await
    }

    /// Removes the files of a stage that no later stage reads. If the removal fails, the files are removed at the end of the run.
    pub(super) async fn remove(&self, name: &str) {
        self.earlier.lock().remove(name);
        let written = self.reached.lock().done.values().find(|done| done.stage == name).cloned();
        let Some(FinishedStage { files, .. }) = written else { return };
        if let Err(error) = self.output.remove_stage(name, &self.key, &files).await {
            tracing::debug!(%error, stage = name, "the files of an earlier stage could not be removed");
        }
    }

    /// Takes over the files if an earlier attempt published the stage. Otherwise runs the frames one after the other and publishes their
    /// files. Each frame writes all tables of the stage.
    pub(crate) async fn run(&self, work: StageWork<'_>) -> Result<()> {
        let name = work.name;
        let progress = &self.control.progress;
        let (number, total) = {
            let mut reached = self.reached.lock();
            reached.begun += 1;
            (reached.begun, reached.total)
        };
        progress.stage_begins(name, number, total);
        if let Some(finished) = self.find(name).await? {
            progress.stage_ends(name, rows_of(&finished), finished.seconds, true);
            let mut reached = self.reached.lock();
            reached.reused += 1;
            reached.done.insert(number, finished);
            return Ok(());
        }
        let began = Instant::now();
        let engine = self.engine_for(&work.rows)?;
        engine.prepare(self.control).await?;
        let StageFiles { files, join, mut read } = self.write(engine, &work).await?;
        read.extend(Checksums::take(self.engine.session().state_ref().read().config()));
        let seconds = began.elapsed().as_secs_f64();
        let finished = FinishedStage {
            stage: name.to_owned(),
            fingerprint: self.fingerprint.to_owned(),
            seconds,
            join,
            read: self.not_read_before(read),
            files,
        };
        let finished = self.publish(finished).await?;
        progress.stage_ends(name, rows_of(&finished), seconds, false);
        self.reached.lock().done.insert(number, finished);
        Ok(())
    }

    /// Returns the engine for the plans of a stage: this process if they read small tables and no source.
    fn engine_for(&self, rows: &Planned<'_>) -> Result<&dyn Engine> {
        let Some((here, most)) = self.engine.in_this_process() else { return Ok(self.engine) };
        let mut bytes = Some(rows.bytes);
        for frame in (rows.frames)(1)? {
            let more = read::bytes_read(&frame.into_optimized_plan()?);
            bytes = bytes.zip(more).map(|(bytes, more)| bytes.max(more));
        }
        Ok(if bytes.is_some_and(|bytes| bytes <= most) { here } else { self.engine })
    }

    /// Runs the frames. If a task runs out of memory, plans them with more partitions. No manifest names the files of a failed plan, so
    /// they are removed at the end of the run.
    async fn write(&self, engine: &dyn Engine, work: &StageWork<'_>) -> Result<StageFiles> {
        let (config, stage, frames) = (engine.config(), work.name, &work.rows.frames);
        let batch = config.batch_size().max(1);
        let config = config.with_batch_size(work.rows.batch_rows.map_or(batch, |rows| rows.max(1)));
        let partitions = engine.partitions(work.rows.bytes);
        let mut attempt = StageAttempt { config, partitions, is_divided: false, sorts_alone: false };
        let mut made = frames(attempt.partitions)?;
        if made.is_empty() {
            // The caller planned no frames, because the stage was finished. But its files are gone now.
            return Err(self.removed(stage));
        }
        if let [frame] = made.as_slice()
            && let Some(written) = self.write_parts(engine, work, &attempt.config, frame).await?
        {
            return Ok(written);
        }
        let (mut files, mut join, mut written) = (Vec::new(), None, 0);
        while let Some(frame) = made.get(written) {
            let plan = self.plan(work, frame.clone(), &attempt).await?;
            join = score::join_name(&plan).or(join);
            let error = match engine.run(stage, plan, &attempt.config, self.control).await {
                Ok(more) => {
                    files.extend(more);
                    written += 1;
                    continue;
                }
                Err(error) if error.kind() == Kind::Memory => error,
                Err(error) => return Err(error),
            };
            let before = attempt.partitions;
            let Some(next) = self.with_more_memory(engine, work, &attempt, written).await? else {
                return Err(error)
                    .context(|| format!("{stage} runs out of memory even with {before} partitions"));
            };
            attempt = next;
            made = frames(attempt.partitions)?;
            let (why, partitions) = (error.one_line(), attempt.partitions);
            let tasks = session::tasks_at_once(&attempt.config);
            let message = "a task ran out of memory, so the stage is planned again";
            tracing::warn!(stage = %stage, before, partitions, tasks, why, "{message}");
            self.control.progress.recovering(&why);
        }
        Ok(StageFiles { files, join: join.map(str::to_owned), read: Vec::new() })
    }

    /// Returns the next attempt after a task ran out of memory in the frame with the index `frame`. It has fewer concurrent tasks, or
    /// more partitions, so that a task keeps fewer rows in memory. Returns `None` if a task already had all the memory.
    async fn with_more_memory(
        &self,
        engine: &dyn Engine,
        work: &StageWork<'_>,
        tried: &StageAttempt,
        frame: usize,
    ) -> Result<Option<StageAttempt>> {
        let held_sides = tried.config.options().optimizer.hash_join_single_partition_threshold > 0;
        let config = session::hold_no_side(tried.config.clone());
        // More partitions help only if a task's memory grows with its number of rows. So the attempts alternate: more partitions, then
        // fewer tasks.
        let fewer =
            || Some(StageAttempt { config: session::fewer_tasks(&config)?, is_divided: false, ..*tried });
        if tried.is_divided
            && let Some(fewer) = fewer()
        {
            return Ok(Some(fewer));
        }
        let more = engine.more_partitions(tried.partitions).or(held_sides.then_some(tried.partitions));
        if let Some(partitions) = more
            && let Some(frame) = (work.rows.frames)(partitions)?.get(frame)
        {
            let more = StageAttempt { config: config.clone(), partitions, is_divided: true, ..*tried };
            let plan = self.plan(work, frame.clone(), &more).await?;
            if divides(&plan) {
                return Ok(Some(more));
            }
            // More partitions would not reduce the memory of a sort, so it gets the memory of all tasks.
            if sorts(&plan) && !tried.sorts_alone {
                let config = session::sort_alone(config, engine.task_bytes());
                return Ok(Some(StageAttempt { config, partitions: 1, is_divided: true, sorts_alone: true }));
            }
        }
        Ok(fewer())
    }

    /// Returns the plan that writes the rows of `frame` into the tables of the stage.
    pub(super) async fn plan(
        &self,
        work: &StageWork<'_>,
        frame: DataFrame,
        StageAttempt { config, partitions, .. }: &StageAttempt,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (mut state, plan) = frame.into_parts();
        *state.config_mut() = config.clone();
        let options = state.config_mut().options_mut();
        options.execution.target_partitions = options.execution.target_partitions.max(*partitions);
        let why = || format!("cannot plan {}", work.name);
        let mut physical = state.create_physical_plan(&plan).await.context(why)?;
        // To read the source in parts, a plan needs joins that keep one side in memory. Other plans use joins with less memory.
        if let Some(config) = holding_less(&physical, state.config())
            && source::parts(&physical).is_none()
        {
            *state.config_mut() = config;
            physical = state.create_physical_plan(&plan).await.context(why)?;
        }
        let plan = physical;
        let mut order = Vec::new();
        for name in work.sorted_by {
            order.push(PhysicalSortExpr::new_default(column(name, &plan.schema())?));
        }
        let plan: Arc<dyn ExecutionPlan> = match LexOrdering::new(order) {
            Some(order) => Arc::new(SortExec::new(order, plan).with_preserve_partitioning(true)),
            None => plan,
        };
        let write = Write {
            store_url: self.output.store_url().to_string(),
            root: self.output.root().to_string(),
            attempt: self.claim.attempt.clone(),
            targets: work.targets.clone(),
            parts: None,
        };
        let plan = OperatorExec::plan(write, vec![plan])?;
        let shown = datafusion::physical_plan::displayable(plan.as_ref());
        // A plan can contain a condition with the tags of many documents.
        let shown = || format!("{:.50000}", shown.indent(false).to_string());
        tracing::debug!(stage = %work.name, partitions, plan = %shown(), "planned");
        Ok(plan)
    }

    /// Writes the manifest of the stage. If another run of the same job has already written this manifest, returns that manifest.
    async fn publish(&self, finished: FinishedStage) -> Result<FinishedStage> {
        if self.output.create(&Layout::stage(&finished.stage, &self.key), &finished).await? {
            return Ok(finished);
        }
        match self.find(&finished.stage).await? {
            Some(other) => Ok(other),
            None => Err(self.removed(&finished.stage)),
        }
    }

    fn removed(&self, stage: &str) -> Error {
        let output = self.output.shown();
        Error::input(format!(
            "another run removed the stage {stage} from {output}: let only one run at a time write there"
        ))
    }

    pub(crate) fn files(&self, table: &str) -> Vec<File> {
        let reached = self.reached.lock();
        let files = reached.done.values().flat_map(|done| &done.files);
        files.filter(|file| file.table == table).cloned().collect()
    }

    /// The ranges of the source that finished stages have read.
    fn read_so_far(&self) -> Vec<ReadRanges> {
        self.reached.lock().done.values().flat_map(|done| done.read.iter().cloned()).collect()
    }

    pub(super) fn rows(&self, table: &str) -> u64 {
        self.reached.lock().done.values().map(|done| done.rows(table)).sum()
    }

    /// Adds the checksums of the ranges that stages read to `inputs`.
    pub(super) fn read_files(&self, inputs: &[InputFile]) -> Vec<InputFile> {
        let mut read: BTreeMap<_, BTreeMap<u64, (u64, u32)>> = BTreeMap::new();
        for ReadRanges { path, bytes, modified, ranges } in self.read_so_far() {
            let ranges = ranges.into_iter().map(|(start, length, crc32)| (start, (length, crc32)));
            read.entry((path, bytes, modified)).or_default().extend(ranges);
        }
        let record = |input: &InputFile| {
            let ranges = read.get(&(input.path.clone(), input.bytes, input.modified.unwrap_or(0)));
            let (crc32, crc32_bytes) = ranges.map(checksum_of).unzip();
            InputFile { crc32, crc32_bytes, ..input.clone() }
        };
        inputs.iter().map(record).collect()
    }

    /// Keeps the ranges that no finished stage of this run has read.
    fn not_read_before(&self, mut read: Vec<ReadRanges>) -> Vec<ReadRanges> {
        let before = self.read_so_far();
        let before: HashSet<_> = before
            .iter()
            .flat_map(|file| file.ranges.iter().map(|range| (file.path.as_str(), *range)))
            .collect();
        for ReadRanges { path, ranges, .. } in &mut read {
            ranges.retain(|range| !before.contains(&(path.as_str(), *range)));
        }
        read.retain(|file| !file.ranges.is_empty());
        read
    }
}

pub(super) struct StageAttempt {
    pub(super) config: SessionConfig,
    pub(super) partitions: usize,
    pub(super) is_divided: bool,
    /// Whether the plan has a single partition, so that its sort can use the memory of all tasks.
    pub(super) sorts_alone: bool,
}

pub(super) struct StageFiles {
    pub(super) files: Vec<File>,
    /// The ranges of the source files that the stage read.
    pub(super) read: Vec<ReadRanges>,
    /// The name of the join of sketches and candidates, if the stage compares candidates.
    pub(super) join: Option<String>,
}

fn divides(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let by_key = plan
        .downcast_ref::<RepartitionExec>()
        .is_some_and(|node| matches!(node.partitioning(), Partitioning::Hash(..)));
    by_key || plan.children().into_iter().any(divides)
}

fn sorts(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.downcast_ref::<SortExec>().is_some() || plan.children().into_iter().any(sorts)
}

/// The number of rows to report for a stage: the rows in its public tables, or in all tables if none is public.
fn rows_of(finished: &FinishedStage) -> u64 {
    let is_public = |file: &File| Table::named(&file.table).is_some();
    let any_public = finished.files.iter().any(is_public);
    finished.files.iter().filter(|file| !any_public || is_public(file)).map(|file| file.rows).sum()
}
