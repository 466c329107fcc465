//! What is asked of finished outputs.

pub mod compare;
mod output;
pub mod rows;
mod sample;
mod sketches;
pub mod sweep;

pub use output::Finished;
