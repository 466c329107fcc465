//! The checksum that S3 keeps of a whole object, compared with the bytes that came.
//!
//! S3 sends it with the answer to a GET of a whole object if the request asks for it, and never with a range.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use http::HeaderMap;

/// The header, and its value, of a request for the checksum.
pub(super) const MODE: (&str, &str) = ("x-amz-checksum-mode", "ENABLED");
/// The user metadata of an object in which the client library passes the checksum on.
pub(super) const METADATA: &str = "resemblance-checksum";
const METADATA_HEADER: &str = "x-amz-meta-resemblance-checksum";

/// A cyclic redundancy check from the lowest bit on, which starts with all bits set and inverts them at the end.
#[derive(Debug)]
struct Algorithm {
    header: &'static str,
    /// Bytes of the checksum.
    width: usize,
    /// The contribution of a byte, by the number of bytes that follow it in a block of eight.
    tables: [[u64; 256]; 8],
}

static ALGORITHMS: [Algorithm; 3] = [
    Algorithm::new("x-amz-checksum-crc64nvme", 8, 0x9a6c_9329_ac4b_c9b5),
    Algorithm::new("x-amz-checksum-crc32c", 4, 0x82f6_3b78),
    Algorithm::new("x-amz-checksum-crc32", 4, 0xedb8_8320),
];

impl Algorithm {
    /// The algorithm of a polynomial whose lowest bit comes first.
    const fn new(header: &'static str, width: usize, polynomial: u64) -> Self {
        let mut tables = [[0; 256]; 8];
        let mut byte = 0;
        while byte < 256 {
            let (mut value, mut bit) = (byte as u64, 0);
            while bit < 8 {
                value = if value & 1 == 1 { value >> 1 ^ polynomial } else { value >> 1 };
                bit += 1;
            }
            tables[0][byte] = value;
            byte += 1;
        }
        let mut distance = 1;
        while distance < 8 {
            let mut byte = 0;
            while byte < 256 {
                let before = tables[distance - 1][byte];
                tables[distance][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
                byte += 1;
            }
            distance += 1;
        }
        Self { header, width, tables }
    }

    fn mask(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.width)
    }

    fn update(&self, mut value: u64, bytes: &[u8]) -> u64 {
        let mut blocks = bytes.chunks_exact(8);
        for block in &mut blocks {
            let block = block.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)) ^ value;
            value = block
                .to_le_bytes()
                .iter()
                .zip(self.tables.iter().rev())
                .fold(0, |value, (byte, table)| value ^ table[usize::from(*byte)]);
        }
        blocks.remainder().iter().fold(value, |value, byte| {
            value >> 8 ^ self.tables[0][((value ^ u64::from(*byte)) & 0xff) as usize]
        })
    }

    /// The value as S3 encodes it: the bytes, highest first, in base64.
    fn text(&self, value: u64) -> String {
        BASE64.encode(&(value ^ self.mask()).to_be_bytes()[8 - self.width..])
    }
}

/// The checksum of an object, and that of its bytes so far.
#[derive(Debug)]
pub(super) struct Checksum {
    algorithm: &'static Algorithm,
    expected: String,
    value: u64,
}

impl Checksum {
    /// The checksum in the metadata of an answer.
    pub(super) fn of(metadata: &str) -> Option<Self> {
        let (header, expected) = metadata.split_once(' ')?;
        let algorithm = ALGORITHMS.iter().find(|algorithm| algorithm.header == header)?;
        Some(Self { algorithm, expected: expected.to_owned(), value: algorithm.mask() })
    }

    /// Adds the bytes that follow.
    pub(super) fn update(&mut self, bytes: &[u8]) {
        self.value = self.algorithm.update(self.value, bytes);
    }

    /// Whether the bytes so far have the checksum of the whole object.
    pub(super) fn is_right(&self) -> bool {
        self.algorithm.text(self.value) == self.expected
    }
}

/// Replaces the checksum of a whole object in the headers by metadata that the client library passes on, and removes
/// any other value.
pub(super) fn hand_on(headers: &mut HeaderMap) {
    headers.remove(METADATA_HEADER);
    let found = ALGORITHMS.iter().find_map(|Algorithm { header, .. }| {
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
        Checksum::of(&format!("{} {expected}", ALGORITHMS[algorithm].header)).unwrap()
    }

    /// The check values of the catalogue of CRC algorithms, and those of no bytes.
    #[test]
    fn the_checksums_are_those_that_are_published() {
        for (i, value) in [0xae8b_1486_0a79_9888_u64, 0xe306_9283, 0xcbf4_3926].into_iter().enumerate() {
            let expected = BASE64.encode(&value.to_be_bytes()[8 - ALGORITHMS[i].width..]);
            let mut of_digits = checksum(i, &expected);
            assert!(!of_digits.is_right());
            of_digits.update(b"123456789");
            assert!(of_digits.is_right(), "{}", ALGORITHMS[i].header);
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
