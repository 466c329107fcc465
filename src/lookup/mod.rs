//! What is asked of finished outputs.

mod finished;
mod id;
pub mod neighbors;
pub mod not_found;
pub mod reread;
pub mod rows;
pub mod show;
pub mod side_by_side;
mod similarity;
pub mod sketch;

pub use finished::Finished;
pub use id::Id;
