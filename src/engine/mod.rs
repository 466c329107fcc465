//! Sessions, stores, and the engines that run plans: this process, or a cluster.
//!
//! A session plans each stage; the plan ends in the writer node of [`crate::output::write`]. An [`Engine`] runs it and
//! returns a row for each file that the plan wrote.
//!
//! - `session`: the session builder, the same wherever plans are made or run.
//! - `interface`: the interface between stages and engines; `control`: progress and interruption.
//! - `held_sides`: the sides that the joins of a plan hold whole, together.
//! - `local`: the engine of this process, with its `exchange` (and the filter `repeated_keys` in front of it) and its
//!   `batch_queue`.
//! - `cluster`: the engine of many machines.
//! - `spills`: folders for spills; `stores`: object stores.

mod batch_queue;
#[cfg(feature = "cluster")]
pub mod cluster;
mod control;
mod exchange;
mod held_sides;
mod interface;
mod local;
mod repeated_keys;
pub mod session;
pub mod spills;
pub mod stores;

use crate::error::Result;
use crate::job;

#[cfg(feature = "cluster")]
pub use cluster::ClusterEngine;
pub(crate) use control::Both;
pub use control::{InputProgress, InputUnit, Progress, RunControl, Silent};
pub(crate) use held_sides::holding_less;
pub use interface::Engine;
pub use local::Local;

/// The engine of a job: this process, or a cluster once it answers.
///
/// # Errors
/// When the folder for spills cannot be made, no cluster answers, or this program was built without the feature `cluster`.
pub async fn open(engine: &job::Engine, control: &RunControl) -> Result<Box<dyn Engine>> {
    match engine.scheduler_address() {
        None => Ok(Box::new(Local::new(session::session(engine)?))),
        Some(scheduler) => on_cluster(engine, scheduler, control).await,
    }
}

#[cfg(feature = "cluster")]
async fn on_cluster(engine: &job::Engine, scheduler: &str, control: &RunControl) -> Result<Box<dyn Engine>> {
    Ok(Box::new(ClusterEngine::connect(engine, scheduler, control).await?))
}

#[cfg(not(feature = "cluster"))]
async fn on_cluster(_: &job::Engine, _: &str, _: &RunControl) -> Result<Box<dyn Engine>> {
    Err(crate::error::Error::job(
        "engine.mode is \"cluster\", and this program was built without the feature `cluster`: build it with \
         `--features cluster`, or set engine.mode = \"local\"",
    ))
}
