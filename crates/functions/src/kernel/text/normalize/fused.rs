//! Steps that look at one byte of ASCII at a time, in one pass.

use super::characters::restore;
use crate::kernel::vector::{self, Kernel};

/// What happens to the bytes of an ASCII text.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Fused {
    /// Letters become lower case.
    pub(super) lower: bool,
    /// Everything else than letters becomes a space.
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
    /// Without branches, and with the settings as masks: a loop that asks for a setting at each byte is not turned into
    /// vector instructions.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::text::words::is_white;

    /// Every byte of ASCII, under all settings, in texts of several lengths.
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
