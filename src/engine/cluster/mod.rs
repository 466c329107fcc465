//! The engine of many machines: Ballista, configured to survive the loss of executors and schedulers.
//!
//! A driver plans each stage, sends the physical plan to a scheduler and collects the rows of its writer nodes. The scheduler
//! cuts the plan into query stages, and executors poll it for their tasks. The driver submits a stage again if it stalls or its
//! scheduler is lost. Only the rows of one successful attempt become a manifest, so nothing is written twice.
//!
//! - `wire`: the nodes of plans as bytes.
//! - `rerun_guard`: query stages that must not run again.
//! - `settings`: the configuration that plans are made and run with.
//! - `member`: the cores and the memory in an executor's id.
//! - `finished_jobs`, `executor_registry`: the jobs and the executors in a scheduler's memory.
//! - `listen`, `own_stores`: the listener and the stores of both roles.
//! - `token`: the secret that every call carries, if the cluster has one.
//! - `tls`: certificates and authorities, if the cluster has TLS.
//! - `endpoints`, `serve`: the two sides of a connection, with its token and TLS.
//! - `strangers`, `web_pages`: connections without a request, and requests of browsers, which are refused.
//! - `refused`: the errors of processes without them.
//! - `polls`: requests for tasks and for the end of a job, which wait for an answer.
//! - `scheduler`: the role that assigns tasks.
//! - `failure`, `causes`: the consequences of a job's error for its stage.
//! - `checksums`: shuffled files that a disk has damaged.
//! - `connections`, `tasks`: an executor's connections to others, and the errors of its tasks.
//! - `executor`: the role that runs tasks.
//! - `rest`: the HTTP interface of a scheduler.
//! - `driver`: the engine itself.

mod causes;
mod checksums;
mod connections;
mod driver;
mod endpoints;
pub(crate) mod executor;
mod executor_registry;
mod failure;
mod finished_jobs;
mod listen;
pub(crate) mod member;
mod own_stores;
mod partitions;
mod polls;
mod refused;
mod rerun_guard;
mod rest;
pub(crate) mod scheduler;
mod serve;
mod settings;
mod strangers;
mod tasks;
pub(crate) mod tls;
pub(crate) mod token;
mod web_pages;
mod wire;

pub use driver::Cluster;
pub(crate) use wire::Codec;
