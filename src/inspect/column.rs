//! The columns of a dataset, as its first rows show them.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::visible::visible;

/// Characters of a value that are shown.
const SHOWN: usize = 40;

/// A column of a dataset.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct InspectedColumn {
    /// Its name.
    pub name: String,
    /// What its values are: an Arrow type for Parquet, else a word.
    pub kind: String,
    /// Whether a text may be in it.
    pub is_text: bool,
    /// Whether every row that was looked at has a value, and each another one.
    pub is_unique: bool,
    /// The beginning of its first value, with control characters escaped, if it has one.
    pub example: Option<String>,
    /// Characters of a value, on average.
    pub mean_characters: f64,
}

/// The values of a column while rows are read.
#[derive(Debug, Default)]
pub(super) struct ColumnSample {
    rows: u64,
    filled: u64,
    characters: u64,
    other_than_numbers: bool,
    hashes: BTreeSet<u64>,
    example: Option<String>,
}

impl ColumnSample {
    /// Adds the value of a row; `None` where it has none.
    pub(super) fn add(&mut self, value: Option<&str>) {
        self.rows += 1;
        let Some(value) = value else { return };
        self.filled += 1;
        self.characters += value.chars().count() as u64;
        self.other_than_numbers |= !is_number(value);
        self.hashes.insert(xxh3_64(value.as_bytes()));
        if self.example.is_none() && !value.trim().is_empty() {
            self.example = Some(beginning(value));
        }
    }

    /// The number of rows so far.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// The number of rows so far that have a value.
    pub(super) fn filled(&self) -> u64 {
        self.filled
    }

    /// Whether values are strings that are not all numbers, or there are no rows to tell.
    pub(super) fn are_words(&self) -> bool {
        self.rows == 0 || self.other_than_numbers
    }

    /// The column of these values.
    pub(super) fn column(self, name: &str, kind: &str, is_text: bool) -> InspectedColumn {
        let distinct = self.hashes.len() as u64;
        InspectedColumn {
            name: name.to_owned(),
            kind: kind.to_owned(),
            is_text,
            is_unique: self.rows > 0 && distinct == self.rows,
            example: self.example,
            mean_characters: self.characters as f64 / self.filled.max(1) as f64,
        }
    }
}

/// Whether a value is written as a number.
pub(super) fn is_number(value: &str) -> bool {
    value.trim().parse::<f64>().is_ok()
}

/// The first characters of a value, with control characters escaped.
pub(crate) fn beginning(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", visible(&value[..end])),
        None => visible(value).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_what_its_values_are() {
        let column = |values: &[Option<&str>]| {
            let mut gathered = ColumnSample::default();
            values.iter().for_each(|value| gathered.add(*value));
            let is_text = gathered.are_words();
            gathered.column("a", "text", is_text)
        };
        let words = column(&[Some("one\ttwo"), Some("three")]);
        assert!(words.is_text && words.is_unique && words.mean_characters == 6.0);
        assert_eq!(words.example.as_deref(), Some("one\\ttwo"));
        assert!(!column(&[Some("one"), Some("one")]).is_unique);
        assert!(!column(&[Some("one"), None]).is_unique);
        let numbers = column(&[Some("1"), Some("-2.5e3"), None]);
        assert!(!numbers.is_text && !numbers.is_unique);
        let none = column(&[]);
        assert!(none.is_text && !none.is_unique && none.example.is_none());
        assert_eq!(beginning(&"é".repeat(41)), format!("{}…", "é".repeat(40)));
    }
}
