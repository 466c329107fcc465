//! The normalisation steps on single characters and on runs of characters.

use icu_normalizer::ComposingNormalizerBorrowed;

use crate::kernel::shingle::Words;
use crate::kernel::text::words::{each_word, is_white, non_ascii};
use crate::kernel::vector::{self, Kernel};

/// Applies `f` to each byte of `text`, and appends the results to `out`. Both `text` and the results are ASCII.
fn map_ascii(text: &str, out: &mut String, f: impl Fn(u8) -> u8) {
    let mut bytes = std::mem::take(out).into_bytes();
    bytes.extend(text.bytes().map(f));
    restore(out, bytes);
}

/// Stores `bytes` in `out` as a text. The UTF-8 check takes less than a tenth of the time of the pass that wrote the bytes.
pub(super) fn restore(out: &mut String, bytes: Vec<u8>) {
    match String::from_utf8(bytes) {
        Ok(text) => *out = text,
        Err(error) => *out = String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }
}

/// Converts a text to lower case like [`str::to_lowercase`], but appends the result to a buffer.
pub(super) fn lowercase(text: &str, out: &mut String) {
    if text.is_ascii() || !text.contains('Σ') {
        return lowercase_characters(text, out);
    }
    // The lower case of a sigma depends only on the characters up to the next space on each side.
    for word in text.split_inclusive(' ') {
        if word.contains('Σ') {
            out.push_str(&word.to_lowercase());
        } else {
            lowercase_characters(word, out);
        }
    }
}

/// Converts a text without sigmas. Most characters outside ASCII do not change and are copied with the ASCII around them.
fn lowercase_characters(text: &str, out: &mut String) {
    let lowercase_ascii = |text: &str, out: &mut String| {
        let start = out.len();
        out.push_str(text);
        out[start..].make_ascii_lowercase();
    };
    let mut done = 0;
    for (at, c) in non_ascii(text) {
        if c.to_lowercase().ne([c]) {
            lowercase_ascii(&text[done..at], out);
            out.extend(c.to_lowercase());
            done = at + c.len_utf8();
        }
    }
    lowercase_ascii(&text[done..], out);
}

/// Appends the characters in `text` for which `stays` is true. `byte_stays` is the same predicate for ASCII.
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
    if text.is_ascii() {
        out.push_str(text);
    } else {
        // Writing to a string does not fail.
        let _ = ComposingNormalizerBorrowed::new_nfkc().normalize_to(text, out);
    }
}

/// Whether the text so far ends in characters that became a space.
#[derive(Debug, Default)]
pub(super) struct Gap(bool);

impl Gap {
    /// Replaces every run of characters for which `stays` is false by one space. `byte_stays` is the same predicate for ASCII, and must be
    /// false for the space.
    pub(super) fn squeeze(
        &mut self,
        text: &str,
        out: &mut String,
        byte_stays: impl Fn(u8) -> bool,
        stays: impl Fn(char) -> bool,
    ) {
        let squeezed = |byte: u8| if byte_stays(byte) || !byte.is_ascii() { byte } else { b' ' };
        let mut bytes = std::mem::take(out).into_bytes();
        let mut done = 0;
        for (at, c) in non_ascii(text).filter(|&(_, c)| !stays(c)) {
            if !squeeze_bytes(&text[done..at], &mut bytes, squeezed, self.0) {
                bytes.push(b' ');
            }
            self.0 = true;
            done = at + c.len_utf8();
        }
        self.0 = squeeze_bytes(&text[done..], &mut bytes, squeezed, self.0);
        restore(out, bytes);
    }
}

/// The state of `collapse-whitespace` after the pieces so far.
#[derive(Debug, Default)]
pub(super) struct Collapse {
    /// Whether a character other than white space was written.
    begun: bool,
    /// Whether white space follows the last character that was written.
    pending: bool,
}

impl Collapse {
    /// Replaces every run of white space by one space, and removes white space at the ends.
    pub(super) fn collapse(&mut self, text: &str, out: &mut String) {
        let mut bytes = std::mem::take(out).into_bytes();
        let mut done = 0;
        for (at, c) in non_ascii(text).filter(|(_, c)| c.is_whitespace()) {
            self.collapse_bytes(&text[done..at], &mut bytes);
            self.pending = true;
            done = at + c.len_utf8();
        }
        self.collapse_bytes(&text[done..], &mut bytes);
        restore(out, bytes);
    }

    /// Collapses a text whose white space is ASCII. Writes a space at the start of each run of white space, and removes the last space if
    /// no other character follows.
    fn collapse_bytes(&mut self, text: &str, out: &mut Vec<u8>) {
        let start = out.len();
        if self.pending && self.begun {
            out.push(b' ');
        }
        let space = |byte| if is_white(byte) { b' ' } else { byte };
        let white = squeeze_bytes(text, out, space, self.pending || !self.begun);
        if white && out.len() > start {
            out.pop();
        }
        self.pending = white;
        self.begun |= out.len() > start;
    }
}

/// Applies `f` to each byte of `text`, and appends the results with each run of spaces reduced to one space. With `after_space`, spaces at
/// the start are dropped. Returns whether the last result was a space. Most stretches of bytes contain no two consecutive spaces and are
/// copied as a whole. A decision for each byte takes twice as long.
fn squeeze_bytes(text: &str, bytes: &mut Vec<u8>, f: impl Fn(u8) -> u8, mut after_space: bool) -> bool {
    const STRETCH: usize = 16;
    let mut end = bytes.len();
    let mut at = end;
    bytes.extend(text.bytes().map(f));
    while at < bytes.len() {
        let next = bytes.len().min(at + STRETCH);
        let doubled = after_space && bytes[at] == b' ' || has_two_spaces(&bytes[at..next]);
        if !doubled {
            after_space = bytes[next - 1] == b' ';
            bytes.copy_within(at..next, end);
            end += next - at;
        } else {
            for at in at..next {
                let byte = bytes[at];
                bytes[end] = byte;
                end += usize::from(!(after_space && byte == b' '));
                after_space = byte == b' ';
            }
        }
        at = next;
    }
    bytes.truncate(end);
    after_space
}

/// Returns whether two consecutive bytes are spaces. The loop has no early return, so that the compiler vectorises it.
fn has_two_spaces(bytes: &[u8]) -> bool {
    bytes.iter().zip(&bytes[1..]).fold(false, |found, (&a, &b)| found | (a == b' ') & (b == b' '))
}

/// Steps on single ASCII bytes that are applied in one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Fused {
    pub(super) lower: bool,
    /// Every byte except letters becomes a space.
    pub(super) letters: bool,
    /// White space becomes a space.
    pub(super) spaces: bool,
}

impl Fused {
    /// Appends the result for `text`, which is ASCII.
    pub(super) fn apply(self, text: &str, out: &mut String) {
        let mut bytes = std::mem::take(out).into_bytes();
        let start = bytes.len();
        bytes.extend_from_slice(text.as_bytes());
        vector::widest(FusedPass { fused: self, bytes: &mut bytes[start..] });
        restore(out, bytes);
    }
}

struct FusedPass<'a> {
    fused: Fused,
    bytes: &'a mut [u8],
}

impl Kernel for FusedPass<'_> {
    /// Uses masks for the settings. The compiler vectorises only a loop without branches.
    #[inline(always)]
    fn run(self) {
        let mask = |set: bool| if set { u8::MAX } else { 0 };
        let Fused { lower, letters, spaces } = self.fused;
        let (lower, letters, spaces) = (mask(lower) & 0x20, mask(letters), mask(spaces));
        for byte in self.bytes {
            let letter = mask((*byte | 0x20).wrapping_sub(b'a') < 26);
            let white = mask((*byte == b' ') | (byte.wrapping_sub(b'\t') < 5));
            let blank = (letters & !letter) | (spaces & white);
            *byte = (b' ' & blank) | ((*byte | (lower & letter)) & !blank);
        }
    }
}

/// Appends `text` without the words for which `leaves` is true. The characters around these words are kept.
pub(super) fn without(text: &str, words: Words, out: &mut String, mut leaves: impl FnMut(&str) -> bool) {
    let mut copied = 0;
    each_word(text, words, |word| {
        if leaves(&text[word.clone()]) {
            out.push_str(&text[copied..word.start]);
            copied = word.end;
        }
    });
    out.push_str(&text[copied..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_mapped_as_the_steps_say() {
        for settings in 0..8 {
            let [lower, letters, spaces] = [1, 2, 4].map(|bit| settings & bit != 0);
            let fused = Fused { lower, letters, spaces };
            let of = |byte: u8| match byte {
                b if b.is_ascii_alphabetic() && lower => b.to_ascii_lowercase(),
                b if letters && !b.is_ascii_alphabetic() || spaces && is_white(b) => b' ',
                b => b,
            };
            for length in [0_usize, 1, 63, 64, 200] {
                let text: String = (0..length).map(|at| char::from((at * 3 % 128) as u8)).collect();
                let mut out = "before".to_owned();
                fused.apply(&text, &mut out);
                let expected: String = text.bytes().map(|byte| char::from(of(byte))).collect();
                assert_eq!(out, format!("before{expected}"), "{fused:?}");
            }
        }
    }
}
