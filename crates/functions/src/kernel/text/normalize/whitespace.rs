//! Steps that replace a run of characters by one space.

use super::characters::restore;
use crate::kernel::text::words::is_white;

/// Whether the text so far ends in characters that are removed.
#[derive(Debug, Default)]
pub(super) struct Gap(bool);

impl Gap {
    /// Replaces every run of characters that are removed by one space. `byte_stays` is the same predicate for ASCII,
    /// and false for the space.
    pub(super) fn squeeze(
        &mut self,
        text: &str,
        out: &mut String,
        byte_stays: impl Fn(u8) -> bool,
        stays: impl Fn(char) -> bool,
    ) {
        if text.is_ascii() {
            let squeezed = |byte: u8| if byte_stays(byte) { byte } else { b' ' };
            self.0 = squeeze_ascii(text, out, squeezed, self.0);
            return;
        }
        for c in text.chars() {
            if stays(c) {
                out.push(c);
                self.0 = false;
            } else if !self.0 {
                out.push(' ');
                self.0 = true;
            }
        }
    }
}

/// The state of a text between its pieces.
#[derive(Debug, Default)]
pub(super) struct Collapse {
    /// Something that is not white space was written.
    begun: bool,
    /// White space was read after that.
    pending: bool,
}

impl Collapse {
    /// Replaces every run of white space by one space, and removes it at the ends.
    pub(super) fn collapse(&mut self, text: &str, out: &mut String) {
        if text.is_ascii() {
            return self.collapse_ascii(text, out);
        }
        for c in text.chars() {
            if c.is_whitespace() {
                self.pending = true;
            } else {
                if self.pending && self.begun {
                    out.push(' ');
                }
                out.push(c);
                self.begun = true;
                self.pending = false;
            }
        }
    }

    /// Writes the space where the white space starts, and takes it back if nothing follows.
    fn collapse_ascii(&mut self, text: &str, out: &mut String) {
        let start = out.len();
        if self.pending && self.begun {
            out.push(' ');
        }
        let space = |byte| if is_white(byte) { b' ' } else { byte };
        let white = squeeze_ascii(text, out, space, self.pending || !self.begun);
        if white && out.len() > start {
            out.pop();
        }
        self.pending = white;
        self.begun |= out.len() > start;
    }
}

/// Appends `f` of each byte of `text`, and only the first of each run of spaces among them; no space of a run at the
/// start if `after_space`. ASCII in, ASCII out. Returns whether the last byte was a space.
///
/// Most stretches have no two spaces in a row and are copied whole: deciding byte by byte takes twice as long.
fn squeeze_ascii(text: &str, out: &mut String, f: impl Fn(u8) -> u8, mut after_space: bool) -> bool {
    const STRETCH: usize = 16;
    let mut bytes = std::mem::take(out).into_bytes();
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
    restore(out, bytes);
    after_space
}

/// Without an early return, so that the compiler makes SIMD code of it.
fn has_two_spaces(bytes: &[u8]) -> bool {
    bytes.iter().zip(&bytes[1..]).fold(false, |found, (&a, &b)| found | (a == b' ') & (b == b' '))
}
