//! What is asked of finished outputs.

mod output;
pub mod rows;

pub use output::Finished;
