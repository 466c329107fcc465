//! The bytes of a file, decompressed, as they come.

use async_compression::tokio::bufread::ZstdDecoder;
use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::error::DataFusionError;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::{ObjectStore, ObjectStoreExt};
use tokio_util::io::{ReaderStream, StreamReader};

use super::listing::File;
use crate::error::{Context, Result};

/// How `file` is compressed, by its extension.
pub(super) fn compression(file: &File) -> FileCompressionType {
    let name = file.path.to_ascii_lowercase();
    if name.ends_with(".gz") {
        FileCompressionType::GZIP
    } else if name.ends_with(".zst") {
        FileCompressionType::ZSTD
    } else {
        FileCompressionType::UNCOMPRESSED
    }
}

/// The bytes of `file`, decompressed. Nothing is read ahead of the consumer but the store's own chunk.
pub(super) async fn stream(
    store: &dyn ObjectStore,
    file: &File,
) -> Result<BoxStream<'static, Result<Bytes, DataFusionError>>> {
    let got = store.get(&file.meta.location).await.context(|| format!("reading {} failed", file.path))?;
    let compression = compression(file);
    if compression == FileCompressionType::ZSTD {
        // The engine's stream ends with the first frame, and some writers begin with an empty one.
        let raw = StreamReader::new(got.into_stream().map_err(std::io::Error::from));
        let mut decoder = ZstdDecoder::new(raw);
        decoder.multiple_members(true);
        return Ok(ReaderStream::new(decoder).map_err(DataFusionError::from).boxed());
    }
    // Whoever looks for a byte order mark or a header may ask again after the end, which some stores' streams do not bear.
    let raw = got.into_stream().map_err(DataFusionError::from).fuse().boxed();
    compression.convert_stream(raw).context(|| format!("reading {} failed", file.path))
}
