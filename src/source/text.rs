//! Plain text: a document is a whole file.

use bytes::Bytes;

/// The byte that stands for a sequence that is not valid in the file's encoding. UTF-8 has no such byte, so whoever reads the
/// text finds it invalid, as the same text in UTF-8 would be.
pub(super) const INVALID: u8 = 0xFF;

/// The document in a file's bytes, without a byte order mark; none where they are not UTF-8.
pub(super) fn document(bytes: Bytes) -> Option<Bytes> {
    let text = match bytes.strip_prefix(b"\xEF\xBB\xBF") {
        Some(rest) => bytes.slice_ref(rest),
        None => bytes,
    };
    std::str::from_utf8(&text).is_ok().then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

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
