//! The lines, sentences and paragraphs of a text. Joined, they are the text, byte for byte.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use unicode_segmentation::UnicodeSegmentation;

use crate::kernel::text::written_words::WrittenWords;

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextUnit {
    /// A line, up to the newline.
    Line,
    /// A sentence by Unicode's rules (UAX #29), which the end of a line ends too.
    Sentence,
    /// Lines up to a blank one.
    Paragraph,
}

impl TextUnit {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            TextUnit::Line => "line",
            TextUnit::Sentence => "sentence",
            TextUnit::Paragraph => "paragraph",
        }
    }
}

/// A line, sentence or paragraph of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitSpan {
    /// Its place in bytes.
    pub bytes: Range<usize>,
    /// Its place in characters (Unicode scalar values).
    pub chars: Range<usize>,
    /// The number of its words.
    pub words: usize,
    /// The hash of its normalised words.
    pub hash: u128,
}

/// Calls `found` with each unit of `text` that has at least `min_words` words, in order.
pub fn units(
    text: &str,
    unit: TextUnit,
    min_words: usize,
    words: &mut WrittenWords,
    mut found: impl FnMut(UnitSpan),
) {
    let (mut chars, is_ascii) = (0, text.is_ascii());
    each_unit(text, unit, |bytes| {
        let written = &text[bytes.clone()];
        let start = chars;
        chars += if is_ascii { written.len() } else { written.chars().count() };
        words.cut(written);
        if words.len() >= min_words.max(1) {
            let (words, hash) = (words.len(), words.hash(0..words.len()));
            found(UnitSpan { bytes, chars: start..chars, words, hash });
        }
    });
}

/// Calls `found` with the bytes of each unit, with the line ends and white space behind it.
fn each_unit(text: &str, unit: TextUnit, mut found: impl FnMut(Range<usize>)) {
    let mut at = 0;
    let mut next = |part: &str| {
        found(at..at + part.len());
        at += part.len();
    };
    match unit {
        TextUnit::Line => text.split_inclusive('\n').for_each(next),
        // UAX #29, section 5: the end of a line ends a sentence too.
        TextUnit::Sentence => text.split_sentence_bounds().for_each(next),
        TextUnit::Paragraph => {
            let (mut start, mut end) = (0, 0);
            let (mut has_text, mut is_over) = (false, false);
            for line in text.split_inclusive('\n') {
                let is_blank = line.trim().is_empty();
                if is_over && !is_blank {
                    next(&text[start..end]);
                    (start, has_text) = (end, false);
                }
                has_text |= !is_blank;
                is_over = has_text && is_blank;
                end += line.len();
            }
            if end > start {
                next(&text[start..end]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::shingle::Words;

    fn cut(text: &str, unit: TextUnit) -> Vec<&str> {
        let mut all = Vec::new();
        each_unit(text, unit, |bytes| all.push(&text[bytes]));
        all
    }

    #[test]
    fn each_unit_by_example() {
        assert_eq!(cut("a\r\n\nb", TextUnit::Line), ["a\r\n", "\n", "b"]);
        assert_eq!(cut("One. Two?  Three\nfour", TextUnit::Sentence), ["One. ", "Two?  ", "Three\n", "four"]);
        assert_eq!(cut("\n a\nb\n \n\nc\n", TextUnit::Paragraph), ["\n a\nb\n \n\n", "c\n"]);
        for unit in [TextUnit::Line, TextUnit::Sentence, TextUnit::Paragraph] {
            assert!(cut("", unit).is_empty());
        }
    }

    #[test]
    fn units_are_equal_by_their_words() {
        let mut words = WrittenWords::new(&["lowercase".parse().unwrap()], Words::Unicode).unwrap();
        let mut all = Vec::new();
        units("Ä b, C\nb\n\nä B c!", TextUnit::Line, 2, &mut words, |unit| all.push(unit));
        let hash = words.hash(0..3);
        assert_eq!(
            all,
            [
                UnitSpan { bytes: 0..8, chars: 0..7, words: 3, hash },
                UnitSpan { bytes: 11..18, chars: 10..16, words: 3, hash }
            ]
        );
    }

    proptest! {
        #[test]
        fn units_join_to_the_text(text in "[a-cä.?! \u{85}\u{2028}\r\n]{0,60}") {
            for unit in [TextUnit::Line, TextUnit::Sentence, TextUnit::Paragraph] {
                let all = cut(&text, unit);
                prop_assert!(all.iter().all(|part| !part.is_empty()));
                prop_assert_eq!(all.concat(), text.as_str());
            }
        }
    }
}
