//! The engine of many machines: Ballista, configured to survive the loss of executors and schedulers.
//!
//! A driver plans each stage, sends the physical plan to a scheduler and collects the rows of its writer nodes. The scheduler
//! cuts the plan into query stages, and executors poll it for their tasks. The driver submits a stage again if it stalls or its
//! scheduler is lost. Only the rows of one successful attempt become a manifest, so nothing is written twice.
//!
//! - `wire`: the nodes of plans as bytes.
//! - `settings`: the configuration that plans are made and run with, and the stores of both roles.
//! - `credentials`, `serve`: the two sides of a connection, with its token and TLS.
//! - `polls`: requests for tasks and for the end of a job, which wait for an answer.
//! - `scheduler`, `scheduler_state`: the role that assigns tasks, and what it keeps in memory.
//! - `executor`, `tasks`: the role that runs tasks, and their errors.
//! - `checksums`: shuffled files that a disk has damaged.
//! - `failure`: the consequences of a job's error for its stage.
//! - `rest`: the HTTP interface of a scheduler.
//! - `driver`: the engine itself.

mod checksums;
pub(crate) mod credentials;
mod driver;
pub(crate) mod executor;
mod failure;
mod polls;
mod rest;
pub(crate) mod scheduler;
mod scheduler_state;
mod serve;
mod settings;
mod tasks;
mod wire;

pub use driver::ClusterEngine;
pub(crate) use wire::Codec;
