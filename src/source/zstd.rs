//! Bytes of zstd, also with the long windows that `zstd --long` gives them.

use std::sync::Arc;

use async_compression::tokio::bufread::ZstdDecoder;
use async_compression::zstd::DParameter;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use futures::stream::{StreamExt, TryStreamExt};
use tokio::io::AsyncBufRead;

use super::chunks::Chunks;

/// The longest window that is read: 2 GiB, the longest that zstd writes.
const WINDOW_LOG: u32 = 31;
/// The longest window whose memory is not counted, as that of other buffers of an open file is not.
const SMALL_WINDOW: u64 = 8 << 20;
/// The bytes that a frame begins with.
const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// A decoder of one frame, with a window of any length.
pub(super) fn decoder<R: AsyncBufRead>(raw: R) -> ZstdDecoder<R> {
    ZstdDecoder::with_params(raw, &[DParameter::window_log_max(WINDOW_LOG)])
}

/// The decompressed `chunks` of the file at `path`, whose first frame has this window. Memory for a long one comes from `pool`
/// while it fills.
pub(super) fn within_memory(
    chunks: Chunks,
    window: Option<u64>,
    path: &str,
    pool: &Arc<dyn MemoryPool>,
) -> Chunks {
    let Some(window) = window.filter(|window| *window > SMALL_WINDOW) else { return chunks };
    let memory = MemoryConsumer::new(format!("the zstd window of {path}")).register(pool);
    let mut bytes = 0;
    let counted = chunks.and_then(move |chunk| {
        bytes += chunk.len() as u64;
        let held = usize::try_from(bytes.min(window)).unwrap_or(usize::MAX);
        std::future::ready(memory.try_resize(held).map(|()| chunk))
    });
    counted.boxed()
}

/// The window of a frame that begins with these bytes; `None` where none begins.
pub(super) fn window_of(bytes: &[u8]) -> Option<u64> {
    let [descriptor, rest @ ..] = bytes.strip_prefix(&MAGIC)? else { return None };
    if descriptor & 0x20 == 0 {
        let window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The window is the content, whose size follows the number of a dictionary.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = rest.get(dictionary..dictionary + (1 << (descriptor >> 6)))?;
    Some(size.iter().rev().fold(0, |size, byte| size << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use datafusion::error::DataFusionError;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};
    use futures::stream;

    use super::super::bytes::decompress;
    use super::*;

    /// A frame that says that its window is 2 to this power, as `zstd --long` writes it.
    fn frame(text: &[u8], log: u8) -> Vec<u8> {
        let mut stored = zstd::encode_all(text, 1).unwrap();
        stored[MAGIC.len() + 1] = (log - 10) << 3;
        stored
    }

    async fn read(stored: Vec<u8>, pool: &Arc<dyn MemoryPool>) -> Result<usize, DataFusionError> {
        let raw = stream::iter([Ok(Bytes::from(stored))]).boxed();
        decompress(raw, "a.zst", pool).try_fold(0, async |all, chunk| Ok(all + chunk.len())).await
    }

    #[test]
    fn windows_are_those_of_the_frames() {
        assert_eq!(window_of(&frame(b"text", 27)), Some(1 << 27));
        assert_eq!(window_of(&zstd::bulk::compress(&[0; 70_000], 1).unwrap()), Some(70_000));
        assert_eq!(window_of(b"text"), None);
    }

    #[tokio::test]
    async fn a_long_window_takes_memory_of_the_pool_and_a_short_one_does_not() {
        let unbounded: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let small: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let text = vec![b'x'; 4 << 20];
        assert_eq!(read(frame(&text, 31), &unbounded).await.unwrap(), text.len());
        assert_eq!(read(frame(&text, 23), &small).await.unwrap(), text.len());
        let error = read(frame(&text, 31), &small).await.unwrap_err();
        assert!(error.to_string().contains("the zstd window of a.zst"), "{error}");
    }
}
