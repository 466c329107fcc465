//! Lines that are JSON except for what other programs write: numbers that are not finite, and halves of surrogate pairs. Each is
//! replaced by as many bytes, so that places in a line stay.

use std::borrow::Cow;

/// What Python writes for numbers that are not finite, and a number of as many bytes.
const NOT_FINITE: [(&[u8], &[u8]); 2] = [(b"NaN", b"0e0"), (b"Infinity", b"0e000000")];

/// The bytes of the escape `\u` and its four digits.
const ESCAPE: usize = 6;

/// A line with numbers instead of `NaN` and `Infinity` outside of strings; `None` if it has neither.
pub(super) fn with_finite_numbers(line: &[u8]) -> Option<Vec<u8>> {
    let (mut finite, mut at, mut in_string) = (line.to_vec(), 0, false);
    let is_word = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    while let Some(byte) = line.get(at) {
        let number = NOT_FINITE.into_iter().find(|(name, _)| {
            let is_alone = !is_word(line.get(at + name.len())) && !is_word(line[..at].last());
            !in_string && is_alone && line[at..].starts_with(name)
        });
        at += match (number, byte) {
            (Some((_, number)), _) => {
                finite[at..at + number.len()].copy_from_slice(number);
                number.len()
            }
            (None, b'\\') if in_string => 2,
            (None, byte) => {
                in_string ^= *byte == b'"';
                1
            }
        };
    }
    (finite != line).then_some(finite)
}

/// A line with U+FFFD instead of each escaped half of a surrogate pair whose other half is missing.
pub(super) fn with_whole_pairs(line: &[u8]) -> Cow<'_, [u8]> {
    let unit = |at: usize| {
        let digits = line.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut whole, mut at) = (Cow::Borrowed(line), 0);
    while let Some(before) = line.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += before;
        at += match (unit(at), unit(at + ESCAPE)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 2 * ESCAPE,
            (Some(0xD800..0xE000), _) => {
                whole.to_mut()[at + 2..at + ESCAPE].copy_from_slice(b"fffd");
                ESCAPE
            }
            _ => 2,
        };
    }
    whole
}

/// A line with both replacements, for uses that do not depend on the replaced values.
pub(crate) fn readable(line: &[u8]) -> Cow<'_, [u8]> {
    let whole = with_whole_pairs(line);
    with_finite_numbers(&whole).map_or(whole, Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn finite(line: &str) -> Option<String> {
        with_finite_numbers(line.as_bytes()).map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn numbers_that_are_not_finite_become_numbers_outside_of_strings() {
        for (line, expected) in [
            (r#"{"a":NaN,"b":[-Infinity, Infinity]}"#, Some(r#"{"a":0e0,"b":[-0e000000, 0e000000]}"#)),
            (r#"{"NaN":"NaN \" NaN"}"#, None),
            (r#"{"a":NaN0,"b":1NaN,"c":NaNs}"#, None),
            (r#"{"a":"\\","b":NaN}"#, Some(r#"{"a":"\\","b":0e0}"#)),
        ] {
            assert_eq!(finite(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn halves_of_pairs_become_the_replacement_character() {
        for (line, expected) in [
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"a\uD83Db", r"a\ufffdb"),
            (r"\ude00\ud83d", r"\ufffd\ufffd"),
            (r"\\ud83d", r"\\ud83d"),
            (r"\ud83d\n", r"\ufffd\n"),
            (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
            (r"\ud8", r"\ud8"),
        ] {
            assert_eq!(&*with_whole_pairs(line.as_bytes()), expected.as_bytes(), "{line}");
        }
    }

    proptest! {
        #[test]
        fn places_stay(line in r#"([\\"{}a1:,-]|NaN|Infinity|\\u[dD][89cC]00){0,20}"#) {
            prop_assert_eq!(readable(line.as_bytes()).len(), line.len());
        }
    }
}
