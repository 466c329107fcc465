//! Selects the rows of a source that are documents, and the rows that each partition reads.
//!
//! `columns` gives all formats the same columns. `filter` and `condition` apply `source.where` and `source.limit`, and `selection` is a set
//! of wanted documents. `split` distributes files over partitions, and `parts` hashes the input of each partition.

pub(super) mod columns;
mod condition;
pub(super) mod filter;
pub(super) mod parts;
pub(super) mod selection;
pub(super) mod split;
