pub mod error;
pub mod job;
pub mod source;
