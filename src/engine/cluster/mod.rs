//! The engine of many machines: Ballista, configured to survive the loss of executors and schedulers.
//!
//! A driver plans each stage, sends the physical plan to a scheduler and collects the rows of its writer nodes. The scheduler
//! cuts the plan into query stages, and executors poll it for their tasks. The driver submits a stage again if it stalls or its
//! scheduler is lost. Only the rows of one successful attempt become a manifest, so nothing is written twice.
//!
//! - `wire`: the nodes of plans as bytes.
//! - `settings`: the configurations of plans.
//! - `connections`: both sides of a connection, with its token and TLS.
//! - `scheduler`: the role that assigns tasks; `rest`: its HTTP interface.
//! - `executor`: the role that runs tasks; `tasks`: the tasks and their errors; `checksums`: damaged shuffled files.
//! - `driver`: the engine itself.

mod checksums;
pub(crate) mod connections;
mod driver;
pub(crate) mod executor;
mod rest;
pub(crate) mod scheduler;
mod settings;
mod tasks;
mod wire;

pub use driver::ClusterEngine;
pub(crate) use wire::Codec;
