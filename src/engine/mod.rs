//! The one session, and the seam behind which a plan runs: here, or on a cluster.
//!
//! A step's plan is made by this session, ends in the writer node of [`crate::output::write`] and is handed to an
//! [`Engine`], which gives back one row for each file that the plan wrote.

mod batch_queue;
mod buckets;
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
pub use cluster::Cluster;
pub use control::{Progress, RunControl, Silent};
pub use interface::Engine;
pub use local::Local;

/// The engine that a job asks for: this process, or a cluster once it is there.
///
/// # Errors
/// When the folder for spills cannot be made, no cluster answers, or this program was built without the feature `cluster`.
pub async fn open(engine: &job::Engine, control: &RunControl) -> Result<Box<dyn Engine>> {
    match &engine.cluster {
        None => Ok(Box::new(Local::new(session::session(engine)?))),
        Some(cluster) => on_cluster(engine, cluster, control).await,
    }
}

#[cfg(feature = "cluster")]
async fn on_cluster(
    engine: &job::Engine,
    cluster: &job::Cluster,
    control: &RunControl,
) -> Result<Box<dyn Engine>> {
    Ok(Box::new(Cluster::connect(engine, cluster, control).await?))
}

#[cfg(not(feature = "cluster"))]
async fn on_cluster(_: &job::Engine, _: &job::Cluster, _: &RunControl) -> Result<Box<dyn Engine>> {
    Err(crate::error::Error::job(
        "engine.mode is \"cluster\", and this program was built without the feature `cluster`: build it with its default \
         features, or set engine.mode = \"local\"",
    ))
}
