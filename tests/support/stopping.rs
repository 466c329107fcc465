//! An engine that fails before one of its plans: an event at which a run ends, in place of a moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use resemblance::engine::{Engine, Local, Watch, session};
use resemblance::error::{Error, Result};
use resemblance::job::Job;
use resemblance::pipeline::{self, Existing, Outcome};
use resemblance::sink::manifest::File;

/// What the engine says when it fails.
pub const STOPPED: &str = "stopped by the test";

/// Runs plans as another engine does, and fails before its `at`th.
pub struct Stopping {
    engine: Box<dyn Engine>,
    at: usize,
    plans: AtomicUsize,
}

#[async_trait]
impl Engine for Stopping {
    fn session(&self) -> &SessionContext {
        self.engine.session()
    }

    fn task_bytes(&self) -> usize {
        self.engine.task_bytes()
    }

    fn bucket_bytes(&self) -> u64 {
        self.engine.bucket_bytes()
    }

    async fn run(
        &self,
        step: &str,
        plan: Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
        watch: &Watch,
    ) -> Result<Vec<File>> {
        if self.plans.fetch_add(1, Ordering::Relaxed) == self.at {
            return Err(Error::engine(STOPPED));
        }
        self.engine.run(step, plan, config, watch).await
    }
}

/// Runs `job` on an engine that fails before its `at`th plan: how it ended, and whether the engine failed.
pub fn run_until(job: &Job, existing: Existing, at: usize) -> (Result<Outcome>, bool) {
    let engine = Local::new(session::session(&job.engine).unwrap());
    run_until_on(Box::new(engine), job, existing, at)
}

/// The same on another engine than that of this process.
pub fn run_until_on(
    engine: Box<dyn Engine>,
    job: &Job,
    existing: Existing,
    at: usize,
) -> (Result<Outcome>, bool) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let engine = Stopping { engine, at, plans: AtomicUsize::new(0) };
        let ended = pipeline::run(job, &engine, &Watch::nobody(), existing).await;
        let failed = engine.plans.load(Ordering::Relaxed) > at;
        assert_eq!(
            failed,
            ended.as_ref().is_err_and(|error| error.to_string().contains(STOPPED)),
            "{ended:?}"
        );
        (ended, failed)
    })
}
