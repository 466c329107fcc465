//! Checksums of source files, which a session computes of the bytes that it reads anyway.
//!
//! Of a Parquet file these are the columns that the job needs, and the footer; of another file all bytes as they are stored.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crc32fast::Hasher;
use datafusion::prelude::SessionConfig;
use futures::TryStreamExt;
use futures::stream::StreamExt;

use super::bytes::Chunks;
use super::parser::FileToParse;
use super::pin::Pin;
use crate::job::ReadRanges;

/// The checksums of what a session has read. All configurations of a session share them.
#[derive(Debug, Default)]
pub(crate) struct Checksums(Mutex<Ranges>);

/// For each file by its path, size and time: the number of bytes and the CRC-32 of each range, by its first byte.
type Ranges = BTreeMap<(String, u64, i64), BTreeMap<u64, (u64, u32)>>;

impl Checksums {
    /// `config` with checksums of its own.
    pub(crate) fn begin(config: SessionConfig) -> SessionConfig {
        config.with_extension(Arc::new(Checksums::default()))
    }

    /// Those of a session; `None` if it keeps none.
    pub(super) fn of(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension::<Self>()
    }

    /// What was read since the last call, sorted by path.
    pub(crate) fn take(config: &SessionConfig) -> Vec<ReadRanges> {
        let taken = Self::of(config).map(|checksums| std::mem::take(&mut *checksums.lock()));
        let record = |((path, bytes, modified), ranges): (_, BTreeMap<u64, (u64, u32)>)| ReadRanges {
            path,
            bytes,
            modified,
            ranges: ranges.into_iter().map(|(start, (length, crc32))| (start, length, crc32)).collect(),
        };
        taken.unwrap_or_default().into_iter().map(record).collect()
    }

    /// Adds `length` bytes from `start` on, of the file at `path` as it was when it was listed.
    pub(super) fn add(&self, path: &str, pin: &Pin, (start, length): (u64, u64), crc32: u32) {
        let mut ranges = self.lock();
        let file = ranges.entry((path.to_owned(), pin.size, pin.modified)).or_default();
        file.insert(start, (length, crc32));
    }

    /// The bytes of `file`, whose checksum is kept when the last of them was read.
    pub(super) fn of_stream(self: Arc<Self>, bytes: Chunks, file: &FileToParse) -> Chunks {
        let (path, pin) = (Arc::clone(&file.source), file.pin.clone());
        let (mut hasher, mut read) = (Hasher::new(), 0);
        let counted = bytes.inspect_ok(move |chunk| {
            hasher.update(chunk);
            read += chunk.len() as u64;
            if read == pin.size && !chunk.is_empty() {
                self.add(&path, &pin, (0, read), hasher.clone().finalize());
            }
        });
        counted.boxed()
    }

    fn lock(&self) -> MutexGuard<'_, Ranges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The CRC-32 of ranges one after the other, in the order of their first bytes, and the number of their bytes.
pub(crate) fn checksum_of(ranges: &BTreeMap<u64, (u64, u32)>) -> (u32, u64) {
    let (mut all, mut bytes) = (Hasher::new(), 0);
    for (length, crc32) in ranges.values() {
        all.combine(&Hasher::new_with_initial_len(*crc32, *length));
        bytes += length;
    }
    (all.finalize(), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_the_checksum_of_their_bytes() {
        let text = b"the cat sat on the mat";
        let range =
            |from: usize, to: usize| (from as u64, ((to - from) as u64, crc32fast::hash(&text[from..to])));
        let ranges = [range(9, 22), range(0, 4), range(4, 9)].into();
        assert_eq!(checksum_of(&ranges), (crc32fast::hash(text), 22));
        assert_eq!(checksum_of(&[range(3, 22)].into()), (crc32fast::hash(&text[3..]), 19));
    }
}
