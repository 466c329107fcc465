//! What is asked of finished outputs.

pub mod neighbors;
mod output;
pub mod rows;
pub mod side_by_side;
pub mod sketch;
pub mod texts;
pub mod unknown;

pub use output::Finished;
