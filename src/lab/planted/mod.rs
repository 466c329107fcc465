//! Real texts with planted documents: copies, edits of a given similarity, passages, and texts under a common header.
//!
//! Each planted document is a variant of one original, and no original has two, so that every planted pair is known. `planter`
//! chooses the kind of variant, `edit` makes it, and `write` reads the source and writes the files.

mod edit;
mod planter;
mod write;

pub use planter::PlantingSettings;
pub use write::{PlantedFiles, write};
