//! The size and checksum of a file, as a manifest has them, and the writer of an object store.

use std::sync::Arc;

use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path;

/// The bytes of one part of an upload, and how many parts may be sent at the same time.
pub(super) const PUT_BYTES: usize = 8 << 20;
const PUTS: usize = 2;

/// A writer of the object at `path`, in parts.
pub(super) fn writer(store: &Arc<dyn ObjectStore>, path: Path) -> BufWriter {
    BufWriter::with_capacity(Arc::clone(store), path, PUT_BYTES).with_max_concurrency(PUTS)
}

/// The number of bytes and their CRC-32 (IEEE).
#[derive(Debug, Clone, Default)]
pub(crate) struct Digest {
    bytes: u64,
    crc32: crc32fast::Hasher,
}

impl Digest {
    /// Adds the bytes that follow.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc32.update(bytes);
    }

    /// The number of bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of bytes and the checksum.
    pub(crate) fn end(self) -> (u64, u32) {
        (self.bytes, self.crc32.finalize())
    }
}
