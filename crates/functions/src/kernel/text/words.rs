//! The words of a text, and the places where a text may be cut without changing them.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::kernel::shingle::Words;
use crate::kernel::text::auto_words::auto_words;
use crate::kernel::text::python::is_word_character;

/// Calls `found` with the byte range of each word of `text`, in order.
pub fn each_word(text: &str, words: Words, found: impl FnMut(Range<usize>)) {
    match words {
        Words::Unicode => unicode_words::<false>(text, found),
        Words::Auto => unicode_words::<true>(text, found),
        Words::WordCharacters => runs(text, is_word_character, found),
        Words::Spaces => runs(text, |c| !c.is_whitespace(), found),
    }
}

/// The longest runs of characters that are `inside` a word.
fn runs(text: &str, inside: impl Fn(char) -> bool, mut found: impl FnMut(Range<usize>)) {
    let mut start = None;
    for (at, c) in text.char_indices() {
        match (inside(c), start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found(from..at);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        found(from..text.len());
    }
}

/// Words are those of [`UnicodeSegmentation::unicode_words`] (UAX #29, section 4): the segments between word boundaries
/// that hold a letter or a number. Stretches of ASCII have a path of their own, also in texts that are not ASCII
/// throughout. With `AUTO`, the others are those of [`auto_words`].
fn unicode_words<const AUTO: bool>(text: &str, mut found: impl FnMut(Range<usize>)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let foreign = first_non_ascii(bytes, at);
        let plain = if foreign == bytes.len() { foreign } else { last_cut(bytes, at, foreign) };
        ascii_words(bytes, at..plain, &mut found);
        if plain == bytes.len() {
            return;
        }
        let end = next_cut(bytes, foreign);
        let stretch = &text[plain..end];
        if AUTO {
            auto_words(stretch, |word| found(plain + word.start..plain + word.end));
        } else {
            for (start, word) in stretch.unicode_word_indices() {
                found(plain + start..plain + start + word.len());
            }
        }
        at = end;
    }
}

/// Whether `bytes` may be cut before `at` without changing the words on either side.
///
/// True between ASCII white space and an ASCII letter. White space ends every rule of UAX #29 that looks ahead, and a
/// letter takes no part in the one that looks back past white space (marks that extend it, WB4). The same holds for
/// lower case (final sigma) and for Unicode composition.
fn is_cut(bytes: &[u8], at: usize) -> bool {
    at > 0 && is_white(bytes[at - 1]) && bytes[at].is_ascii_alphabetic()
}

/// The first cut at or after `from`, or the end.
pub(crate) fn next_cut(bytes: &[u8], from: usize) -> usize {
    (from..bytes.len()).find(|&at| is_cut(bytes, at)).unwrap_or(bytes.len())
}

/// The last cut in `from..to`, or `from`.
fn last_cut(bytes: &[u8], from: usize, to: usize) -> usize {
    (from + 1..to).rev().find(|&at| is_cut(bytes, at)).unwrap_or(from)
}

/// ASCII white space as [`char::is_whitespace`] has it: the vertical tab is among it, unlike in
/// [`u8::is_ascii_whitespace`].
pub(crate) fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn first_non_ascii(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    for block in bytes[from..].chunks(64) {
        if !block.is_ascii() {
            return at + block.iter().position(|b| !b.is_ascii()).unwrap_or(0);
        }
        at += block.len();
    }
    bytes.len()
}

/// The role of a byte in the word rules.
const CORE: u8 = 1;
const LETTER: u8 = 2;
const DIGIT: u8 = 4;
/// Joins the letters on its two sides (WB6, WB7).
const MID_LETTER: u8 = 8;
/// Joins the digits on its two sides (WB11, WB12).
const MID_NUMBER: u8 = 16;

/// The class of each ASCII byte, after the table in UAX #29, section 4.1.
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < 128 {
        let b = byte as u8;
        class[byte] = if b.is_ascii_alphabetic() {
            CORE | LETTER
        } else if b.is_ascii_digit() {
            CORE | DIGIT
        } else {
            match b {
                b'_' => CORE,
                b':' => MID_LETTER,
                b',' | b';' => MID_NUMBER,
                b'.' | b'\'' => MID_LETTER | MID_NUMBER,
                _ => 0,
            }
        };
        byte += 1;
    }
    class
};

/// The words of `bytes[range]`, which is ASCII.
///
/// Words are short and of no predictable length, so that a loop over their bytes costs a mispredicted branch at either
/// end. Here 64 bytes at a time become a mask of the places where a run of [`CORE`] bytes starts or ends.
fn ascii_words(bytes: &[u8], range: Range<usize>, found: &mut impl FnMut(Range<usize>)) {
    let bytes = &bytes[..range.end];
    let class = |at: usize| bytes.get(at).map_or(0, |&b| CLASS[usize::from(b)]);
    let mut emit = |word: Range<usize>| {
        // Underscores alone join words but are no words.
        if bytes[word.start] != b'_' || bytes[word.clone()].iter().any(|&b| b != b'_') {
            found(word);
        }
    };
    let (mut start, mut inside, mut joined) = (range.start, false, false);
    let mut base = range.start;
    for block in bytes[range.start..].chunks(64) {
        let core = core_mask(block);
        let mut edges = core ^ (core << 1 | u64::from(inside));
        while edges != 0 {
            let at = base + edges.trailing_zeros() as usize;
            edges &= edges - 1;
            inside = !inside;
            if !inside {
                joined = joins(class(at - 1), class(at), class(at + 1));
                if !joined {
                    emit(start..at);
                }
            } else if !joined {
                start = at;
            }
        }
        base += 64;
    }
    // A last block that is not full ends its last word by itself.
    if inside {
        emit(start..bytes.len());
    }
}

/// Bit i is set if byte i of the block, of at most 64, is [`CORE`].
fn core_mask(block: &[u8]) -> u64 {
    let mut filled = [0; 64];
    filled[..block.len()].copy_from_slice(block);
    // Comparisons instead of the table: the compiler makes SIMD code of them.
    let core = filled.map(|b| {
        let letter = (b | 0x20).wrapping_sub(b'a') < 26;
        let digit = b.wrapping_sub(b'0') < 10;
        u8::from(letter | digit | (b == b'_'))
    });
    let mut mask = 0;
    for (byte, ones) in core.as_chunks::<8>().0.iter().enumerate() {
        // Eight bytes of 0 or 1: the product gathers them in its highest byte.
        mask |= (u64::from_le_bytes(*ones).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * byte);
    }
    mask
}

fn joins(before: u8, middle: u8, after: u8) -> bool {
    middle & MID_LETTER != 0 && before & after & LETTER != 0
        || middle & MID_NUMBER != 0 && before & after & DIGIT != 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<&str> {
        words_by(Words::Unicode, text)
    }

    fn words_by(rule: Words, text: &str) -> Vec<&str> {
        let mut words = Vec::new();
        each_word(text, rule, |word| words.push(&text[word]));
        words
    }

    /// Those that Python's `re.findall(r"\b\w+\b", text)` and `text.split()` give.
    #[test]
    fn words_by_the_other_rules() {
        let text = "Don't stop_now, it's 32.3\tdegrées\u{a0}—4×4 in Łódź!";
        assert_eq!(
            words_by(Words::WordCharacters, text),
            ["Don", "t", "stop_now", "it", "s", "32", "3", "degrées", "4", "4", "in", "Łódź"]
        );
        assert_eq!(
            words_by(Words::Spaces, text),
            ["Don't", "stop_now,", "it's", "32.3", "degrées", "—4×4", "in", "Łódź!"]
        );
        assert!(
            words_by(Words::WordCharacters, "--").is_empty() && words_by(Words::Spaces, " \n").is_empty()
        );
    }

    #[test]
    fn words_of_a_sentence() {
        assert_eq!(
            words("The quick (\"brown\") fox can't jump 32.3 feet, right? a:b __ _x 1,000;2"),
            [
                "The", "quick", "brown", "fox", "can't", "jump", "32.3", "feet", "right", "a:b", "_x",
                "1,000;2"
            ]
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn word_characters_are_those_of_regular_expressions(text in "[\\x00-\\x7f]{0,60}") {
            let token = regex::Regex::new(r"\b\w+\b").unwrap();
            let expected: Vec<_> = token.find_iter(&text).map(|token| token.as_str()).collect();
            prop_assert_eq!(words_by(Words::WordCharacters, &text), expected);
            prop_assert_eq!(words_by(Words::Spaces, &text), text.split_whitespace().collect::<Vec<_>>());
        }

        #[test]
        fn ascii_is_as_unicode_has_it(text in "[\\x00-\\x7f]{0,60}") {
            prop_assert_eq!(words(&text), text.unicode_words().collect::<Vec<_>>());
        }

        #[test]
        fn dense_ascii_is_as_unicode_has_it(text in "[ab1 ._',:;\"\r\n-]{0,30}") {
            // A character that is not ASCII, far behind, sends the reference down the general path.
            let padded = format!("{text} z \u{e9}");
            prop_assert_eq!(words(&text), text.unicode_words().collect::<Vec<_>>());
            prop_assert_eq!(words(&padded), padded.unicode_words().collect::<Vec<_>>());
        }

        #[test]
        fn mixed_text_is_as_unicode_has_it(text in "([ab1 ._'\t\n]|[éΣσ中かカ\u{301}\u{93e}\u{200d}\u{1f600}א\"]){0,40}") {
            prop_assert_eq!(words(&text), text.unicode_words().collect::<Vec<_>>());
        }

        #[test]
        fn dictionaries_leave_other_scripts_alone(text in "([ab1 ._'\t\n]|[éΣσא\u{301}\u{93e}\u{200d}\"]){0,40}") {
            prop_assert_eq!(words_by(Words::Auto, &text), words(&text));
        }

        /// Stretches of ASCII take a path of their own, also between the words of dictionaries.
        #[test]
        fn mixed_text_has_the_words_of_its_stretches(text in "([ab1 ._'\t\n]|[é人自由すべてカーคนและ\u{301}\u{1f600}「、\"]){0,40}") {
            let mut expected = Vec::new();
            auto_words(&text, |word| expected.push(&text[word]));
            prop_assert_eq!(words_by(Words::Auto, &text), expected);
        }

        #[test]
        fn any_text_is_as_unicode_has_it(text in any::<String>()) {
            prop_assert_eq!(words(&text), text.unicode_words().collect::<Vec<_>>());
        }
    }
}
