//! `[passages]`: which passages are found that repeat inside documents.

use super::super::file::PassageUnit;
use super::super::{Passages, TextUnit, file};
use super::wrong::{Checked, wrong};

/// The most words that a passage can be asked to have.
const MAX_WORDS: usize = 1_000_000;

pub(super) fn passages_of(passages: &file::Passages) -> Checked<Passages> {
    let file::Passages { unit, min_words, length, gap } = *passages;
    let unit = match unit {
        PassageUnit::Line => TextUnit::Line,
        PassageUnit::Sentence => TextUnit::Sentence,
        PassageUnit::Paragraph => TextUnit::Paragraph,
        PassageUnit::Word if min_words.is_some() => {
            return wrong(
                "passages.min_words",
                "is set, and the unit is \"word\": expected `passages.length` instead",
            );
        }
        PassageUnit::Word => {
            let (length, gap) = (length.unwrap_or(file::Passages::LENGTH), gap.unwrap_or_default());
            if !(2..=MAX_WORDS).contains(&length) {
                return wrong("passages.length", format!("is {length}: expected 2 to {MAX_WORDS}"));
            }
            if gap > MAX_WORDS {
                return wrong("passages.gap", format!("is {gap}: expected at most {MAX_WORDS}"));
            }
            return Ok(Passages::Words { length, gap });
        }
    };
    for (key, value) in [("passages.length", length), ("passages.gap", gap)] {
        if value.is_some() {
            return wrong(key, "is set, and works only with `passages.unit = \"word\"`: remove the key");
        }
    }
    let min_words = min_words.unwrap_or(file::Passages::MIN_WORDS);
    if !(1..=MAX_WORDS).contains(&min_words) {
        return wrong("passages.min_words", format!("is {min_words}: expected 1 to {MAX_WORDS}"));
    }
    Ok(Passages::Units { unit, min_words })
}
