//! The bytes of files in any encoding -> UTF-8, before a parser reads them.
//!
//! In some encodings, bytes inside of characters look like a quote, a backslash or the end of a line, so that only characters can
//! be parsed.

use bytes::Bytes;
use encoding_rs::{Decoder, DecoderResult};
use futures::stream::{self, StreamExt, TryStreamExt};

use super::bytes::Chunks;
use crate::job::Encoding;

/// The byte that replaces a sequence that is not valid in the file's encoding. UTF-8 has no such byte, so the text is invalid
/// for every reader, as it would be in UTF-8.
pub(super) const INVALID: u8 = 0xFF;

/// The replacement character in UTF-8.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// `chunks` in UTF-8, except for [`INVALID`]; a chunk's last character may come with the next chunk. UTF-8 passes through as
/// it is.
pub(super) fn decoded(chunks: Chunks, encoding: Encoding) -> Chunks {
    let Some(decoding) = Decoding::new(encoding) else { return chunks };
    let state = (chunks, Some(decoding));
    stream::try_unfold(state, |(mut chunks, decoding)| async move {
        let Some(mut decoding) = decoding else { return Ok(None) };
        loop {
            let Some(chunk) = chunks.try_next().await? else {
                let rest = decoding.decode(&[], true);
                return Ok((!rest.is_empty()).then_some((rest, (chunks, None))));
            };
            let text = decoding.decode(&chunk, false);
            // The chunk was only the start of a character. An empty chunk would end the file.
            if !text.is_empty() {
                return Ok(Some((text, (chunks, Some(decoding)))));
            }
        }
    })
    // The search for a byte order mark may poll again after the end.
    .fuse()
    .boxed()
}

/// The state of a decoder between two chunks.
enum Decoding {
    Latin1,
    Standard { decoder: Decoder, invalid: &'static [u8] },
}

impl Decoding {
    /// `None` where the bytes are UTF-8.
    fn new(encoding: Encoding) -> Option<Self> {
        Some(match encoding {
            Encoding::Utf8 => return None,
            Encoding::Latin1 => Decoding::Latin1,
            Encoding::Utf8Lossy => Decoding::Standard {
                decoder: encoding_rs::UTF_8.new_decoder_without_bom_handling(),
                invalid: REPLACEMENT,
            },
            Encoding::Standard(label) => {
                Decoding::Standard { decoder: label.encoding().new_decoder(), invalid: &[INVALID] }
            }
        })
    }

    /// The text of the next bytes of the file; `last` if these are the last.
    fn decode(&mut self, bytes: &[u8], last: bool) -> Bytes {
        match self {
            Decoding::Latin1 => encoding_rs::mem::decode_latin1(bytes).into_owned().into_bytes().into(),
            Decoding::Standard { decoder, invalid } => {
                let mut text = Vec::new();
                let mut rest = bytes;
                loop {
                    // `None` if the length overflows. The text is then decoded piece by piece.
                    let room = decoder.max_utf8_buffer_length_without_replacement(rest.len());
                    let from = text.len();
                    text.resize(from + room.unwrap_or(rest.len().max(MIN_ROOM)), 0);
                    let (result, read, written) =
                        decoder.decode_to_utf8_without_replacement(rest, &mut text[from..], last);
                    text.truncate(from + written);
                    rest = &rest[read..];
                    match result {
                        DecoderResult::InputEmpty => return text.into(),
                        DecoderResult::OutputFull => {}
                        DecoderResult::Malformed(..) => text.extend_from_slice(invalid),
                    }
                }
            }
        }
    }
}

/// Bytes that hold any character.
const MIN_ROOM: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    async fn decode(bytes: &[u8], encoding: &str, size: usize) -> Vec<u8> {
        let pieces: Vec<_> = bytes.chunks(size).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        let chunks = decoded(stream::iter(pieces).boxed(), encoding.parse().unwrap());
        let pieces: Vec<Bytes> = chunks.try_collect().await.unwrap();
        assert!(pieces.iter().all(|piece| !piece.is_empty()), "an empty chunk ends a file");
        pieces.concat()
    }

    /// What Python's codecs of these names give.
    #[tokio::test]
    async fn bytes_become_text_however_they_come() {
        let all_bytes: Vec<u8> = (0..=255).collect();
        let all_latin: String = all_bytes.iter().map(|&byte| char::from(byte)).collect();
        for (bytes, encoding, expected) in [
            (&all_bytes[..], "latin-1", all_latin.as_str()),
            (b"caf\xE9 \x93x\x94", "windows-1252", "café “x”"),
            (b"caf\xE9 \x93x\x94", "latin-1", "café \u{93}x\u{94}"),
            (b"\x83\x5C\x22\x0A", "shift_jis", "ソ\"\n"),
            (b"a\0\xE9\0=\xD8\0\xDE", "utf-16le", "aé😀"),
            (b"\xFE\xFF\0a", "utf-16le", "a"),
            (b"\xEF\xBB\xBFcaf\xC3\xA9", "windows-1252", "café"),
            (b"caf\xE9 \xE2\x82x \xE2\x82\xAC", "utf-8-lossy", "caf\u{fffd} \u{fffd}x €"),
            (b"\xD0\xCF\xE2", "koi8-r", "поБ"),
        ] {
            for size in [1, 2, 3, 1000] {
                let found = decode(bytes, encoding, size).await;
                assert_eq!(String::from_utf8(found).unwrap(), expected, "{encoding} in pieces of {size}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_not_valid_is_marked_with_a_byte_that_no_text_has() {
        for (bytes, encoding, expected) in [
            (&b"a\x81\nb"[..], "shift_jis", &b"a\xFF\nb"[..]),
            (b"a\xD8", "utf-16be", b"\xE6\x87\x98"),
            (b"a\0b", "utf-16le", b"a\xFF"),
            (b"\xE2\x82", "utf-8-lossy", REPLACEMENT),
        ] {
            for size in [1, 2, 1000] {
                assert_eq!(decode(bytes, encoding, size).await, expected, "{encoding} in pieces of {size}");
            }
        }
    }

    #[tokio::test]
    async fn utf_8_is_left_alone_whatever_it_holds() {
        assert_eq!(decode(b"\xFF\xFEcaf\xE9", "utf-8", 3).await, b"\xFF\xFEcaf\xE9");
    }
}
