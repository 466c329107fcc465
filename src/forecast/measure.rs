//! A run over a sample, and what it took.

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
use crate::output::manifest::Counts;
use crate::output::manifest::StageTime;
use crate::pipeline::{self, OnExisting};

/// A run is repeated until it ran so often,
const TIMES: usize = 3;
/// or until another run would take the sum over this many seconds.
const ENOUGH: f64 = 6.0;

/// The name of the end of a run.
pub(super) const END: &str = "check and publish";

/// How often the memory is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// What a run over a sample took.
#[derive(Debug, Clone)]
pub(super) struct RunMeasurement {
    /// The stages in order, and the end of the run.
    pub(super) stages: Vec<StageTime>,
    /// Rows and bytes of each table that stays.
    pub(super) tables: BTreeMap<String, (u64, u64)>,
    pub(super) counts: Counts,
    /// The most memory of this process, if the system says how much it has.
    pub(super) memory: Option<u64>,
    /// The most bytes that operators reserved.
    pub(super) reserved: u64,
}

impl RunMeasurement {
    /// The documents that it read, also those that it rejected.
    pub(super) fn documents(&self) -> f64 {
        (self.counts.documents + self.counts.rejects) as f64
    }

    /// The stage `name`.
    pub(super) fn stage(&self, name: &str) -> Option<&StageTime> {
        self.stages.iter().find(|stage| stage.name == name)
    }

    /// This run, with the seconds of the quicker one of both in each stage.
    fn quicker_of(mut self, other: &RunMeasurement) -> Self {
        for stage in &mut self.stages {
            if let Some(before) = other.stage(&stage.name) {
                stage.seconds = stage.seconds.min(before.seconds);
            }
        }
        self
    }
}

/// Runs `job` some times, each time to another output. Everything but seconds is that of the first run: later ones have the
/// memory that it left. What a process does only once is in the seconds of no stage, and hardly what other processes do.
///
/// # Errors
/// As [`run`].
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

/// Runs `job` in this process. Its log goes nowhere: it is about a sample.
///
/// # Errors
/// As [`pipeline::run`].
async fn run(job: &Job, control: &RunControl) -> Result<RunMeasurement> {
    let session = session::session(&job.engine)?;
    let reserved = Arc::new(AtomicU64::new(0));
    let pool = Arc::clone(&session.runtime_env().memory_pool);
    let engine = Local::new(session);
    let control = RunControl { stop: control.stop.clone(), progress: Arc::new(Silent) };
    machine::forget_peak_memory();
    // Ends when it is dropped.
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

/// Keeps the most bytes that were reserved of `pool`.
async fn watch(pool: Arc<dyn MemoryPool>, most: Arc<AtomicU64>) {
    let mut look = tokio::time::interval(LOOK);
    loop {
        look.tick().await;
        most.fetch_max(pool.reserved() as u64, Ordering::Relaxed);
    }
}
