//! Reads files into batches of documents.
//!
//! `bytes` decompresses and decodes files, and `lines` cuts them into lines or into the elements of an `array`. `documents` collects
//! documents in batches of bounded size. `parse_files` is the node that parses all formats except Parquet.

mod array;
pub(super) mod bytes;
pub(super) mod documents;
pub(super) mod lines;
pub(super) mod parse_files;
