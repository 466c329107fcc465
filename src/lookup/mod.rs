//! What is asked of finished outputs.

pub mod again;
mod id;
pub mod neighbors;
mod output;
pub mod rows;
pub mod show;
pub mod side_by_side;
mod similarity;
pub mod sketch;
pub mod unknown;

pub use id::Id;
pub use output::Finished;
