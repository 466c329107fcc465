//! One binary for all integration tests: every further one would link DataFusion again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where it fails, its helpers too"
)]

mod command;
mod job;
mod kill;
mod pipeline;
mod reuters;
mod schema;
mod source;
mod support;
mod udf;
