//! `set_hash(shingles, half)`: the identity of a shingle set.

use arrow::datatypes::ToByteSlice;
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// One half of a 128-bit hash of a sorted set: XXH3 seeded with `half` over the little-endian bytes.
///
/// Two different sets agree in both halves with a probability of 2^-128.
pub(crate) fn set_hash(shingles: &[u64], half: u64) -> u64 {
    if cfg!(target_endian = "little") {
        // As they lie in memory.
        return xxh3_64_with_seed(shingles.to_byte_slice(), half);
    }
    let mut hasher = Xxh3::with_seed(half);
    for shingle in shingles {
        hasher.update(&shingle.to_le_bytes());
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_two_hashes_of_the_bytes() {
        let bytes: Vec<u8> = [1_u64, 2, u64::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
        for half in [0, 1] {
            assert_eq!(set_hash(&[1, 2, u64::MAX], half), xxh3_64_with_seed(&bytes, half));
        }
        assert_ne!(set_hash(&[1, 2], 0), set_hash(&[1, 2], 1));
    }
}
