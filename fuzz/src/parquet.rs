//! Parquet: the bytes of a file, footer and all.

use resemblance::job::Format;

use super::reading::{Reading, outcome};

/// A file is read, or refused, and the same way twice.
pub fn check(bytes: &[u8]) {
    let reading = Reading::of(Format::Parquet, "documents.parquet");
    let first = reading.rows(bytes, usize::MAX);
    let second = reading.rows(bytes, usize::MAX);
    assert_eq!(outcome(&first), outcome(&second));
}
