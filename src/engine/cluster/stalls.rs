//! Watches the job of a stage: polls its progress until it stalls, exceeds its deadline or kills executors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;

use super::rest::{Advance, DeadTask, Rest};
use super::tasks::AttemptFailure;
use crate::engine::control::{InputProgress, InputUnit, RunControl};
use crate::error::Error;
use crate::job;
use crate::source::files_of_partition;

/// The interval between two polls of a running job, or of a scheduler that does not answer yet.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// While tasks run, the time limit for a stall is multiplied by this factor, because tasks report progress only at their end.
const RUNNING_STALL_FACTOR: u32 = 20;

/// Watches a job of a stage.
pub(super) struct JobWatch<'a> {
    pub(super) rest: &'a Rest,
    pub(super) settings: &'a job::EngineSettings,
    pub(super) job: Watched<'a>,
    pub(super) stage: &'a StageRun<'a>,
    pub(super) control: &'a RunControl,
}

impl JobWatch<'_> {
    /// Polls a job once. Returns whether anything changed since the last poll.
    pub(super) async fn look(&self, seen: &mut LastJobState) -> bool {
        if seen.job.is_none() {
            seen.job = self.rest.job_id(self.job.name).await.unwrap_or(None);
        }
        let Some(job) = &seen.job else { return false };
        let Ok(now) = self.rest.advance(job).await else { return false };
        let last = std::mem::replace(&mut seen.advance, now.clone());
        if now == last {
            return false;
        }
        if now.query_stages_done < last.query_stages_done || now.lost > last.lost {
            self.control.progress.recovering("the work of an executor was lost and is done again");
        }
        self.stage.dead.lock().extend(now.dead.iter().cloned());
        self.control.progress.tasks(now.done, now.tasks, now.query_stages_done, now.query_stages);
        self.control.progress.stage_advances(now.rows_in, now.rows_out);
        let all = seen.partitions.max(1);
        let reached = InputProgress { done: now.partitions_done.min(all), all, unit: InputUnit::Partitions };
        self.control.progress.stage_reaches(self.stage.name, reached);
        true
    }

    /// Polls a job until it stalls, exceeds its deadline or kills executors. Returns the reason.
    pub(super) async fn until_lost(&self, seen: &mut LastJobState) -> AttemptFailure {
        let lost = |why: String| AttemptFailure::Lost(Error::engine(why));
        let began = Instant::now();
        // The time since when the cluster has had no executor, if it has none.
        let mut alone = None;
        let stall = Duration::from_secs(self.settings.stall_seconds);
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.look(seen).await {
                self.job.jobs.lock().moved(self.job.name, seen.advance.running);
                alone = None;
                if let Some(deadly) = self.stage.deadly_files() {
                    return AttemptFailure::Final(deadly);
                }
            } else if self.rest.executors().await.is_ok_and(|executors| executors.count == 0) {
                let since = *alone.get_or_insert_with(Instant::now);
                if since.elapsed().as_secs() >= self.settings.wait_seconds {
                    let waited = self.settings.wait_seconds;
                    return lost(format!("the scheduler has had no executor for {waited} seconds"));
                }
            } else {
                alone = None;
            }
            let (moved, running) = self.job.jobs.lock().last();
            let limit = if running { stall.saturating_mul(RUNNING_STALL_FACTOR) } else { stall };
            if moved.elapsed() > limit {
                return lost(format!("no task began or ended for {} seconds", moved.elapsed().as_secs()));
            }
            let deadline = self.settings.deadline_seconds;
            if deadline > 0 && began.elapsed().as_secs() >= deadline {
                return lost(format!("it took longer than {deadline} seconds (engine.deadline_seconds)"));
            }
        }
    }
}

/// The state of a job at its last poll.
#[derive(Default)]
pub(super) struct LastJobState {
    /// The id of the job, once the scheduler lists it.
    pub(super) job: Option<String>,
    pub(super) advance: Advance,
    /// The approximate number of partitions in the job's query stages.
    pub(super) partitions: u64,
}

/// A stage that runs, in one or more attempts.
pub(super) struct StageRun<'a> {
    pub(super) name: &'a str,
    pub(super) plan: Arc<dyn ExecutionPlan>,
    /// The tasks of all attempts that were reading the source when their executor was lost.
    pub(super) dead: Mutex<BTreeSet<DeadTask>>,
}

impl StageRun<'_> {
    /// Returns an error if two executors were lost while they ran the same task. It names the files that the task reads.
    fn deadly_files(&self) -> Option<Error> {
        let mut executors: BTreeMap<_, usize> = BTreeMap::new();
        let dead = self.dead.lock();
        for task in &*dead {
            *executors.entry((&task.query_stage, &task.partitions)).or_default() += 1;
        }
        let deadly = executors.into_iter().filter(|(_, count)| *count > 1).flat_map(|((_, at), _)| at);
        let files: BTreeSet<_> = deadly.flat_map(|at| files_of_partition(&self.plan, *at as usize)).collect();
        (!files.is_empty()).then(|| {
            let files = files.iter().map(|file| &**file).collect::<Vec<_>>().join(", ");
            Error::engine(format!(
                "two executors were lost while they ran the same task of stage {}, which reads {files}: look at these files, \
                 and at the memory of the executors, before you run the same command again",
                self.name
            ))
        })
    }
}

/// The jobs of a run, one per running stage. A job may wait while another job uses all executors. Therefore no job counts as stalled
/// while any job makes progress.
pub(super) struct Jobs {
    /// The time when a task last started or ended.
    pub(super) moved: Instant,
    pub(super) running: BTreeMap<String, usize>,
}

impl Jobs {
    /// Records that the job `name` made progress and has `running` tasks.
    fn moved(&mut self, name: &str, running: usize) {
        self.moved = Instant::now();
        self.running.insert(name.to_owned(), running);
    }

    /// Returns the time of the last progress, and whether any task runs.
    fn last(&self) -> (Instant, bool) {
        (self.moved, self.running.values().any(|running| *running > 0))
    }
}

/// Counts a job as running while the value lives.
pub(super) struct Watched<'a> {
    jobs: &'a Mutex<Jobs>,
    name: &'a str,
}

impl<'a> Watched<'a> {
    pub(super) fn begin(jobs: &'a Mutex<Jobs>, name: &'a str) -> Self {
        jobs.lock().moved(name, 0);
        Self { jobs, name }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let mut jobs = self.jobs.lock();
        // The executors of this job are free for other jobs from now on.
        jobs.moved = Instant::now();
        jobs.running.remove(self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
