//! `lsh_bands(signature, bands, rows)`: the bucket of a signature in each band. Documents that share a bucket are candidates. Two sets with
//! Jaccard similarity J share a bucket with probability `1 - (1 - J^r)^b` (Leskovec, Rajaraman and Ullman, *Mining of Massive Datasets*,
//! section 3.4).
//!
//! Band i consists of the r values `i*r..(i+1)*r` of the signature. Its bucket is a 64-bit number. This definition never changes, because
//! stored buckets are compared with later buckets:
//!
//! | hash | bucket |
//! |---|---|
//! | `xxh3` | XXH3-64, with seed i, of the values as 4 bytes each, or 2 if they have 16 bits, little endian |
//! | `crc32` | i * 2^32 + CRC-32 (IEEE) of the values in decimal, joined by `_`, as in `15_355_89_2` |
//! | `crc32-tuple` | the same, of the values as Python prints a tuple, as in `(15, 355, 89, 2)` and `(15,)` |
//!
//! A bucket also identifies its band, because equal values in two bands give two buckets. If `table_size` is set, all bands share a table:
//! the bucket is the hash modulo `table_size`, and the CRC-32 hashes omit the term i * 2^32. Different bands then share buckets by chance,
//! which adds candidates.

use std::io::Write;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::kernel::signature::Signature;

/// The settings for buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buckets {
    /// The number of bands, b.
    pub bands: usize,
    /// The number of values in a band, r.
    pub rows: usize,
    /// The hash of a band.
    pub hash: BucketHash,
    /// The number of buckets in the table that all bands share; `None` if each band has its own table.
    pub table_size: Option<u64>,
}

/// The hash that turns the values of a band into a bucket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BucketHash {
    /// XXH3 with 64 bits. The seed is the number of the band.
    #[default]
    Xxh3,
    /// CRC-32 (IEEE) of the values in decimal, joined by `_`.
    Crc32,
    /// CRC-32 (IEEE) of the values, written as Python prints a tuple.
    Crc32Tuple,
}

/// Appends the buckets of `signature` to `out`, one per band, in the order of the bands. Returns `None` and appends nothing if the
/// signature has fewer than `bands * rows` values, or if `rows` or `table_size` is 0.
pub fn lsh_bands(signature: Signature<'_>, by: Buckets, out: &mut Vec<u64>) -> Option<()> {
    let used = by.bands.checked_mul(by.rows)?;
    if by.rows == 0 || by.table_size == Some(0) {
        return None;
    }
    match signature {
        Signature::Of32(values) => {
            let bytes = |band: &[u32], bytes: &mut Vec<u8>| {
                bytes.extend(band.iter().flat_map(|value| value.to_le_bytes()));
            };
            buckets(values.get(..used)?, by, bytes, |&value| value, out);
        }
        Signature::Of16(values) => {
            let bytes = |band: &[[u8; 2]], bytes: &mut Vec<u8>| bytes.extend_from_slice(band.as_flattened());
            buckets(values.get(..used)?, by, bytes, |&value| u16::from_le_bytes(value).into(), out);
        }
    }
    Some(())
}

/// Appends one bucket per band of `values`. `bytes` appends the bytes of a band to a buffer, and `number` converts a value to a number.
fn buckets<T>(
    values: &[T],
    by: Buckets,
    bytes: impl Fn(&[T], &mut Vec<u8>),
    number: impl Fn(&T) -> u32,
    out: &mut Vec<u64>,
) {
    let Buckets { rows, hash, table_size, .. } = by;
    let mut hashed = Vec::with_capacity(4 * rows);
    out.extend(values.chunks_exact(rows).zip(0..).map(|(band, at)| {
        hashed.clear();
        match hash {
            BucketHash::Xxh3 => {
                bytes(band, &mut hashed);
                let bucket = xxh3_64_with_seed(&hashed, at);
                table_size.map_or(bucket, |size| bucket % size)
            }
            BucketHash::Crc32 | BucketHash::Crc32Tuple => {
                let around = match hash {
                    BucketHash::Crc32Tuple if rows == 1 => ["(", ", ", ",)"],
                    BucketHash::Crc32Tuple => ["(", ", ", ")"],
                    _ => ["", "_", ""],
                };
                let bucket = crc32_of(band.iter().map(&number), around, &mut hashed);
                table_size.map_or((at << 32) + bucket, |size| bucket % size)
            }
        }
    }));
}

/// Returns the CRC-32 of the values in decimal, with the given texts before, between and after the values. `bytes` is a buffer.
fn crc32_of(
    band: impl Iterator<Item = u32>,
    [before, between, after]: [&str; 3],
    bytes: &mut Vec<u8>,
) -> u64 {
    for (at, value) in band.enumerate() {
        let joint = if at == 0 { before } else { between };
        // Writing to a vector does not fail.
        let _ = write!(bytes, "{joint}{value}");
    }
    bytes.extend_from_slice(after.as_bytes());
    crc32fast::hash(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNATURE: [u32; 6] = [1, 2, 3, 4, 5, u32::MAX];

    fn buckets(signature: &[u32], bands: usize, rows: usize) -> Option<Vec<u64>> {
        buckets_by(signature, Buckets { bands, rows, hash: BucketHash::Xxh3, table_size: None })
    }

    fn buckets_by(signature: &[u32], by: Buckets) -> Option<Vec<u64>> {
        let mut out = Vec::new();
        lsh_bands(Signature::Of32(signature), by, &mut out).map(|()| out)
    }

    /// The expected values were computed with the reference implementation of XXH3 (Python's `xxhash`).
    #[test]
    fn known_buckets() {
        assert_eq!(buckets(&[7, 7], 1, 1).unwrap(), [6318062648460624204]);
        assert_eq!(buckets(&[7, 7], 2, 1).unwrap(), [6318062648460624204, 1109957299823292354]);
        // The last value was computed with the reference implementation of XXH3, and all other values with Python's `zlib.crc32`.
        let crc32 = Buckets { bands: 3, rows: 2, hash: BucketHash::Crc32, table_size: None };
        assert_eq!(buckets_by(&SIGNATURE, crc32).unwrap(), [790382254, 7616542709, 11347168932]);
        let query = Buckets { bands: 1, rows: 4, ..crc32 };
        assert_eq!(buckets_by(&[15, 355, 89, 2], query).unwrap(), [1433332942]);
        let tuple = Buckets { hash: BucketHash::Crc32Tuple, ..crc32 };
        assert_eq!(buckets_by(&SIGNATURE, tuple).unwrap(), [3138858421, 6837623123, 11081180940]);
        let found = buckets_by(&[7, 8], Buckets { bands: 2, rows: 1, ..tuple }).unwrap();
        assert_eq!(found, [509958170, 4651032359]);
        let table = Buckets { table_size: Some(20_000), ..crc32 };
        assert_eq!(buckets_by(&SIGNATURE, table).unwrap(), [2254, 15413, 14340]);
        let table = Buckets { hash: BucketHash::Xxh3, ..table };
        assert_eq!(buckets_by(&SIGNATURE, table).unwrap(), [9552, 630, 10441]);
        assert_eq!(buckets_by(&SIGNATURE, Buckets { table_size: Some(0), ..crc32 }), None);
    }

    #[test]
    fn values_past_the_bands_are_not_used() {
        assert_eq!(buckets(&SIGNATURE, 2, 2), buckets(&SIGNATURE[..4], 2, 2));
        assert_eq!(buckets(&SIGNATURE, 7, 1), None);
        assert_eq!(buckets(&SIGNATURE, 1, 0), None);
        assert_eq!(buckets(&SIGNATURE, usize::MAX, 2), None);
    }
}
