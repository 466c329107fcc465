//! The engine of many machines: Ballista, set up so that it survives the loss of its parts.
//!
//! A driver plans each step, hands the physical plan to a scheduler and collects the rows of its writer nodes; the
//! scheduler cuts the plan into query stages and deals their tasks to executors, which ask for them. The driver watches: a
//! step that stands still, or whose scheduler is gone, is submitted again, and since only the rows of one successful attempt
//! become a manifest, nothing is written twice.
//!
//! - `wire`: our nodes as bytes.
//! - `rerun_guard`: query stages that must not run again.
//! - `settings`: the configuration that plans are made and run with.
//! - `member`: what an executor tells of itself.
//! - `finished_jobs`, `executor_registry`: the jobs that a scheduler remembers, and the executors that it knows.
//! - `listen`, `own_stores`: how both roles listen on an address, and the stores that each has.
//! - `scheduler`: the role that deals tasks.
//! - `failure`, `causes`: what an error of a job means for the step.
//! - `connections`, `tasks`: how an executor fetches from others, and what it does around each task.
//! - `executor`: the role that runs tasks.
//! - `rest`: what a scheduler answers about its executors and jobs.
//! - `driver`: the engine itself.

mod causes;
mod connections;
mod driver;
pub(crate) mod executor;
mod executor_registry;
mod failure;
mod finished_jobs;
mod listen;
pub(crate) mod member;
mod own_stores;
mod rerun_guard;
mod rest;
pub(crate) mod scheduler;
mod settings;
mod tasks;
mod wire;

pub use driver::Cluster;
pub(crate) use wire::Codec;
