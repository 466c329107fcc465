//! Plain text: a document is a whole file.

use bytes::Bytes;

/// The byte that stands for a sequence that is not valid in the file's encoding. UTF-8 has no such byte, so whoever reads the
/// text finds it invalid, as the same text in UTF-8 would be.
pub(super) const INVALID: u8 = 0xFF;

/// The document in a file's bytes, without a byte order mark; `None` if they are not UTF-8.
pub(super) fn document(bytes: Bytes) -> Option<Bytes> {
    let text = match bytes.strip_prefix(b"\xEF\xBB\xBF") {
        Some(rest) => bytes.slice_ref(rest),
        None => bytes,
    };
    std::str::from_utf8(&text).is_ok().then_some(text)
}

/// The text in bytes that come in parts, as [`document`] has it.
#[derive(Debug)]
pub(super) struct Utf8Text {
    /// The beginning of a character whose end has not come.
    waiting: Vec<u8>,
    /// Whether nothing has come.
    at_start: bool,
    invalid: bool,
}

impl Default for Utf8Text {
    fn default() -> Self {
        Self { waiting: Vec::new(), at_start: true, invalid: false }
    }
}

impl Utf8Text {
    /// Gives away the text that `bytes` complete. Nothing more of a text that is not UTF-8.
    pub(crate) fn take(&mut self, bytes: &[u8], mut give: impl FnMut(&str)) {
        let mut rest = bytes;
        // At most three bytes wait, so that another one at a time is soon a character.
        while !self.waiting.is_empty()
            && let [next, tail @ ..] = rest
        {
            self.waiting.push(*next);
            rest = tail;
            let waiting = std::mem::take(&mut self.waiting);
            self.waiting = self.give(&waiting, &mut give).to_vec();
        }
        let waiting = self.give(rest, &mut give);
        self.waiting.extend_from_slice(waiting);
    }

    /// Gives away what is whole of `bytes`; the beginning of a character at their end.
    fn give<'a>(&mut self, bytes: &'a [u8], give: &mut impl FnMut(&str)) -> &'a [u8] {
        if self.invalid || bytes.is_empty() {
            return &[];
        }
        let whole = match std::str::from_utf8(bytes) {
            Ok(text) => text,
            Err(e) => {
                self.invalid = e.error_len().is_some();
                std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default()
            }
        };
        let mark = if self.at_start { whole.strip_prefix('\u{feff}') } else { None };
        self.at_start &= whole.is_empty();
        give(mark.unwrap_or(whole));
        &bytes[whole.len()..]
    }

    /// Whether all of it was UTF-8, once it has all come.
    pub(crate) fn is_valid(&self) -> bool {
        !self.invalid && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_that_comes_in_parts_is_that_of_the_whole(
            pieces in prop::collection::vec(prop_oneof![
                3 => any::<String>().prop_map(String::into_bytes),
                1 => prop::collection::vec(any::<u8>(), 0..4),
                1 => Just("\u{feff}".as_bytes().to_vec()),
            ], 0..6),
            size in 1_usize..9,
        ) {
            let bytes = pieces.concat();
            let (mut text, mut found) = (Utf8Text::default(), String::new());
            bytes.chunks(size).for_each(|chunk| text.take(chunk, |part| found.push_str(part)));
            let whole = document(Bytes::from(bytes));
            prop_assert_eq!(text.is_valid(), whole.is_some());
            if let Some(whole) = whole {
                prop_assert_eq!(found.as_bytes(), &whole[..]);
            }
        }
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        assert_eq!(document(Bytes::from_static(b"\xEF\xBB\xBFtext")), Some(Bytes::from_static(b"text")));
        assert_eq!(document(Bytes::new()), Some(Bytes::new()));
    }

    #[test]
    fn other_encodings_are_a_defect() {
        assert_eq!(document(Bytes::from_static(b"caf\xE9")), None);
        assert_eq!(document(Bytes::from_static(b"\xFF\xFEt\0")), None);
    }
}
