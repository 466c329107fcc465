//! An engine around another one, of which a hook changes what a test is about.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use resemblance::engine::{Engine, RunControl};
use resemblance::error::Result;
use resemblance::output::manifest::File;

/// A step's plan, and what the engine is given with it.
pub struct Call<'a> {
    pub step: &'a str,
    pub plan: Arc<dyn ExecutionPlan>,
    pub config: &'a SessionConfig,
    pub control: &'a RunControl,
}

impl Call<'_> {
    /// Runs the plan.
    pub async fn run_on(self, engine: &dyn Engine) -> Result<Vec<File>> {
        engine.run(self.step, self.plan, self.config, self.control).await
    }
}

/// What is other than in `engine`, the engine inside: by itself nothing is.
#[async_trait]
pub trait Hook: Send + Sync {
    fn session<'a>(&'a self, engine: &'a dyn Engine) -> &'a SessionContext {
        engine.session()
    }

    fn partitions(&self, engine: &dyn Engine, bytes: u64) -> usize {
        engine.partitions(bytes)
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

    /// Runs a plan; `engine` is the one that runs them.
    async fn run(&self, engine: &dyn Engine, call: Call<'_>) -> Result<Vec<File>> {
        call.run_on(engine).await
    }
}

/// `engine` as `hook` changes it.
pub struct Around<H> {
    pub engine: Box<dyn Engine>,
    pub hook: H,
}

impl<H: Hook> Around<H> {
    fn runner(&self) -> &dyn Engine {
        self.hook.runner(self.engine.as_ref())
    }
}

#[async_trait]
impl<H: Hook> Engine for Around<H> {
    fn session(&self) -> &SessionContext {
        self.hook.session(self.engine.as_ref())
    }

    async fn prepare(&self, control: &RunControl) -> Result<()> {
        self.runner().prepare(control).await
    }

    fn config(&self) -> SessionConfig {
        self.engine.config()
    }

    fn runs_steps_together(&self) -> bool {
        self.runner().runs_steps_together()
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
        self.engine.more_partitions(partitions)
    }

    fn bucket_bytes(&self) -> u64 {
        self.engine.bucket_bytes()
    }

    async fn run(
        &self,
        step: &str,
        plan: Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
        control: &RunControl,
    ) -> Result<Vec<File>> {
        self.hook.run(self.runner(), Call { step, plan, config, control }).await
    }
}
