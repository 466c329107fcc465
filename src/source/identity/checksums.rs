//! Checksums of source files, computed from the bytes that a session reads anyway. The checksum of a Parquet file covers the columns that
//! the job needs and the footer. The checksum of another file covers all stored bytes.

use std::collections::BTreeMap;
use std::sync::Arc;

use crc32fast::Hasher;
use datafusion::prelude::SessionConfig;
use futures::TryStreamExt;
use futures::stream::StreamExt;
use parking_lot::Mutex;

use crate::job::ReadRanges;
use crate::source::file::SourceFile;
use crate::source::reading::bytes::Chunks;

/// The checksums of the bytes that a session has read. All configurations of a session share them.
#[derive(Debug, Default)]
pub(crate) struct Checksums(Mutex<Ranges>);

/// (path, size, modification time) of a file -> start of a range -> (length of the range, CRC-32).
type Ranges = BTreeMap<(String, u64, i64), BTreeMap<u64, (u64, u32)>>;

impl Checksums {
    /// Returns `config` with new checksums.
    pub(crate) fn begin(config: SessionConfig) -> SessionConfig {
        config.with_extension(Arc::new(Checksums::default()))
    }

    /// Returns the checksums of the session if it computes them.
    pub(in crate::source) fn find(config: &SessionConfig) -> Option<Arc<Self>> {
        config.get_extension::<Self>()
    }

    /// Removes and returns the checksums that were added since the last call, sorted by path.
    pub(crate) fn take(config: &SessionConfig) -> Vec<ReadRanges> {
        let taken = Self::find(config).map(|checksums| std::mem::take(&mut *checksums.0.lock()));
        let record = |((path, bytes, modified), ranges): (_, BTreeMap<u64, (u64, u32)>)| ReadRanges {
            path,
            bytes,
            modified,
            ranges: ranges.into_iter().map(|(start, (length, crc32))| (start, length, crc32)).collect(),
        };
        taken.unwrap_or_default().into_iter().map(record).collect()
    }

    pub(in crate::source) fn add(&self, file: &SourceFile, start: u64, bytes: &[u8]) {
        self.add_range(file, start, bytes.len() as u64, crc32fast::hash(bytes));
    }

    fn add_range(&self, file: &SourceFile, start: u64, length: u64, crc32: u32) {
        let mut ranges = self.0.lock();
        let ranges = ranges.entry((file.path.to_string(), file.pin.size, file.pin.modified)).or_default();
        ranges.insert(start, (length, crc32));
    }

    /// Passes on `bytes`, the whole content of `file`. Adds the checksum of these bytes at the end of the stream.
    pub(in crate::source) fn add_stream(self: Arc<Self>, bytes: Chunks, file: &Arc<SourceFile>) -> Chunks {
        let file = Arc::clone(file);
        let (mut hasher, mut read) = (Hasher::new(), 0);
        let counted = bytes.inspect_ok(move |chunk| {
            hasher.update(chunk);
            read += chunk.len() as u64;
            if read == file.pin.size && !chunk.is_empty() {
                self.add_range(&file, 0, read, hasher.clone().finalize());
            }
        });
        counted.boxed()
    }
}

/// Returns the CRC-32 of consecutive ranges in ascending order, and the total number of their bytes.
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
