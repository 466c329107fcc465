//! The encoding of a file, by its first bytes.

use std::borrow::Cow;

use crate::error::Result;
use crate::job::Encoding;

/// The encoding of a file that begins with `bytes`, which are all of it if `whole`: the one of its byte order mark, UTF-8 where
/// most lines with other characters than ASCII are UTF-8, or else windows-1252, in which every byte but five is a character.
///
/// # Errors
/// Never for these names; the error is that of reading a name.
pub(super) fn sniff(bytes: &[u8], whole: bool) -> Result<Encoding> {
    match encoding_rs::Encoding::for_bom(bytes) {
        Some((encoding, _)) if encoding == encoding_rs::UTF_8 => Ok(Encoding::Utf8),
        Some((encoding, _)) => encoding.name().parse(),
        None if is_utf_8(bytes, whole) => Ok(Encoding::Utf8),
        None => "windows-1252".parse(),
    }
}

/// Whether bytes are UTF-8, except for a character that their end cuts off, and for rows that cannot be read.
fn is_utf_8(bytes: &[u8], whole: bool) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => return true,
        Err(error) if !whole && error.error_len().is_none() => return true,
        Err(_) => {}
    }
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_ascii());
    let (utf_8, others): (Vec<_>, Vec<_>) = lines.partition(|line| std::str::from_utf8(line).is_ok());
    utf_8.len() > others.len()
}

/// The text of `bytes` without a byte order mark. What is not valid becomes the replacement character.
pub(super) fn text(bytes: &[u8], encoding: Encoding) -> Cow<'_, str> {
    match encoding {
        Encoding::Utf8 | Encoding::Utf8Lossy => encoding_rs::UTF_8.decode_with_bom_removal(bytes).0,
        Encoding::Latin1 => encoding_rs::mem::decode_latin1(bytes),
        Encoding::Standard(label) => label.encoding().decode(bytes).0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodings_are_known_by_their_bytes() {
        for (bytes, whole, expected, read) in [
            (&b"caf\xC3\xA9"[..], true, "utf-8", "café"),
            (b"\xEF\xBB\xBFa", true, "utf-8", "a"),
            (b"plain", true, "utf-8", "plain"),
            (b"caf\xC3", false, "utf-8", "caf\u{fffd}"),
            (b"caf\xC3", true, "windows-1252", "cafÃ"),
            (b"\xE9\n\xC3\xA9\n\xC3\xA9\n", true, "utf-8", "\u{fffd}\né\né\n"),
            (b"caf\xE9 \x93x\x94", true, "windows-1252", "café “x”"),
            (b"\xFF\xFEa\0", true, "utf-16le", "a"),
            (b"\xFE\xFF\0a", true, "utf-16be", "a"),
            (b"", true, "utf-8", ""),
        ] {
            let encoding = sniff(bytes, whole).unwrap();
            assert_eq!(encoding.to_string(), expected, "{bytes:?}");
            assert_eq!(text(bytes, encoding), read, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_have_an_encoding(bytes in any::<Vec<u8>>(), whole: bool) {
            text(&bytes, sniff(&bytes, whole).unwrap());
        }
    }
}
