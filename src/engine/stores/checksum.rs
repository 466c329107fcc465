//! The checksum that S3 keeps of a whole object, compared with the bytes that came.
//!
//! S3 sends it with the answer to a GET of a whole object if the request asks for it, and never with a range.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use crc_fast::{CrcAlgorithm, Digest};
use http::HeaderMap;

/// The header, and its value, of a request for the checksum.
pub(super) const MODE: (&str, &str) = ("x-amz-checksum-mode", "ENABLED");
/// The user metadata of an object in which the client library passes the checksum on.
pub(super) const METADATA: &str = "resemblance-checksum";
const METADATA_HEADER: &str = "x-amz-meta-resemblance-checksum";

/// The checksums of S3 by their headers, each with its bytes and its algorithm.
const ALGORITHMS: [(&str, usize, CrcAlgorithm); 3] = [
    ("x-amz-checksum-crc64nvme", 8, CrcAlgorithm::Crc64Nvme),
    ("x-amz-checksum-crc32c", 4, CrcAlgorithm::Crc32Iscsi),
    ("x-amz-checksum-crc32", 4, CrcAlgorithm::Crc32IsoHdlc),
];

/// The checksum of an object, and that of its bytes so far.
#[derive(Debug)]
pub(super) struct Checksum {
    expected: String,
    bytes: usize,
    digest: Digest,
}

impl Checksum {
    /// The checksum in the metadata of an answer.
    pub(super) fn of(metadata: &str) -> Option<Self> {
        let (header, expected) = metadata.split_once(' ')?;
        let (_, bytes, algorithm) = ALGORITHMS.into_iter().find(|(name, ..)| *name == header)?;
        Some(Self { expected: expected.to_owned(), bytes, digest: Digest::new(algorithm) })
    }

    /// Adds the bytes that follow.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.digest.update(bytes);
    }

    /// Whether the bytes so far have the checksum of the whole object, which S3 writes as base64 of its bytes, highest first.
    pub(super) fn is_right(&self) -> bool {
        BASE64.encode(&self.digest.finalize().to_be_bytes()[8 - self.bytes..]) == self.expected
    }
}

/// Replaces the checksum of a whole object in the headers by metadata that the client library passes on, and removes
/// any other value.
pub(super) fn hand_on(headers: &mut HeaderMap) {
    headers.remove(METADATA_HEADER);
    let found = ALGORITHMS.iter().find_map(|(header, ..)| {
        let value = headers.get(*header)?.to_str().ok()?;
        // The checksum of an object that was uploaded in parts may be that of the parts' checksums: a hyphen precedes their number.
        (!value.contains('-')).then(|| format!("{header} {value}"))
    });
    if let Some(value) = found.and_then(|found| found.parse().ok()) {
        headers.insert(METADATA_HEADER, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn checksum(algorithm: usize, expected: &str) -> Checksum {
        Checksum::of(&format!("{} {expected}", ALGORITHMS[algorithm].0)).unwrap()
    }

    /// The check values of the catalogue of CRC algorithms, and those of no bytes.
    #[test]
    fn the_checksums_are_those_that_are_published() {
        for (i, value) in [0xae8b_1486_0a79_9888_u64, 0xe306_9283, 0xcbf4_3926].into_iter().enumerate() {
            let expected = BASE64.encode(&value.to_be_bytes()[8 - ALGORITHMS[i].1..]);
            let mut of_digits = checksum(i, &expected);
            assert!(!of_digits.is_right());
            of_digits.update(b"123456789");
            assert!(of_digits.is_right(), "{}", ALGORITHMS[i].0);
        }
        assert!(checksum(0, "AAAAAAAAAAA=").is_right());
        assert!(checksum(2, "AAAAAA==").is_right());
        assert!(Checksum::of("x-amz-checksum-sha256 abc").is_none());
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(bytes in prop::collection::vec(any::<u8>(), 0..100), cut in 0..100_usize) {
            let mut of_pieces = checksum(2, &BASE64.encode(crc32fast::hash(&bytes).to_be_bytes()));
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            of_pieces.update(first);
            of_pieces.update(second);
            prop_assert!(of_pieces.is_right());
        }
    }

    #[test]
    fn checksums_of_parts_and_metadata_of_users_are_ignored() {
        let mut headers = HeaderMap::new();
        headers.insert(METADATA_HEADER, "x-amz-checksum-crc32 AAAAAA==".parse().unwrap());
        headers.insert("x-amz-checksum-crc32", "AAAAAA==-3".parse().unwrap());
        hand_on(&mut headers);
        assert!(headers.get(METADATA_HEADER).is_none());
        headers.insert("x-amz-checksum-crc32c", "AAAAAA==".parse().unwrap());
        hand_on(&mut headers);
        assert_eq!(headers[METADATA_HEADER], "x-amz-checksum-crc32c AAAAAA==");
    }
}
