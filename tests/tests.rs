//! One binary for all integration tests: every further one would link DataFusion again.

mod command;
mod job;
mod kill;
mod pipeline;
mod reuters;
mod schema;
mod support;
mod udf;
