//! `[passages]`: which passages are found that repeat inside documents.

use super::super::{Against, Passages, file};
use super::wrong::{Checked, wrong};

/// The most words that a passage can be asked to have.
const MAX_WORDS: usize = 1_000_000;

pub(super) fn passages_of(passages: &file::Passages, against: Option<&Against>) -> Checked<Passages> {
    if against.is_some() {
        return wrong(
            "passages",
            "does not work with `[against]`, whose documents would not be searched: remove one of the two sections",
        );
    }
    let min_words = passages.min_words.unwrap_or(file::Passages::MIN_WORDS);
    if !(1..=MAX_WORDS).contains(&min_words) {
        return wrong("passages.min_words", format!("is {min_words}: expected 1 to {MAX_WORDS}"));
    }
    Ok(Passages { unit: passages.unit, min_words })
}
