//! Reads files into batches of documents.

pub(super) mod bytes;
pub(super) mod documents;
pub(super) mod lines;
pub(super) mod parse_files;
