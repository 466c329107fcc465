//! Sessions, stores, and the engines that run plans: in this process, or on a cluster.
//!
//! A session plans each stage. The plan ends in the writer node of [`crate::output::write`]. An [`Engine`] runs the plan and returns a
//! row for each file that the plan wrote.

mod batch_queue;
#[cfg(feature = "cluster")]
pub mod cluster;
mod control;
mod exchange;
mod interface;
mod local;
pub mod session;
pub mod spills;
pub mod stores;

use crate::error::Result;
use crate::job;

#[cfg(feature = "cluster")]
pub use cluster::ClusterEngine;
pub use control::{InputProgress, InputUnit, Journal, Progress, RunControl, Silent, StageEvent};
pub use interface::Engine;
pub use local::Local;
pub(crate) use session::holding_less;

/// Opens the engine of a job. If the job has a scheduler, waits until the cluster answers.
///
/// # Errors
/// If the folder for spills cannot be created, no cluster answers, or this program was built without the feature `cluster`.
pub async fn open(engine: &job::EngineSettings, control: &RunControl) -> Result<Box<dyn Engine>> {
    match engine.scheduler_address() {
        None => Ok(Box::new(Local::new(session::session(engine)?))),
        Some(scheduler) => on_cluster(engine, scheduler, control).await,
    }
}

#[cfg(feature = "cluster")]
async fn on_cluster(
    engine: &job::EngineSettings,
    scheduler: &str,
    control: &RunControl,
) -> Result<Box<dyn Engine>> {
    Ok(Box::new(ClusterEngine::connect(engine, scheduler, control).await?))
}

#[cfg(not(feature = "cluster"))]
async fn on_cluster(_: &job::EngineSettings, _: &str, _: &RunControl) -> Result<Box<dyn Engine>> {
    Err(crate::error::Error::job(
        "engine.mode is \"cluster\", and this program was built without the feature `cluster`: build it with \
         `--features cluster`, or set engine.mode = \"local\"",
    ))
}
