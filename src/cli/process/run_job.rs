//! Runs a job until it ends or a signal stops it.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::apply::alarms::{self, AlarmVerdict, Bounds};
use crate::cli::process::JobRuntime;
use crate::cli::process::files::{self, WriteFolder};
use crate::cli::record::telemetry;
use crate::engine::{self, Progress, RunControl};
use crate::error::{Error, Result};
use crate::inspect;
use crate::job::{Alarms, Input, Job};
use crate::lookup::{self, Finished};
use crate::pipeline::{self, OnExisting, Outcome};

/// The pairs of a run with the highest similarities.
pub(crate) type TopPairs = Vec<arrow::array::RecordBatch>;

pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) pairs: TopPairs,
    pub(crate) verdicts: Vec<AlarmVerdict>,
}

impl Ran {
    /// Warns of each exceeded limit. If `alarms.fail` is set, returns an error instead.
    pub(crate) fn raise_alarms(&self, job: &Job) -> Result<()> {
        alarms::raise(&self.verdicts, job.alarms.fail, &job.output.url)
    }
}

/// Runs a job, and reads the `top` pairs with the highest similarities. The caller must call [`Ran::raise_alarms`].
pub(crate) fn run_job(
    job: &Job,
    progress: Arc<dyn Progress>,
    existing: OnExisting,
    top: Option<usize>,
) -> Result<Ran> {
    telemetry::runs(job);
    let work = JobRuntime::start(&job.engine)?;
    let stop = &work.stop;
    let run = async {
        match run_on(job, progress, existing, top, stop).await {
            Err(error) => Err(explain(error, job).await),
            ran => ran,
        }
    };
    work.block_on(async {
        tokio::select! {
            biased;
            result = run => result,
            // Some work does not check the token, such as listing an object store. So the run is dropped after a while.
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
    let finished = Finished::open(engine.session(), &job.output.url).await?;
    let pairs = finished.top_pairs(top).await?.collect().await?;
    // The runs that made the merged outputs raised their alarms.
    let alarms = if matches!(job.input, Input::Merge(_)) { Alarms::default() } else { job.alarms };
    let bounds = Bounds { alarms, may_fail: true, removal: alarms::Removal::default() };
    let verdicts = alarms::verdicts(&finished, job, bounds).await?;
    telemetry::ran(&outcome);
    Ok(Ran { outcome, pairs, verdicts })
}

/// Explains an error that a full disk caused. Other errors are returned unchanged.
async fn explain(error: Error, job: &Job) -> Error {
    if !files::is_disk_full(&error) {
        return error;
    }
    let mut folders: Vec<WriteFolder> =
        WriteFolder::from_url("output.url", &job.output.url).into_iter().collect();
    folders.extend(job.engine.scheduler_address().is_none().then(|| WriteFolder::spills(&job.engine)));
    // Without a job file, the output and the spills can share a temporary folder.
    if let ([output, spills], Some(_)) = (folders.as_slice(), &job.engine.spill)
        && output.folder.starts_with(&spills.folder)
        && files::temporary_folders().iter().any(|folder| output.folder.starts_with(folder))
    {
        folders = vec![WriteFolder { setting: "TMPDIR", folder: spills.folder.clone() }];
    }
    let contents = async {
        let session = lookup::session(&job.engine)?;
        inspect::contents(&session, &job.source).await
    };
    let needed = contents
        .await
        .ok()
        .map(|contents| contents.disk(job))
        .and_then(|disk| disk.total(disk.result + disk.between));
    files::explain_full_disk(error, &folders, needed)
}

/// Returns a line that says that the output was already finished, or an empty text.
pub(crate) fn finished_already(job: &Job, outcome: &Outcome) -> String {
    if !outcome.already_finished {
        return String::new();
    }
    format!("{} is finished already; nothing was run (--overwrite runs it again)\n", job.output.url)
}

async fn stopped_for_long(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
}
