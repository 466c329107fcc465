//! One binary for all integration tests: every further one would link DataFusion again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where it fails, its helpers too"
)]

mod job;
mod schema;
