//! Steps that treat each character by itself.

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// Appends `f` of each byte of `text`; both are ASCII.
fn map_ascii(text: &str, out: &mut String, f: impl Fn(u8) -> u8) {
    let mut bytes = std::mem::take(out).into_bytes();
    bytes.extend(text.bytes().map(f));
    restore(out, bytes);
}

/// Turns the bytes back into text. The check costs less than a tenth of the pass that wrote them.
pub(super) fn restore(out: &mut String, bytes: Vec<u8>) {
    match String::from_utf8(bytes) {
        Ok(text) => *out = text,
        Err(error) => *out = String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// [`str::to_lowercase`], into a buffer.
pub(super) fn lowercase(text: &str, out: &mut String) {
    if text.is_ascii() {
        let from = out.len();
        out.push_str(text);
        out[from..].make_ascii_lowercase();
    } else if text.contains('Σ') {
        // Its lower case depends on its place in the word.
        out.push_str(&text.to_lowercase());
    } else {
        out.extend(text.chars().flat_map(char::to_lowercase));
    }
}

/// Appends the characters of `text` that stay.
pub(super) fn keep(
    text: &str,
    out: &mut String,
    byte_stays: impl Fn(u8) -> bool,
    stays: impl Fn(char) -> bool,
) {
    if text.is_ascii() {
        let mut bytes = std::mem::take(out).into_bytes();
        bytes.extend(text.bytes().filter(|&byte| byte_stays(byte)));
        restore(out, bytes);
    } else {
        out.extend(text.chars().filter(|&c| stays(c)));
    }
}

pub(super) fn underscores(
    text: &str,
    out: &mut String,
    byte_goes: impl Fn(u8) -> bool,
    goes: impl Fn(char) -> bool,
) {
    if text.is_ascii() {
        map_ascii(text, out, |byte| if byte_goes(byte) { b'_' } else { byte });
    } else {
        out.extend(text.chars().map(|c| if goes(c) { '_' } else { c }));
    }
}

pub(super) fn nfkc(text: &str, out: &mut String) {
    // The quick check may answer "maybe": then the whole text is normalised.
    if text.is_ascii() || is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        out.push_str(text);
    } else {
        out.extend(text.nfkc());
    }
}
