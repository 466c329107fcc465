//! Plain text: a document is a whole file.

use bytes::Bytes;

/// The document in a file's bytes, without a byte order mark; or why it cannot be compared.
pub(super) fn document(bytes: Bytes) -> Result<Bytes, &'static str> {
    let text = match bytes.strip_prefix(b"\xEF\xBB\xBF") {
        Some(rest) => bytes.slice_ref(rest),
        None => bytes,
    };
    match std::str::from_utf8(&text) {
        Ok(_) => Ok(text),
        Err(_) => Err("invalid_utf8"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_no_text() {
        assert_eq!(document(Bytes::from_static(b"\xEF\xBB\xBFtext")), Ok(Bytes::from_static(b"text")));
        assert_eq!(document(Bytes::new()), Ok(Bytes::new()));
    }

    #[test]
    fn other_encodings_are_a_defect() {
        assert_eq!(document(Bytes::from_static(b"caf\xE9")), Err("invalid_utf8"));
        assert_eq!(document(Bytes::from_static(b"\xFF\xFEt\0")), Err("invalid_utf8"));
    }
}
