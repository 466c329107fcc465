//! The engine that uses many machines: Ballista, configured to survive the loss of executors and schedulers.
//!
//! A driver plans each stage, sends the physical plan to a scheduler and collects the rows of the plan's writer nodes. The scheduler cuts
//! the plan into query stages, and executors poll the scheduler for tasks. The driver submits a stage again if it stalls or its scheduler
//! is lost. The rows of exactly one successful attempt become a manifest, so nothing is written twice.

mod checksums;
pub(crate) mod connections;
mod driver;
pub(crate) mod executor;
mod rest;
pub(crate) mod scheduler;
mod settings;
mod stalls;
mod tasks;
mod wire;

pub use driver::ClusterEngine;
pub(crate) use wire::Codec;
