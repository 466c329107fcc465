//! An engine around another one; a hook changes the part that a test is about.

use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use resemblance::error::Result;
use resemblance::output::manifest::File;

use super::*;

/// A stage's plan, and what the engine is given with it.
pub struct Call<'a> {
    pub stage: &'a str,
    pub plan: Arc<dyn ExecutionPlan>,
    pub config: &'a SessionConfig,
    pub control: &'a RunControl,
}

impl Call<'_> {
    pub async fn run_on(self, engine: &dyn Engine) -> Result<Vec<File>> {
        engine.run(self.stage, self.plan, self.config, self.control).await
    }
}

/// The changes to `engine`, the engine inside. By default, nothing changes.
#[async_trait]
pub trait Hook: Send + Sync {
    fn session<'a>(&'a self, engine: &'a dyn Engine) -> &'a SessionContext {
        engine.session()
    }

    fn partitions(&self, engine: &dyn Engine, bytes: u64) -> usize {
        engine.partitions(bytes)
    }

    fn more_partitions(&self, engine: &dyn Engine, partitions: usize) -> Option<usize> {
        engine.more_partitions(partitions)
    }

    fn is_one_process(&self, engine: &dyn Engine) -> bool {
        engine.is_one_process()
    }

    fn task_bytes(&self, engine: &dyn Engine) -> usize {
        self.runner(engine).task_bytes()
    }

    /// The engine that runs what the engine inside plans.
    fn runner<'a>(&'a self, engine: &'a dyn Engine) -> &'a dyn Engine {
        engine
    }

    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        call.run_on(engine).await
    }
}

pub struct Around<H> {
    pub engine: Box<dyn Engine>,
    pub hook: H,
}

impl<H: Hook> Around<H> {
    fn runner(&self) -> &dyn Engine {
        self.hook.runner(self.engine.as_ref())
    }
}

impl<H: Hook> Engine for Around<H> {
    fn session(&self) -> &SessionContext {
        self.hook.session(self.engine.as_ref())
    }

    fn prepare<'a>(&'a self, control: &'a RunControl) -> BoxFuture<'a, Result<()>> {
        self.runner().prepare(control)
    }

    fn config(&self) -> SessionConfig {
        self.engine.config()
    }

    fn runs_stages_together(&self) -> bool {
        self.runner().runs_stages_together()
    }

    fn is_one_process(&self) -> bool {
        self.hook.is_one_process(self.engine.as_ref())
    }

    fn task_bytes(&self) -> usize {
        self.hook.task_bytes(self.engine.as_ref())
    }

    fn partitions(&self, bytes: u64) -> usize {
        self.hook.partitions(self.engine.as_ref(), bytes)
    }

    fn more_partitions(&self, partitions: usize) -> Option<usize> {
        self.hook.more_partitions(self.engine.as_ref(), partitions)
    }

    fn bucket_bytes(&self) -> u64 {
        self.engine.bucket_bytes()
    }

    fn run<'a>(
        &'a self,
        stage: &'a str,
        plan: Arc<dyn ExecutionPlan>,
        config: &'a SessionConfig,
        control: &'a RunControl,
    ) -> BoxFuture<'a, Result<Vec<File>>> {
        self.hook.run(self.runner(), Call { stage, plan, config, control })
    }
}

/// Runs a job on the engine of this process as `hook` changes it: how it ended, and the hook.
pub fn run_around<H: Hook>(job: &Job, existing: OnExisting, hook: H) -> (Result<Outcome>, H) {
    let engine = Box::new(Local::new(session::session(&job.engine).unwrap()));
    let engine = Around { engine, hook };
    let ended = block_on(pipeline::run(job, &engine, &RunControl::detached(), existing));
    (ended, engine.hook)
}

/// Does something before the plan of a stage, while the run stands still.
pub struct Before<F> {
    pub stage: &'static str,
    pub action: F,
}

#[async_trait]
impl<F: Fn() + Send + Sync> Hook for Before<F> {
    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        if call.stage == self.stage {
            // Other threads keep the run's claim alive meanwhile.
            tokio::task::block_in_place(&self.action);
        }
        call.run_on(engine).await
    }
}
