//! The bytes of a file, decompressed, as they come.

use std::fs::Metadata;
use std::io::Read;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use async_compression::tokio::bufread::ZstdDecoder;
use bytes::{Bytes, BytesMut};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::DataFusionError;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use object_store::ObjectStore;
use tokio_util::io::{ReaderStream, StreamReader};
use url::Url;

use super::to_parse::FileToParse;
use crate::error::{Context, Error, Result};

/// The URL of the local disk's store.
pub(super) const LOCAL: &str = "file:///";
/// Bytes of a local file that are read at once.
const READ_BYTES: usize = 256 * 1024;
/// What text files may start with, and no text does.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Bytes as they come.
pub(super) type Chunks = BoxStream<'static, Result<Bytes, DataFusionError>>;

/// How the file at `path` is compressed, by its extension.
pub(super) fn compression(path: &str) -> FileCompressionType {
    let name = path.to_ascii_lowercase();
    if name.ends_with(".gz") {
        FileCompressionType::GZIP
    } else if name.ends_with(".zst") {
        FileCompressionType::ZSTD
    } else {
        FileCompressionType::UNCOMPRESSED
    }
}

/// The bytes of `file`, decompressed by what its name says. Nothing is read ahead of the consumer but the store's own
/// chunk.
pub(super) async fn decompressed(store: &dyn ObjectStore, file: &FileToParse) -> Result<Chunks> {
    let raw = stored(store, file).await?;
    let compression = compression(&file.source);
    if compression == FileCompressionType::ZSTD {
        // The engine's stream ends with the first frame, and some writers begin with an empty one.
        let raw = StreamReader::new(raw.map_err(std::io::Error::other));
        let mut decoder = ZstdDecoder::new(raw);
        decoder.multiple_members(true);
        return Ok(ReaderStream::with_capacity(decoder, READ_BYTES).map_err(DataFusionError::from).boxed());
    }
    compression.convert_stream(raw).context(|| format!("reading {} failed", file.source))
}

/// The bytes of `file` as they are stored.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where it cannot be read, or is not the file that was listed any more.
pub(super) async fn stored(store: &dyn ObjectStore, file: &FileToParse) -> Result<Chunks> {
    let failed = || format!("reading {} failed", file.source);
    if file.store == LOCAL {
        return local(file).await;
    }
    let bytes = file.pin.stream(store).await.context(failed)?;
    // Whoever looks for a byte order mark may ask again after the end, which some stores' streams do not bear.
    Ok(bytes.map_err(DataFusionError::from).fuse().boxed())
}

/// Reads a file of this machine by itself: the store of the engine knows no names that end in `#` and digits, and
/// reads 8 KiB at once.
async fn local(file: &FileToParse) -> Result<Chunks> {
    let failed = || format!("reading {} failed", file.source);
    let Some(path) = local_path(&file.pin.location) else {
        return Err(Error::bug(format!("{} is not a path on this machine", file.source)));
    };
    let as_listed = file.clone();
    let (opened, as_listed) = blocking(move || {
        let opened = std::fs::File::open(path)?;
        Ok((is_as_listed(&opened.metadata()?, &as_listed).then_some(opened), as_listed))
    })
    .await
    .context(failed)?;
    let opened = opened.ok_or_else(|| changed(file))?;
    let state = (opened, as_listed, 0_u64);
    Ok(stream::try_unfold(state, |(mut opened, as_listed, mut read)| async move {
        let source = as_listed.source.clone();
        let ended = blocking(move || {
            // What somebody writes behind the end meanwhile is not of the file that was listed.
            let next = as_listed.pin.size.saturating_sub(read).min(READ_BYTES as u64);
            let mut chunk = Vec::with_capacity(usize::try_from(next).unwrap_or(READ_BYTES));
            (&mut opened).take(next).read_to_end(&mut chunk)?;
            read += chunk.len() as u64;
            // All that was read is of the file that was listed if it still is that one at its end.
            let whole = !chunk.is_empty()
                || (read == as_listed.pin.size && is_as_listed(&opened.metadata()?, &as_listed));
            Ok((chunk, whole, (opened, as_listed, read)))
        });
        let (chunk, whole, state) = ended.await.context(|| format!("reading {source} failed"))?;
        if !whole {
            return Err(changed(&state.1).into());
        }
        Ok((!chunk.is_empty()).then(|| (Bytes::from(chunk), state)))
    })
    .boxed())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}

fn is_as_listed(metadata: &Metadata, file: &FileToParse) -> bool {
    metadata.len() == file.pin.size
        && metadata.modified().ok().is_none_or(|time| nanoseconds(time) == file.pin.modified)
}

/// Nanoseconds from 1970 to `time`, or the nearest number that there is.
fn nanoseconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanos| -nanos),
    }
}

fn changed(file: &FileToParse) -> Error {
    Error::input(format!(
        "{} was written to or replaced after it was listed: run again when nobody writes to the input",
        file.source
    ))
}

/// Where the local disk's store has what is at `location`.
pub(super) fn local_path(location: &str) -> Option<PathBuf> {
    let mut url = Url::parse(LOCAL).ok()?;
    url.path_segments_mut().ok()?.pop_if_empty().extend(location.split('/'));
    url.to_file_path().ok()
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
