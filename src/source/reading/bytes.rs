//! Streams of bytes: decompression, UTF-8 and byte order marks. The first bytes of a file determine its compression. Without a magic
//! number, the extension does. Text is decoded before it is parsed: in some encodings, bytes inside characters look like a quote, a
//! backslash or a line end.

use std::future::ready;
use std::io;
use std::sync::Arc;

use async_compression::tokio::bufread::{BzDecoder, GzipDecoder, XzDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use bytes::{Bytes, BytesMut};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use encoding_rs::{Decoder, DecoderResult};
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt};
use tokio_util::io::StreamReader;

use crate::job::Encoding;
use crate::source::other_files::other_file;

/// A stream of chunks of bytes. No chunk is empty.
pub(in crate::source) type Chunks = BoxStream<'static, Result<Bytes, DataFusionError>>;

/// The number of bytes that are read at once from a local file or from decompressed data.
pub(in crate::source) const CHUNK_BYTES: usize = 256 * 1024;
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
/// The maximum length of a compression's magic number, in bytes.
const MAGIC_BYTES: usize = 10;

pub(in crate::source) fn compression(path: &str) -> FileCompressionType {
    let ending = path.rsplit_once('.').and_then(|(_, ending)| ending.parse().ok());
    ending.unwrap_or(FileCompressionType::UNCOMPRESSED)
}

/// Returns the compression whose magic number is at the start of `bytes`.
pub(in crate::source) fn marked_compression(bytes: &[u8]) -> Option<FileCompressionType> {
    match bytes {
        [0x1F, 0x8B, 8, ..] => Some(FileCompressionType::GZIP),
        // The start of a zstd frame or of a skippable frame.
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Some(FileCompressionType::ZSTD),
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', b'Y', b'&', b'S', b'Y', ..] => {
            Some(FileCompressionType::BZIP2)
        }
        [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some(FileCompressionType::XZ),
        _ => None,
    }
}

/// Decompresses the stored bytes of the file at `path`. The memory of a long zstd window is reserved in `pool`.
pub(in crate::source) fn decompress(mut stored: Chunks, path: &str, pool: &Arc<dyn MemoryPool>) -> Chunks {
    let (by_name, path, pool) = (compression(path), path.to_owned(), Arc::clone(pool));
    let opened = async move {
        let mut first = BytesMut::new();
        while first.len() < MAGIC_BYTES
            && let Some(chunk) = stored.try_next().await?
        {
            first.extend_from_slice(&chunk);
        }
        let compression = marked_compression(&first).unwrap_or(by_name);
        let (window, is_empty) = (zstd_window(&first), first.is_empty());
        let first = (!first.is_empty()).then(|| Ok(first.freeze()));
        let stored = stream::iter(first).chain(stored).boxed();
        if compression == FileCompressionType::UNCOMPRESSED || is_empty {
            return Ok(stored);
        }
        let stored = StreamReader::new(stored.map_err(io::Error::other));
        Ok::<_, DataFusionError>(match compression {
            FileCompressionType::GZIP => members(stored, GzipDecoder::new, GzipDecoder::into_inner),
            FileCompressionType::BZIP2 => members(stored, BzDecoder::new, BzDecoder::into_inner),
            FileCompressionType::XZ => members(stored, XzDecoder::new, XzDecoder::into_inner),
            _ => within_memory(members(stored, zstd_decoder, ZstdDecoder::into_inner), window, &path, &pool),
        })
    };
    stream::once(opened).try_flatten().boxed()
}

/// Decompresses all members of a file. Parallel compressors write several members, and some writers begin with an empty member. As in
/// `gzip`, zeros between and after members are ignored as padding.
fn members<R, D>(stored: R, begin: fn(R) -> D, end: fn(D) -> R) -> Chunks
where
    R: AsyncBufRead + Send + Unpin + 'static,
    D: AsyncRead + Send + Unpin + 'static,
{
    let state = (begin(stored), BytesMut::new());
    let chunks = stream::try_unfold(state, move |(mut decoder, mut buffer)| async move {
        loop {
            if buffer.capacity() == 0 {
                buffer.reserve(CHUNK_BYTES);
            }
            if decoder.read_buf(&mut buffer).await? > 0 {
                return Ok(Some((buffer.split().freeze(), (decoder, buffer))));
            }
            let mut stored = end(decoder);
            loop {
                let zeros = match stored.fill_buf().await? {
                    [] => return Ok::<_, io::Error>(None),
                    bytes => bytes.iter().take_while(|byte| **byte == 0).count(),
                };
                if zeros == 0 {
                    break;
                }
                stored.consume(zeros);
            }
            decoder = begin(stored);
        }
    });
    chunks.map_err(DataFusionError::from).boxed()
}

/// The base-2 logarithm of the maximum window size: 2 GiB, which is also the largest window that zstd writes.
const WINDOW_LOG: u32 = 31;
/// The memory of a window is reserved only if the window has more than this number of bytes.
const SMALL_WINDOW: u64 = 8 << 20;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

fn zstd_decoder<R: AsyncBufRead>(stored: R) -> ZstdDecoder<R> {
    ZstdDecoder::with_params(stored, &[DParameter::window_log_max(WINDOW_LOG)])
}

/// Reserves the memory of a long window in `pool` while decompressed `chunks` fill it.
fn within_memory(chunks: Chunks, window: Option<u64>, path: &str, pool: &Arc<dyn MemoryPool>) -> Chunks {
    let Some(window) = window.filter(|window| *window > SMALL_WINDOW) else { return chunks };
    let memory = MemoryConsumer::new(format!("the zstd window of {path}")).register(pool);
    let mut bytes = 0;
    let reserved = chunks.and_then(move |chunk| {
        bytes += chunk.len() as u64;
        let used = usize::try_from(bytes.min(window)).unwrap_or(usize::MAX);
        ready(memory.try_resize(used).map(|()| chunk))
    });
    reserved.boxed()
}

/// Returns the window size of the zstd frame that starts with these bytes, if any (RFC 8878, section 3.1.1.1).
fn zstd_window(bytes: &[u8]) -> Option<u64> {
    let [descriptor, rest @ ..] = bytes.strip_prefix(&ZSTD_MAGIC)? else { return None };
    if descriptor & 0x20 == 0 {
        let window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // The window size is the content size, which follows the dictionary id.
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = rest.get(dictionary..dictionary + (1 << (descriptor >> 6)))?;
    Some(size.iter().rev().fold(0, |size, byte| size << 8 | u64::from(*byte)))
}

/// Returns the byte order mark, which may be empty, and the first bytes after it. The mark and the bytes may arrive in several chunks.
pub(in crate::source) async fn split_mark(chunks: &mut Chunks) -> Result<[Bytes; 2], DataFusionError> {
    let mut first = BytesMut::new();
    while first.len() < BYTE_ORDER_MARK.len()
        && BYTE_ORDER_MARK.starts_with(&first)
        && let Some(more) = chunks.try_next().await?
    {
        if first.is_empty() && !BYTE_ORDER_MARK.starts_with(&more[..more.len().min(BYTE_ORDER_MARK.len())]) {
            return Ok([Bytes::new(), more]);
        }
        first.extend_from_slice(&more);
    }
    let mark = if first.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    let mark = first.split_to(mark).freeze();
    Ok([mark, first.freeze()])
}

/// A byte that is never valid in UTF-8. This byte replaces a sequence that is invalid in the encoding of the file.
pub(in crate::source) const INVALID: u8 = 0xFF;

/// The number of bytes by which the encoding of a file is detected.
const DETECTED_BYTES: usize = 1024 * 1024;

/// Converts `chunks` to UTF-8. A character may be split between two chunks. Invalid sequences become [`INVALID`]. UTF-8 is passed on
/// without checks.
pub(in crate::source) fn decoded(chunks: Chunks, encoding: Encoding) -> Chunks {
    if encoding == Encoding::Detect {
        return stream::once(detected(chunks)).try_flatten().boxed();
    }
    let Some(mut decoding) = Decoding::new(encoding) else { return chunks };
    let end = stream::once(ready(Ok(None)));
    let text = chunks.map_ok(Some).chain(end).map_ok(move |chunk| match chunk {
        Some(chunk) => decoding.decode(&chunk, false),
        None => decoding.decode(&[], true),
    });
    // A chunk may contain only the start of a character.
    text.try_filter(|text| ready(!text.is_empty())).boxed()
}

/// Converts `chunks` to UTF-8 from the encoding that is detected by the first chunks. Files that are no text are passed on unchanged.
async fn detected(mut chunks: Chunks) -> Result<Chunks, DataFusionError> {
    let (mut start, mut whole) = (BytesMut::new(), false);
    while !whole && start.len() < DETECTED_BYTES {
        match chunks.try_next().await? {
            Some(chunk) => start.extend_from_slice(&chunk),
            None => whole = true,
        }
    }
    let is_text = other_file(&start).is_none();
    let encoding = if is_text { Encoding::detected(&start, whole) } else { Encoding::Utf8 };
    let first = (!start.is_empty()).then(|| Ok(start.freeze()));
    Ok(decoded(stream::iter(first).chain(chunks.fuse()).boxed(), encoding))
}

enum Decoding {
    Latin1,
    Standard { decoder: Decoder, invalid: &'static [u8] },
}

impl Decoding {
    /// Returns `None` for UTF-8.
    fn new(encoding: Encoding) -> Option<Self> {
        Some(match encoding {
            Encoding::Utf8 | Encoding::Detect => return None,
            Encoding::Latin1 => Decoding::Latin1,
            Encoding::Utf8Lossy => Decoding::Standard {
                decoder: encoding_rs::UTF_8.new_decoder_without_bom_handling(),
                invalid: "\u{fffd}".as_bytes(),
            },
            Encoding::Standard(label) => {
                Decoding::Standard { decoder: label.new_decoder(), invalid: &[INVALID] }
            }
        })
    }

    /// Decodes the next bytes of the file. `last` is true after the end of the file.
    fn decode(&mut self, mut bytes: &[u8], last: bool) -> Bytes {
        let (decoder, invalid) = match self {
            Decoding::Latin1 => {
                return encoding_rs::mem::decode_latin1(bytes).into_owned().into_bytes().into();
            }
            Decoding::Standard { decoder, invalid } => (decoder, invalid),
        };
        let mut text = Vec::new();
        loop {
            // `None` means that the length overflows. The text is then decoded piece by piece.
            let room = decoder.max_utf8_buffer_length_without_replacement(bytes.len());
            let from = text.len();
            text.resize(from + room.unwrap_or(bytes.len().max(MIN_ROOM)), 0);
            let (result, read, written) =
                decoder.decode_to_utf8_without_replacement(bytes, &mut text[from..], last);
            text.truncate(from + written);
            bytes = &bytes[read..];
            match result {
                DecoderResult::InputEmpty => return text.into(),
                DecoderResult::OutputFull => {}
                DecoderResult::Malformed(..) => text.extend_from_slice(invalid),
            }
        }
    }
}

/// A buffer size that is sufficient for any character, in bytes.
const MIN_ROOM: usize = 16;

/// The metric that counts the file bytes read by an operator.
pub(crate) const READ_BYTES: &str = "read_bytes";

pub(crate) fn read_bytes(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Count {
    MetricBuilder::new(metrics).counter(READ_BYTES, partition)
}

/// Counts the bytes of a file up to its size. The remaining bytes are counted on drop, because compressed and skipped bytes do not add up
/// to the size.
#[derive(Debug)]
pub(crate) struct FileBytes {
    count: Count,
    left: u64,
}

impl FileBytes {
    pub(crate) fn new(count: &Count, size: u64) -> Self {
        Self { count: count.clone(), left: size }
    }

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
    use datafusion::execution::memory_pool::{GreedyMemoryPool, UnboundedMemoryPool};

    use super::*;

    fn pieces(bytes: &[u8], size: usize) -> Chunks {
        let pieces: Vec<_> = bytes.chunks(size).map(|c| Ok(Bytes::copy_from_slice(c))).collect();
        stream::iter(pieces).fuse().boxed()
    }

    #[tokio::test]
    async fn a_byte_order_mark_may_come_in_pieces() {
        for (text, mark) in [
            (&b"\xEF\xBB\xBFab"[..], 3),
            (b"\xEF\xBB\xBF", 3),
            (b"\xEF\xBBa", 0),
            (b"\xEF\xBB", 0),
            (b"ab", 0),
            (b"", 0),
        ] {
            for size in [1, 2, 10] {
                let mut chunks = pieces(text, size);
                let [found, first] = split_mark(&mut chunks).await.unwrap();
                let rest: Vec<Bytes> = chunks.try_collect().await.unwrap();
                let all = [&[first], rest.as_slice()].concat().concat();
                assert_eq!((&found[..], &all[..]), text.split_at(mark), "in pieces of {size}");
            }
        }
    }

    /// Returns a frame whose header declares a window of `2^log` bytes, as `zstd --long` writes it.
    fn frame(text: &[u8], log: u8) -> Vec<u8> {
        let mut stored = zstd::encode_all(text, 1).unwrap();
        stored[ZSTD_MAGIC.len() + 1] = (log - 10) << 3;
        stored
    }

    async fn read(stored: Vec<u8>, pool: &Arc<dyn MemoryPool>) -> Result<usize, DataFusionError> {
        let stored = stream::iter([Ok(Bytes::from(stored))]).boxed();
        decompress(stored, "a.zst", pool).try_fold(0, async |all, chunk| Ok(all + chunk.len())).await
    }

    #[tokio::test]
    async fn only_a_long_window_reserves_memory() {
        let unbounded: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let small: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(1 << 20));
        let text = vec![b'x'; 4 << 20];
        assert_eq!(read(frame(&text, 31), &unbounded).await.unwrap(), text.len());
        assert_eq!(read(frame(&text, 23), &small).await.unwrap(), text.len());
        let error = read(frame(&text, 31), &small).await.unwrap_err();
        assert!(error.to_string().contains("the zstd window of a.zst"), "{error}");
        assert_eq!(zstd_window(&frame(b"text", 27)), Some(1 << 27));
        assert_eq!(zstd_window(&zstd::bulk::compress(&[0; 70_000], 1).unwrap()), Some(70_000));
        assert_eq!(zstd_window(b"text"), None);
    }

    #[test]
    fn a_file_counts_its_size() {
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

    async fn decode(bytes: &[u8], encoding: &str, size: usize) -> Vec<u8> {
        let chunks = decoded(pieces(bytes, size), encoding.parse().unwrap());
        let pieces: Vec<Bytes> = chunks.try_collect().await.unwrap();
        assert!(pieces.iter().all(|piece| !piece.is_empty()), "an empty chunk ends a file");
        pieces.concat()
    }

    /// The expected texts come from Python's codecs.
    #[tokio::test]
    async fn chunks_do_not_change_the_text() {
        let all_bytes: Vec<u8> = (0..=255).collect();
        let all_latin: String = all_bytes.iter().map(|&byte| char::from(byte)).collect();
        for (bytes, encoding, expected) in [
            (&all_bytes[..], "latin-1", all_latin.as_str()),
            (b"caf\xE9 \x93x\x94", "windows-1252", "café “x”"),
            (b"caf\xE9 \x93x\x94", "latin-1", "café \u{93}x\u{94}"),
            (b"\x83\x5C\x22\x0A", "shift_jis", "ソ\"\n"),
            (b"a\0\xE9\0=\xD8\0\xDE", "utf-16le", "aé😀"),
            (b"\xFE\xFF\0a", "utf-16le", "a"),
            (b"\xEF\xBB\xBFcaf\xC3\xA9", "windows-1252", "café"),
            (b"caf\xE9 \xE2\x82x \xE2\x82\xAC", "utf-8-lossy", "caf\u{fffd} \u{fffd}x €"),
            (b"\xD0\xCF\xE2", "koi8-r", "поБ"),
        ] {
            for size in [1, 2, 3, 1000] {
                let found = decode(bytes, encoding, size).await;
                assert_eq!(String::from_utf8(found).unwrap(), expected, "{encoding} in pieces of {size}");
            }
        }
    }

    #[tokio::test]
    async fn invalid_sequences_are_marked() {
        for (bytes, encoding, expected) in [
            (&b"a\x81\nb"[..], "shift_jis", &b"a\xFF\nb"[..]),
            (b"a\xD8", "utf-16be", b"\xE6\x87\x98"),
            (b"a\0b", "utf-16le", b"a\xFF"),
            (b"\xE2\x82", "utf-8-lossy", "\u{fffd}".as_bytes()),
            // UTF-8 is not checked.
            (b"\xFF\xFEcaf\xE9", "utf-8", b"\xFF\xFEcaf\xE9"),
        ] {
            for size in [1, 2, 1000] {
                assert_eq!(decode(bytes, encoding, size).await, expected, "{encoding} in pieces of {size}");
            }
        }
    }
}
