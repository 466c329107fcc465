//! An engine that fails before one of its plans: an event at which a run ends, instead of a moment.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use resemblance::error::{Error, Result};
use resemblance::output::manifest::File;

use super::*;

const STOPPED: &str = "stopped by the test";

struct Stopping {
    at: usize,
    plans: AtomicUsize,
}

#[async_trait]
impl Hook for Stopping {
    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        if self.plans.fetch_add(1, Ordering::Relaxed) == self.at {
            return Err(Error::engine(STOPPED));
        }
        call.run_on(engine).await
    }
}

/// Runs `job` on an engine that fails before its `at`th plan: how it ended, and whether the engine failed.
pub fn run_until(job: &Job, existing: OnExisting, at: usize) -> (Result<Outcome>, bool) {
    let engine = Local::new(session::session(&job.engine).unwrap());
    run_until_on(Box::new(engine), job, existing, at)
}

pub fn run_until_on(
    engine: Box<dyn Engine>,
    job: &Job,
    existing: OnExisting,
    at: usize,
) -> (Result<Outcome>, bool) {
    block_on(async {
        let engine = Around { engine, hook: Stopping { at, plans: AtomicUsize::new(0) } };
        let ended = pipeline::run(job, &engine, &RunControl::detached(), existing).await;
        let failed = engine.hook.plans.load(Ordering::Relaxed) > at;
        let expected = ended.as_ref().is_err_and(|error| error.to_string().contains(STOPPED));
        assert_eq!(failed, expected, "{ended:?}");
        (ended, failed)
    })
}

/// Stops the job for one output after another before every `step`th of its plans, resumes it, and compares the rows of these tables with
/// those of a run that was not stopped. `job` makes it for the name of an output, whose URL is a folder.
pub fn same_rows(job: impl Fn(&str) -> Job, step: usize, tables: &[&str]) {
    let rows =
        |job: &Job| -> Vec<_> { tables.iter().map(|name| table(job.output.url.as_ref(), name)).collect() };
    let undisturbed = job("undisturbed");
    run(&undisturbed).unwrap();
    let whole = rows(&undisturbed);
    assert!(whole.iter().all(|table| table.num_rows() > 10), "the tables are nearly empty");
    let mut stops = 0;
    for at in (0..).step_by(step) {
        let job = job(&format!("stopped{at}"));
        if !run_until(&job, OnExisting::Fail, at).1 {
            break;
        }
        stops += 1;
        run(&job).unwrap();
        let attempts = manifest(job.output.url.as_ref()).attempts.len();
        assert!(at < 3 || attempts > 1, "the second run began from nothing");
        assert_eq!(rows(&job), whole, "stopped at plan {at}");
    }
    assert!(stops > 5, "{stops}");
}
