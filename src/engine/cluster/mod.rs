//! The engine of many machines: Ballista, set up so that it survives the loss of its parts.
//!
//! A driver plans each step, hands the physical plan to a scheduler and collects the rows of its writer nodes; the
//! scheduler cuts the plan into stages and deals their tasks to executors, which ask for them. The driver watches: a step
//! that stands still, or whose scheduler is gone, is submitted anew, and since only the rows of one successful attempt
//! become a manifest, nothing is written twice.
//!
//! - `wire`: our nodes as bytes.
//! - `settings`: the configuration that plans are made and run with.
//! - [`member`]: what an executor tells of itself.
//! - [`scheduler`], [`executor`]: the two roles.
//! - `rest`: what a scheduler answers about its executors and jobs.
//! - `failure`: what an error of a job means for the step.
//! - `driver`: the engine itself.

mod driver;
pub mod executor;
mod failure;
pub mod member;
mod rest;
pub mod scheduler;
mod settings;
mod wire;

pub use driver::Cluster;
pub use wire::Codec;
