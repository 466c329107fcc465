//! Hashes and pseudorandom numbers. Their definitions never change, because outputs store their values.

use arrow::datatypes::ToByteSlice;
use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_64_with_seed};

/// Returns the key of a document: the XXH3 hash of the id's UTF-8 bytes. Two ids have the same key with a probability of 2^-64. The program
/// detects and reports such a pair.
pub fn document_key(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

/// Returns one half of the 128-bit hash of a sorted set: the XXH3 hash of the little-endian bytes, seeded with `half`. Both halves of two
/// different sets are equal with a probability of 2^-128.
pub(crate) fn set_hash(shingles: &[u64], half: u64) -> u64 {
    if cfg!(target_endian = "little") {
        return xxh3_64_with_seed(shingles.to_byte_slice(), half);
    }
    let mut hasher = Xxh3::with_seed(half);
    for shingle in shingles {
        hasher.update(&shingle.to_le_bytes());
    }
    hasher.digest()
}

/// The generator splitmix64: figure 17 in Steele, Lea and Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014, with the
/// constants of Vigna's `splitmix64.c`. It produces the same numbers on every machine.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    /// Returns the next 64 bits.
    #[inline]
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would return an Option, and the numbers never end"
    )]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = self.0;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    #[inline]
    pub(crate) fn upper_half(&mut self) -> u32 {
        (self.next() >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected values were computed with the reference implementation of XXH3 (Python's `xxhash`).
    #[test]
    fn reference_keys() {
        assert_eq!(document_key(""), 0x2d06_8005_38d3_94c2);
        assert_eq!(document_key("a"), 0xe6c6_32b6_1e96_4e1f);
        assert_eq!(document_key("5544"), 0x2351_4f7e_c7c3_59b8);
    }

    #[test]
    fn halves_are_two_hashes_of_the_bytes() {
        let bytes: Vec<u8> = [1_u64, 2, u64::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
        for half in [0, 1] {
            assert_eq!(set_hash(&[1, 2, u64::MAX], half), xxh3_64_with_seed(&bytes, half));
        }
        assert_ne!(set_hash(&[1, 2], 0), set_hash(&[1, 2], 1));
    }
}
