//! An engine that fails before one of its plans: an event at which a run ends, instead of a moment.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use resemblance::engine::{Engine, Local, RunControl, session};
use resemblance::error::{Error, Result};
use resemblance::job::Job;
use resemblance::output::manifest::File;
use resemblance::pipeline::{self, OnExisting, Outcome};

use super::around::{Around, Call, Hook};
use super::block_on;

/// The message of the engine when it fails.
pub const STOPPED: &str = "stopped by the test";

/// Fails before the `at`th plan.
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

/// The same on another engine than that of this process.
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
        assert_eq!(
            failed,
            ended.as_ref().is_err_and(|error| error.to_string().contains(STOPPED)),
            "{ended:?}"
        );
        (ended, failed)
    })
}
