//! Streams of the decompressed bytes of a file.
//!
//! The first bytes of a file tell how it is compressed. If they match no known format, the extension of its name does.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use async_compression::tokio::bufread::{BzDecoder, GzipDecoder, XzDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use bytes::{Bytes, BytesMut};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::{GetOptions, ObjectStore};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

use super::local_names::{LOCAL, local_path};
use super::parser::FileToParse;
use super::pin::Pin;
use crate::being_read::BeingRead;
use crate::error::{Context, Error, Result};

/// Bytes of a local file that are read at once.
const CHUNK_BYTES: usize = 256 * 1024;
/// The mark at the start of some text files.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Bytes that hold the mark of any compression.
const MARK_BYTES: usize = 10;

/// The compression of the file at `path`, by its extension.
pub(super) fn compression(path: &str) -> FileCompressionType {
    let ending = path.rsplit_once('.').and_then(|(_, ending)| ending.parse().ok());
    ending.unwrap_or(FileCompressionType::UNCOMPRESSED)
}

/// The compression of a file that begins with `bytes`; `None` if they are not the mark of any.
pub(super) fn marked_compression(bytes: &[u8]) -> Option<FileCompressionType> {
    match bytes {
        [0x1F, 0x8B, 8, ..] => Some(FileCompressionType::GZIP),
        // A frame, or one that decoders skip.
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Some(FileCompressionType::ZSTD),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', b'&', b'S', b'Y', ..] => {
            Some(FileCompressionType::BZIP2)
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some(FileCompressionType::XZ),
        _ => None,
    }
}

/// The bytes of `file`, decompressed. Only the store's own chunk is read ahead of the consumer.
pub(super) async fn decompressed(runtime: &RuntimeEnv, file: &FileToParse) -> Result<Chunks> {
    let store = runtime.object_store(ObjectStoreUrl::parse(&file.store)?)?;
    Ok(decompress(stored(store.as_ref(), file).await?, &file.source, &runtime.memory_pool))
}

/// Decompresses the bytes `raw` of the file at `path`. Memory for long windows comes from `pool`.
pub(super) fn decompress(mut raw: Chunks, path: &str, pool: &Arc<dyn MemoryPool>) -> Chunks {
    let (by_name, path, pool) = (compression(path), path.to_owned(), Arc::clone(pool));
    let opened = async move {
        let mut first = BytesMut::new();
        while first.len() < MARK_BYTES
            && let Some(chunk) = raw.try_next().await?
        {
            first.extend_from_slice(&chunk);
        }
        let compression = marked_compression(&first).unwrap_or(by_name);
        let window = window_of(&first);
        // An empty chunk would end the file.
        let first = (!first.is_empty()).then(|| Ok(first.freeze()));
        let raw = stream::iter(first).chain(raw).boxed();
        if compression == FileCompressionType::UNCOMPRESSED {
            return Ok(raw);
        }
        let raw = StreamReader::new(raw.map_err(io::Error::other));
        Ok::<_, DataFusionError>(match compression {
            FileCompressionType::GZIP => members(raw, GzipDecoder::new, GzipDecoder::into_inner),
            FileCompressionType::BZIP2 => members(raw, BzDecoder::new, BzDecoder::into_inner),
            FileCompressionType::XZ => members(raw, XzDecoder::new, XzDecoder::into_inner),
            _ => {
                let chunks = members(raw, decoder, ZstdDecoder::into_inner);
                within_memory(chunks, window, &path, &pool)
            }
        })
    };
    stream::once(opened).try_flatten().boxed()
}

/// Decompresses all members in `raw`. Parallel compressors write several members, and some writers begin with an empty one. Zeros
/// between and after members are padding, as in `gzip`.
fn members<R, D>(raw: R, begin: fn(R) -> D, end: fn(D) -> R) -> Chunks
where
    R: AsyncBufRead + Send + Unpin + 'static,
    D: AsyncRead + Send + Unpin + 'static,
{
    let state = (begin(raw), BytesMut::new());
    let chunks = stream::try_unfold(state, move |(mut decoder, mut buffer)| async move {
        loop {
            if buffer.capacity() == 0 {
                buffer.reserve(CHUNK_BYTES);
            }
            if decoder.read_buf(&mut buffer).await? > 0 {
                return Ok(Some((buffer.split().freeze(), (decoder, buffer))));
            }
            let mut raw = end(decoder);
            loop {
                let zeros = match raw.fill_buf().await? {
                    [] => return Ok::<_, io::Error>(None),
                    bytes => bytes.iter().take_while(|byte| **byte == 0).count(),
                };
                if zeros == 0 {
                    break;
                }
                raw.consume(zeros);
            }
            decoder = begin(raw);
        }
    });
    chunks.map_err(DataFusionError::from).boxed()
}

/// The bytes of `file` as they are stored.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read, or is no longer the file that was listed.
pub(super) async fn stored(store: &dyn ObjectStore, file: &FileToParse) -> Result<Chunks> {
    let failed = || format!("reading {} failed", file.source);
    let reading = BeingRead::begin(Arc::clone(&file.source));
    let bytes = if file.store == LOCAL {
        local(file).await?
    } else {
        let bytes = file.pin.get(store, GetOptions::default()).await.context(failed)?.into_stream();
        // `mark` polls again after the end, which some stores' streams do not allow.
        bytes.map_err(DataFusionError::from).fuse().boxed()
    };
    Ok(bytes.inspect(move |_| _ = &reading).boxed())
}

/// Reads a file of this machine without the engine's store, which cannot open names that end in `#` and digits, and reads
/// 8 KiB at once.
async fn local(file: &FileToParse) -> Result<Chunks> {
    let failed = |source: &str| format!("reading {source} failed");
    let Some(path) = local_path(&file.pin.location) else {
        return Err(Error::bug(format!("{} is not a path on this machine", file.source)));
    };
    let (source, pin) = (Arc::clone(&file.source), file.pin.clone());
    let opened = blocking(move || {
        let opened = File::open(path)?;
        pin.check_open(&opened.metadata()?)?;
        Ok(LocalFile { opened, pin, read: 0 })
    });
    let opened = opened.await.context(|| failed(&source))?;
    let chunks = stream::try_unfold((opened, source), move |(file, source)| async move {
        let (chunk, file) = blocking(|| file.chunk()).await.context(|| failed(&source))?;
        Ok((!chunk.is_empty()).then_some((chunk, (file, source))))
    });
    Ok(chunks.boxed())
}

/// An open file of this machine.
struct LocalFile {
    opened: File,
    pin: Pin,
    /// Bytes that were read.
    read: u64,
}

impl LocalFile {
    /// The next bytes of the file as it was listed; none at its end.
    fn chunk(mut self) -> Result<(Bytes, Self)> {
        // Bytes that are appended meanwhile do not belong to the file that was listed.
        let next = self.pin.size.saturating_sub(self.read).min(CHUNK_BYTES as u64);
        let mut chunk = Vec::with_capacity(usize::try_from(next).unwrap_or(CHUNK_BYTES));
        (&mut self.opened).take(next).read_to_end(&mut chunk)?;
        self.read += chunk.len() as u64;
        if chunk.is_empty() {
            self.pin.check_open(&self.opened.metadata()?)?;
        }
        Ok((chunk.into(), self))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

/// The first bytes of a text, without a byte order mark, which may come in pieces; empty if there are none.
pub(super) async fn start(chunks: &mut Chunks) -> Result<Bytes, DataFusionError> {
    mark(chunks).await.map(|[_, text]| text)
}

/// The byte order mark of a text, which may come in pieces and is empty where there is none, and the first bytes behind it.
pub(super) async fn mark(chunks: &mut Chunks) -> Result<[Bytes; 2], DataFusionError> {
    let Some(mut first) = chunks.try_next().await? else { return Ok([Bytes::new(), Bytes::new()]) };
    while first.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(&first) {
        let Some(more) = chunks.try_next().await? else { break };
        let mut longer = BytesMut::from(first);
        longer.extend_from_slice(&more);
        first = longer.freeze();
    }
    Ok(match first.starts_with(BYTE_ORDER_MARK) {
        true => [first.slice(..BYTE_ORDER_MARK.len()), first.slice(BYTE_ORDER_MARK.len()..)],
        false => [Bytes::new(), first],
    })
}

/// Bytes as they come.
pub(super) type Chunks = BoxStream<'static, Result<Bytes, DataFusionError>>;

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

/// The name of the metric of an operator that reads files: the bytes of its files that were read.
pub(crate) const READ_BYTES: &str = "read_bytes";

/// The metric [`READ_BYTES`] of a partition.
pub(crate) fn read_bytes(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Count {
    MetricBuilder::new(metrics).counter(READ_BYTES, partition)
}

/// Counts the bytes of one file, as many as it has. The rest counts when this is dropped: a compressed file has more bytes when
/// it is read, and some bytes are skipped.
#[derive(Debug)]
pub(crate) struct FileBytes {
    count: Count,
    left: u64,
}

impl FileBytes {
    /// Counts the bytes of a file of `size` in `count`.
    pub(crate) fn new(count: &Count, size: u64) -> Self {
        Self { count: count.clone(), left: size }
    }

    /// More bytes were read.
    pub(crate) fn add(&mut self, bytes: u64) {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        self.count.add(usize::try_from(bytes).unwrap_or(usize::MAX));
    }
}

impl Drop for FileBytes {
    fn drop(&mut self) {
        self.add(self.left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_byte_order_mark_may_come_in_pieces() {
        for (text, expected) in [
            (&b"\xEF\xBB\xBFab"[..], &b"ab"[..]),
            (b"\xEF\xBB\xBF", b""),
            (b"\xEF\xBBa", b"\xEF\xBBa"),
            (b"ab", b"ab"),
            (b"", b""),
        ] {
            for size in [1, 2, 10] {
                let pieces: Vec<_> = text.chunks(size).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
                let mut chunks: Chunks = stream::iter(pieces).boxed();
                let mut all = start(&mut chunks).await.unwrap().to_vec();
                while let Some(more) = chunks.try_next().await.unwrap() {
                    all.extend_from_slice(&more);
                }
                assert_eq!(all, expected, "in pieces of {size}");
            }
        }
    }
}

#[cfg(test)]
mod zstd_tests {
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

#[cfg(test)]
mod file_bytes_tests {
    use super::*;

    #[test]
    fn a_file_counts_as_many_bytes_as_it_has() {
        let count = Count::new();
        let mut bytes = FileBytes::new(&count, 100);
        bytes.add(30);
        assert_eq!(count.value(), 30);
        bytes.add(300);
        assert_eq!(count.value(), 100);
        drop(bytes);
        drop(FileBytes::new(&count, 50));
        assert_eq!(count.value(), 150);
    }
}
