//! One binary for all integration tests: every further one would link DataFusion again.

mod job;
mod schema;
