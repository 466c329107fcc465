//! Runs a job until it ends or a signal stops it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::apply::alarms::{self, AlarmVerdict, Bounds};
use crate::cli::support::temporary::{self, WriteFolder};
use crate::cli::support::work::JobRuntime;
use crate::cli::support::{data_text, telemetry};
use crate::engine::{self, Progress, RunControl};
use crate::error::{Error, Result};
use crate::inspect;
use crate::job::Job;
use crate::lookup::{self, Finished};
use crate::pipeline::{self, OnExisting, Outcome};

/// The most similar pairs of a run.
pub(in crate::cli) type TopPairs = Vec<arrow::array::RecordBatch>;

/// A job that ran to its end.
pub(in crate::cli) struct Ran {
    pub(in crate::cli) outcome: Outcome,
    /// The most similar pairs.
    pub(in crate::cli) pairs: TopPairs,
    /// The bounds of the job, and whether they are exceeded.
    pub(in crate::cli) verdicts: Vec<AlarmVerdict>,
}

impl Ran {
    /// Warns of each bound that is exceeded, or ends with an error where the job says so.
    pub(in crate::cli) fn raise_alarms(&self, job: &Job) -> Result<()> {
        alarms::raise(&self.verdicts, job.alarms.fail, &job.output.url)
    }
}

/// Runs a job and reads back its `top` most similar pairs. An exceeded bound of the job can be an error.
pub(in crate::cli) fn run_job(
    job: &Job,
    progress: Arc<dyn Progress>,
    existing: OnExisting,
    top: Option<usize>,
) -> Result<(Outcome, TopPairs)> {
    let ran = run_without_alarms(job, progress, existing, top)?;
    ran.raise_alarms(job)?;
    Ok((ran.outcome, ran.pairs))
}

/// Runs a job as [`run_job`], and leaves the alarms to the caller.
pub(in crate::cli) fn run_without_alarms(
    job: &Job,
    progress: Arc<dyn Progress>,
    existing: OnExisting,
    top: Option<usize>,
) -> Result<Ran> {
    telemetry::runs(job);
    let work = JobRuntime::begin(&job.engine)?;
    let stop = &work.stop;
    let run = async {
        let ran = run_on(job, progress, existing, top, stop).await;
        match ran {
            Err(error) => Err(explained(error, job).await),
            ran => ran,
        }
    };
    work.block_on(async {
        tokio::select! {
            biased;
            result = run => result,
            // Work that does not check the token, such as a listing of an object store, ends here.
            () = stopped_for_long(stop) => Err(Error::interrupted()),
        }
    })
}

async fn run_on(
    job: &Job,
    progress: Arc<dyn Progress>,
    existing: OnExisting,
    top: Option<usize>,
    stop: &CancellationToken,
) -> Result<Ran> {
    let control = RunControl { stop: stop.clone(), progress };
    let engine = engine::open(&job.engine, &control).await?;
    let outcome = pipeline::run(job, engine.as_ref(), &control, existing).await?;
    telemetry::ran(&outcome);
    let finished = Finished::open(engine.session(), &job.output.url).await?;
    let bounds = Bounds { alarms: job.alarms, may_fail: true, contained: None };
    let verdicts = alarms::verdicts(&finished, job, bounds).await?;
    let pairs = finished.top_pairs(top).await?.collect().await?;
    Ok(Ran { outcome, pairs, verdicts })
}

/// The error of a run. If a disk is full, it says which one and how much the job needs.
async fn explained(error: Error, job: &Job) -> Error {
    let mut places: Vec<WriteFolder> =
        WriteFolder::of_url("output.url", &job.output.url).into_iter().collect();
    places.extend(job.engine.scheduler_address().is_none().then(|| WriteFolder::of_spills(&job.engine)));
    // Commands without a job file have both in a folder for temporary files.
    if let ([output, spills], Some(_)) = (places.as_slice(), &job.engine.spill)
        && output.folder.starts_with(&spills.folder)
        && temporary::folders().iter().any(|folder| output.folder.starts_with(folder))
    {
        places = vec![WriteFolder { setting: "TMPDIR", folder: spills.folder.clone() }];
    }
    if !temporary::is_full(&error) {
        return error;
    }
    let contents = async {
        let session = lookup::session(&job.engine)?;
        inspect::contents(&session, &job.source).await
    };
    let needed = contents.await.ok().and_then(|contents| data_text::expected_bytes(job, &contents));
    temporary::explain(error, &places, needed)
}

/// The line for an output that was finished before, so that nothing was run.
pub(in crate::cli) fn finished_already(job: &Job, outcome: &Outcome) -> String {
    match outcome.already_finished {
        true => {
            format!("{} is finished already; nothing was run (--overwrite runs it again)\n", job.output.url)
        }
        false => String::new(),
    }
}

async fn stopped_for_long(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
}
