//! Runs a job over a sample, and measures its cost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::memory_pool::MemoryPool;
use tracing::instrument::WithSubscriber;
use tracing::subscriber::NoSubscriber;

use crate::engine::{Local, RunControl, Silent, session};
use crate::error::Result;
use crate::job::{Job, Output};
use crate::machine;
use crate::output::manifest::{Counts, StageTime};
use crate::pipeline::{self, OnExisting};

/// The maximum number of runs of a job over a sample.
const TIMES: usize = 3;
/// The maximum number of seconds for all runs over a sample. Runs after the first one start only if they are expected to end in time.
const ENOUGH: f64 = 6.0;

/// The name of the step after the last stage.
pub(super) const END: &str = "check and publish";

const LOOK: Duration = Duration::from_millis(2);

#[derive(Debug, Clone)]
pub(super) struct RunMeasurement {
    /// The stages in order, and [`END`].
    pub(super) stages: Vec<StageTime>,
    pub(super) tables: BTreeMap<String, (u64, u64)>,
    pub(super) counts: Counts,
    /// The peak memory of this process, if the system reports it.
    pub(super) memory: Option<u64>,
    /// The maximum number of bytes that operators reserved at the same time.
    pub(super) reserved: u64,
}

impl RunMeasurement {
    /// Returns the number of documents that were read, including rejects.
    pub(super) fn documents(&self) -> f64 {
        (self.counts.documents + self.counts.rejects) as f64
    }

    pub(super) fn stage(&self, name: &str) -> Option<&StageTime> {
        self.stages.iter().find(|stage| stage.name == name)
    }

    /// Returns this run, with the lower seconds of the two runs for each stage.
    fn quicker_of(mut self, other: &RunMeasurement) -> Self {
        for stage in &mut self.stages {
            if let Some(before) = other.stage(&stage.name) {
                stage.seconds = stage.seconds.min(before.seconds);
            }
        }
        self
    }
}

/// Runs `job` up to [`TIMES`] times, each time to another output. Returns the first run, in which each stage has its lowest seconds among
/// all runs. These seconds exclude one-time work of the process and most noise. Later runs inherit memory of the first, so only the first
/// run's memory counts.
pub(super) async fn quickest(job: &Job, control: &RunControl) -> Result<RunMeasurement> {
    let began = Instant::now();
    let mut quickest = run(job, control).await?;
    for time in 1..TIMES {
        let spent = began.elapsed().as_secs_f64();
        if spent * (time + 1) as f64 / time as f64 > ENOUGH {
            break;
        }
        let output = Output { url: format!("{}-{time}", job.output.url), ..job.output.clone() };
        quickest = quickest.quicker_of(&run(&Job { output, ..job.clone() }, control).await?);
    }
    Ok(quickest)
}

/// Runs `job` in this process, without the log messages of a run over a sample.
async fn run(job: &Job, control: &RunControl) -> Result<RunMeasurement> {
    let session = session::session(&job.engine)?;
    let reserved = Arc::new(AtomicU64::new(0));
    let pool = Arc::clone(&session.runtime_env().memory_pool);
    let engine = Local::new(session);
    let control = RunControl { stop: control.stop.clone(), progress: Arc::new(Silent) };
    machine::forget_peak_memory();
    // The task ends when `watch` is dropped.
    let watch = SpawnedTask::spawn(watch(pool, Arc::clone(&reserved)));
    let began = Instant::now();
    let run = pipeline::run(job, &engine, &control, OnExisting::Fail);
    let outcome = run.with_subscriber(NoSubscriber::default()).await?;
    let seconds = began.elapsed().as_secs_f64();
    drop(watch);
    let memory = machine::peak_memory();
    let manifest = outcome.manifest;
    let tables = manifest
        .tables
        .iter()
        .map(|(name, table)| (name.clone(), (table.rows, table.files.iter().map(|file| file.bytes).sum())));
    let of_stages: f64 = manifest.stages.iter().map(|stage| stage.seconds).sum();
    let mut stages = manifest.stages;
    let seconds = (seconds - of_stages).max(0.0);
    stages.push(StageTime { name: END.to_owned(), seconds, rows: 0, bytes: 0, join: None });
    Ok(RunMeasurement {
        stages,
        tables: tables.collect(),
        counts: manifest.counts,
        memory,
        reserved: reserved.load(Ordering::Relaxed),
    })
}

/// Records the maximum number of bytes that `pool` has reserved in `most`. Never returns.
async fn watch(pool: Arc<dyn MemoryPool>, most: Arc<AtomicU64>) {
    let mut look = tokio::time::interval(LOOK);
    loop {
        look.tick().await;
        most.fetch_max(pool.reserved() as u64, Ordering::Relaxed);
    }
}
