//! One binary for all integration tests: every further one would link DataFusion again.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where it fails, its helpers too, and says aloud what it passes over"
)]

mod cluster;
mod command;
mod compare;
mod find;
mod generate;
mod job;
mod kill;
mod layers;
mod neighbors;
mod pipeline;
mod platform;
mod prefix;
mod readers;
mod reuters;
mod s3;
mod schema;
mod soak;
mod source;
mod stages;
mod support;
mod sweep;
mod systems;
mod udf;
mod values;
