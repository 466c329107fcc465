//! Encodings and their names in a job file.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::spelling::nearest;
use crate::error::{Error, Result};

/// The encoding of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8. Invalid bytes cannot be read. In Reuters stories, they are read as Latin-1.
    #[default]
    Utf8,
    /// UTF-8. Each invalid byte sequence is replaced with the replacement character, U+FFFD.
    Utf8Lossy,
    /// ISO 8859-1: each byte is the code point of a character, so every file can be read. This is `latin-1` in Python. The labels `latin1`
    /// and `iso-8859-1` of the Encoding Standard mean windows-1252, which has other characters for the bytes 0x80 to 0x9F.
    Latin1,
    /// The encoding that the beginning of each file shows. Only for text files.
    Detect,
    /// Another encoding of the Encoding Standard (WHATWG). A byte order mark at the start of a file overrides it. Invalid bytes cannot be
    /// read.
    Standard(&'static encoding_rs::Encoding),
}

const UTF_8: &str = "utf-8";
const UTF_8_LOSSY: &str = "utf-8-lossy";
const LATIN_1: &str = "latin-1";
const DETECT: &str = "detect";

/// The names in the Encoding Standard, among which the correction of a misspelt name is searched.
const STANDARD: &str = "big5;euc-jp;euc-kr;gb18030;gbk;ibm866;iso-2022-jp;iso-8859-2;iso-8859-3;\
    iso-8859-4;iso-8859-5;iso-8859-6;iso-8859-7;iso-8859-8;iso-8859-8-i;iso-8859-10;iso-8859-13;iso-8859-14;\
    iso-8859-15;iso-8859-16;koi8-r;koi8-u;macintosh;shift_jis;utf-16be;utf-16le;windows-874;\
    windows-1250;windows-1251;windows-1252;windows-1253;windows-1254;windows-1255;windows-1256;windows-1257;windows-1258;\
    x-mac-cyrillic";

fn names() -> impl Iterator<Item = &'static str> {
    [UTF_8, UTF_8_LOSSY, LATIN_1, DETECT].into_iter().chain(STANDARD.split(';'))
}

/// The number of bytes at the beginning of a page that are searched for its declared encoding.
const DECLARED_BYTES: usize = 1024;

impl Encoding {
    /// Detects the encoding of a file that begins with `bytes`. If `whole` is true, `bytes` is the whole file.
    ///
    /// A byte order mark determines the encoding. Without such a mark, the encoding is UTF-8 if most lines with non-ASCII characters are
    /// valid UTF-8. Otherwise it is the encoding that a page declares, or windows-1252, in which all bytes except five are characters.
    pub(crate) fn detected(bytes: &[u8], whole: bool) -> Self {
        let encoding = match encoding_rs::Encoding::for_bom(bytes) {
            Some((encoding, _)) => encoding,
            None if is_utf_8(bytes, whole) => encoding_rs::UTF_8,
            None => declared(bytes).unwrap_or(encoding_rs::WINDOWS_1252),
        };
        if encoding == encoding_rs::UTF_8 { Encoding::Utf8 } else { Encoding::Standard(encoding) }
    }

    /// Returns the reason for rejecting a document with invalid bytes, from the reasons in `schemas/rejects.toml`.
    pub(crate) fn defect(self) -> &'static str {
        match self {
            Encoding::Utf8 => "invalid_utf8",
            _ => "invalid_encoding",
        }
    }

    /// Returns the end of the message about invalid bytes: the fault, and advice.
    pub(crate) fn complaint(self) -> String {
        match self {
            Encoding::Utf8 => {
                "is not UTF-8: set source.encoding, for example to \"latin-1\", or convert the file"
                    .to_owned()
            }
            other => format!("is not {other}: correct source.encoding, or convert the file"),
        }
    }

    /// Encodes a text. UTF-16 begins with a byte order mark. Returns `None` for UTF-8, for `detect`, and for a text with a character that
    /// the encoding lacks.
    pub(crate) fn encode(self, text: &str) -> Option<Vec<u8>> {
        let utf_16 = || std::iter::once(0xfeff).chain(text.encode_utf16());
        match self {
            Encoding::Utf8 | Encoding::Utf8Lossy | Encoding::Detect => None,
            Encoding::Latin1 => text.chars().map(|c| u8::try_from(c).ok()).collect(),
            Encoding::Standard(encoding) if encoding == encoding_rs::UTF_16LE => {
                Some(utf_16().flat_map(u16::to_le_bytes).collect())
            }
            Encoding::Standard(encoding) if encoding == encoding_rs::UTF_16BE => {
                Some(utf_16().flat_map(u16::to_be_bytes).collect())
            }
            Encoding::Standard(encoding) => {
                let (bytes, _, is_lossy) = encoding.encode(text);
                (!is_lossy).then(|| bytes.into_owned())
            }
        }
    }

    /// Returns whether ASCII characters are encoded as their ASCII bytes.
    pub(crate) fn has_ascii(self) -> bool {
        match self {
            Encoding::Standard(encoding) => encoding.is_ascii_compatible(),
            _ => true,
        }
    }
}

/// Returns whether the bytes are UTF-8. A character at the end may be cut off. With other invalid bytes, most lines with non-ASCII
/// characters must be UTF-8.
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

/// Returns the encoding that an HTML or XML page declares at its beginning, if ASCII characters keep their bytes in it.
fn declared(bytes: &[u8]) -> Option<&'static encoding_rs::Encoding> {
    let start = String::from_utf8_lossy(bytes.get(..DECLARED_BYTES).unwrap_or(bytes)).to_ascii_lowercase();
    let page = start.trim_start().strip_prefix('<')?;
    let (_, label) = page.split_once("charset=").or_else(|| page.split_once("encoding="))?;
    let label = label.trim_start_matches(['"', '\'']).split(['"', '\'', ';', '>', '/', ' ']).next()?;
    let encoding = encoding_rs::Encoding::for_label_no_replacement(label.as_bytes())?;
    (encoding != encoding_rs::UTF_8 && encoding.is_ascii_compatible()).then_some(encoding)
}

/// Parses `utf-8`, `utf-8-lossy`, `latin-1`, `detect`, or a label of the Encoding Standard. Ignores case.
impl FromStr for Encoding {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            UTF_8 => return Ok(Encoding::Utf8),
            UTF_8_LOSSY => return Ok(Encoding::Utf8Lossy),
            LATIN_1 => return Ok(Encoding::Latin1),
            DETECT => return Ok(Encoding::Detect),
            _ => {}
        }
        // The standard replaces dangerous encodings by one that decodes nothing, so their labels are refused.
        match encoding_rs::Encoding::for_label_no_replacement(name.as_bytes()) {
            Some(encoding) if encoding == encoding_rs::UTF_8 => Ok(Encoding::Utf8),
            Some(encoding) => Ok(Encoding::Standard(encoding)),
            None => {
                let near = nearest(&name.to_ascii_lowercase(), names());
                let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
                Err(Error::job(format!(
                    "{name:?}: expected {UTF_8:?}, {UTF_8_LOSSY:?}, {LATIN_1:?}, or a label of the Encoding Standard such as \
                     \"windows-1252\", \"shift_jis\" or \"utf-16le\"{near}"
                )))
            }
        }
    }
}

impl fmt::Display for Encoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Encoding::Utf8 => f.write_str(UTF_8),
            Encoding::Utf8Lossy => f.write_str(UTF_8_LOSSY),
            Encoding::Latin1 => f.write_str(LATIN_1),
            Encoding::Detect => f.write_str(DETECT),
            Encoding::Standard(encoding) => f.write_str(&encoding.name().to_ascii_lowercase()),
        }
    }
}

impl Serialize for Encoding {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Encoding {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_both_ways() {
        for name in names() {
            assert_eq!(name.parse::<Encoding>().unwrap().to_string(), name);
        }
        for (label, name) in [
            ("UTF8", "utf-8"),
            ("cp1252", "windows-1252"),
            ("Windows-1252", "windows-1252"),
            ("latin1", "windows-1252"),
            ("iso-8859-1", "windows-1252"),
            ("utf-16", "utf-16le"),
            ("sjis", "shift_jis"),
        ] {
            assert_eq!(label.parse::<Encoding>().unwrap().to_string(), name, "{label}");
        }
    }

    #[test]
    fn encodings_are_known_by_their_bytes() {
        let russian = b"<html><head><meta charset=\"koi8-r\"></head>\xC4\xC1";
        for (bytes, whole, expected) in [
            (&b"caf\xC3\xA9"[..], true, "utf-8"),
            (b"\xEF\xBB\xBFa", true, "utf-8"),
            (b"plain", true, "utf-8"),
            (b"caf\xC3", false, "utf-8"),
            (b"caf\xC3", true, "windows-1252"),
            (b"\xE9\n\xC3\xA9\n\xC3\xA9\n", true, "utf-8"),
            (b"caf\xE9 \x93x\x94", true, "windows-1252"),
            (b"\xFF\xFEa\0", true, "utf-16le"),
            (b"\xFE\xFF\0a", true, "utf-16be"),
            (b"", true, "utf-8"),
            (russian, true, "koi8-r"),
            (&russian[1..], true, "windows-1252"),
            (b"<?xml version='1.0' encoding='ISO-8859-2'?>\xE9", true, "iso-8859-2"),
            (b"<meta charset=utf-16>\xE9", true, "windows-1252"),
        ] {
            assert_eq!(Encoding::detected(bytes, whole).to_string(), expected, "{bytes:?}");
        }
    }
}
