pub mod error;
pub mod job;
