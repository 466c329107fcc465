//! Real texts with planted documents: copies, edits of a given similarity, passages, and texts under a common header.
//!
//! Each planted document is made of one original, and no two of the same, so that every pair that was planted is known. `planter` chooses
//! what is made of an original, `edit` makes it, and `write` reads the source and writes the files.

mod edit;
mod planter;
mod write;

pub use planter::Settings;
pub use write::{Written, write};
