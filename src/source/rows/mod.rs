//! Selects the rows of a source that are documents, and the rows that each partition reads.

pub(super) mod columns;
mod condition;
pub(super) mod filter;
pub(super) mod parts;
pub(super) mod selection;
pub(super) mod split;
