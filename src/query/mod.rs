//! What is asked of finished outputs, and of small samples.

pub mod again;
pub mod compare;
mod id;
pub mod neighbors;
mod output;
pub mod rows;
mod sample;
pub mod show;
pub mod side_by_side;
mod similarity;
pub mod sketch;
pub mod sweep;
mod timing;
pub mod unknown;

pub use id::Id;
pub use output::Finished;
