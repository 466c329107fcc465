//! Runs a job on a custom engine. The engine runs plans like [`Local`], and prints how long the plan of each stage took.
//!
//! ```sh
//! cargo run --example own_engine -- jobs/quickstart.toml
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::time::Instant;

use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::future::BoxFuture;
use resemblance::engine::{Engine, Local, RunControl, session};
use resemblance::error::{Error, Result};
use resemblance::job::Job;
use resemblance::output::manifest::File;
use resemblance::pipeline::{self, OnExisting};

struct Timed(Local);

impl Engine for Timed {
    fn session(&self) -> &SessionContext {
        self.0.session()
    }

    fn bucket_bytes(&self) -> u64 {
        self.0.bucket_bytes()
    }

    fn run<'a>(
        &'a self,
        stage: &'a str,
        plan: Arc<dyn ExecutionPlan>,
        config: &'a SessionConfig,
        control: &'a RunControl,
    ) -> BoxFuture<'a, Result<Vec<File>>> {
        Box::pin(async move {
            let (partitions, began) = (plan.output_partitioning().partition_count(), Instant::now());
            let files = self.0.run(stage, plan, config, control).await?;
            println!("{stage}: {partitions} partitions, {} files, {:.3?}", files.len(), began.elapsed());
            Ok(files)
        })
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| Error::job("expected a job file"))?;
    let output = tempfile::tempdir()?;
    let output = format!("output.url={}", output.path().join("out").display());
    let job = Job::load(&path, &[output])?;
    let engine = Timed(Local::new(session::session(&job.engine)?));
    let outcome = pipeline::run(&job, &engine, &RunControl::detached(), OnExisting::Fail).await?;
    println!("{:?}", outcome.manifest.counts);
    Ok(())
}
