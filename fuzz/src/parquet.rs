//! Parquet: the bytes of a file, footer and all.

use resemblance::job::{Csv, Format, Id};

use super::reading::{Reading, outcome};

/// A file is read, or refused, and the same way twice.
pub fn check(bytes: &[u8]) {
    let reading = Reading {
        format: Format::Parquet,
        name: "documents.parquet",
        id: Id::Columns(vec!["id".into()]),
        text: vec!["text".into()],
        csv: Csv { delimiter: b',', header: true, quote: b'"' },
    };
    let first = reading.rows(bytes, usize::MAX);
    let second = reading.rows(bytes, usize::MAX);
    assert_eq!(outcome(&first), outcome(&second));
}
