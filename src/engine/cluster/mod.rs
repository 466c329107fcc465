//! The engine that uses many machines: Ballista, configured to survive the loss of executors and schedulers.
//!
//! A driver plans each stage, sends the physical plan to a scheduler and collects the rows of the plan's writer nodes. The scheduler cuts
//! the plan into query stages, and executors poll the scheduler for tasks. The driver submits a stage again if the stage stalls or its
//! scheduler is lost. The rows of exactly one successful attempt become a manifest, so nothing is written twice.
//!
//! - `wire`: serialization of plan nodes.
//! - `settings`: the configurations of plans.
//! - `connections`: both sides of a connection, with its token and TLS.
//! - `scheduler`: the role that assigns tasks; `rest`: its HTTP interface.
//! - `executor`: the role that runs tasks; `tasks`: the tasks and their errors; `checksums`: detection of damaged shuffled files.
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
