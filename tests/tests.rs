//! One binary for all integration tests: every further one would link DataFusion again.

mod job;
mod pipeline;
mod schema;
mod support;
mod udf;
