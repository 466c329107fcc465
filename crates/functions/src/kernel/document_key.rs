//! `document_key(id)`: the 64-bit key that a document has inside the program.

use xxhash_rust::xxh3::xxh3_64;

/// The XXH3 hash of the id's UTF-8 bytes. Two ids have one key with a probability of 2^-64; a run detects such a pair
/// and reports it.
pub fn document_key(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with the reference implementation of XXH3 (Python's `xxhash`).
    #[test]
    fn reference_keys() {
        assert_eq!(document_key(""), 0x2d06_8005_38d3_94c2);
        assert_eq!(document_key("a"), 0xe6c6_32b6_1e96_4e1f);
        assert_eq!(document_key("5544"), 0x2351_4f7e_c7c3_59b8);
    }
}
