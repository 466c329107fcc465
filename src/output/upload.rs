//! Uploads of files of any size to an output, with their checksums. A file gets its final name only when it is complete.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode};
use parquet::arrow::async_writer::AsyncFileWriter;
use parquet::errors::{ParquetError, Result as ParquetResult};
use tokio::io::AsyncWriteExt;
use tokio_util::io::ReaderStream;

use super::Layout;
use super::layout::unless_missing;
use super::local::{self, Staged};
use crate::error::{Context, Error, Result};

pub(crate) struct Upload {
    output: Layout,
    inside: String,
    digest: Digest,
    to: To,
}

enum To {
    Disk(tokio::fs::File, Staged),
    /// The bytes so far, if a single put is sufficient. A store can refuse a single put if the file exists.
    Small(Vec<u8>),
    Store(Box<BufWriter>),
    /// The file already exists and is kept. The upload must have the same bytes.
    There {
        bytes: u64,
        crc32: u32,
    },
}

impl Layout {
    /// Starts the upload of a file. An existing file is never replaced. If the file exists, the upload must have the same bytes.
    pub(crate) async fn upload(&self, inside: &str) -> Result<Upload> {
        let failed = || format!("cannot write {}/{inside}", self.shown());
        let to = match (self.digest(inside).await?, self.folder()) {
            (Some((bytes, crc32)), _) => To::There { bytes, crc32 },
            (None, Some(_)) => {
                let staged = local::stage(self.place(inside)?, self.writer.clone());
                let (file, staged) = staged.await.context(failed)?;
                To::Disk(tokio::fs::File::from_std(file), staged)
            }
            (None, None) => To::Small(Vec::new()),
        };
        Ok(Upload { output: self.clone(), inside: inside.to_owned(), digest: Digest::default(), to })
    }

    /// Returns the size and the CRC-32 of a file, or `None` if the file does not exist.
    pub(super) async fn digest(&self, inside: &str) -> Result<Option<(u64, u32)>> {
        let failed = || format!("cannot read {}/{inside}", self.shown());
        let mut bytes = match self.folder() {
            Some(_) => match tokio::fs::File::open(self.place(inside)?).await {
                Ok(file) => ReaderStream::with_capacity(file, READ_BYTES).map_err(Error::from).boxed(),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(e) => return Err(e).context(failed),
            },
            None => match unless_missing(self.store.get(&self.key(inside)?).await).context(failed)? {
                Some(got) => got.into_stream().map_err(Error::from).boxed(),
                None => return Ok(None),
            },
        };
        let mut digest = Digest::default();
        while let Some(bytes) = bytes.try_next().await.context(failed)? {
            digest.update(&bytes);
        }
        Ok(Some(digest.end()))
    }

    pub(crate) async fn meta(&self, inside: &str) -> Result<Option<ObjectMeta>> {
        let meta = self.store.head(&self.key(inside)?).await;
        unless_missing(meta).context(|| format!("cannot read {}/{inside}", self.shown()))
    }

    pub(crate) async fn size(&self, inside: &str) -> Result<Option<u64>> {
        if self.folder().is_some() {
            return Ok(tokio::fs::metadata(self.place(inside)?).await.ok().map(|meta| meta.len()));
        }
        Ok(self.meta(inside).await?.map(|meta| meta.size))
    }

    /// Returns the path of a file on this machine. The path keeps characters that [`Layout::path`] would encode.
    fn place(&self, inside: &str) -> Result<PathBuf> {
        let folder = self.folder().ok_or_else(|| Error::bug("an output in a store has no folder"))?;
        inside.split('/').all(is_name).then(|| folder.join(inside)).ok_or_else(|| outside(inside))
    }

    fn key(&self, inside: &str) -> Result<Path> {
        if !inside.split('/').all(is_name) {
            return Err(outside(inside));
        }
        Ok(Path::parse(format!("{}/{inside}", self.root())).map_err(object_store::Error::from)?)
    }
}

/// Whether a part of a path is a valid name of a file or a folder.
fn is_name(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.contains('\0')
}

fn outside(inside: &str) -> Error {
    Error::bug(format!("the path {inside:?} leads out of the output"))
}

impl Upload {
    pub(crate) async fn put(&mut self, bytes: Bytes) -> Result<()> {
        self.digest.update(&bytes);
        let failed = || format!("cannot write {}/{}", self.output.shown(), self.inside);
        if let To::Small(buffer) = &mut self.to
            && buffer.len() + bytes.len() > PUT_BYTES
        {
            let mut writer = multipart_writer(&self.output.store, self.output.key(&self.inside)?);
            writer.put(std::mem::take(buffer).into()).await.context(failed)?;
            self.to = To::Store(Box::new(writer));
        }
        match &mut self.to {
            To::Disk(file, _) => file.write_all(&bytes).await.context(failed),
            To::Small(buffer) => {
                buffer.extend_from_slice(&bytes);
                Ok(())
            }
            To::Store(writer) => writer.put(bytes).await.context(failed),
            To::There { .. } => Ok(()),
        }
    }

    /// Gives the file its name and returns its path, size and CRC-32. If another task or attempt has written the same bytes under this name
    /// in the meantime, that file is kept.
    pub(crate) async fn finish(self) -> Result<(String, u64, u32)> {
        let Self { output, inside, digest, to } = self;
        let failed = || format!("cannot write {}/{inside}", output.shown());
        let written = digest.end();
        let there = match to {
            To::Disk(mut file, staged) => {
                file.flush().await.context(failed)?;
                file.sync_all().await.context(failed)?;
                match staged.persist().await {
                    Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => output.digest(&inside).await?,
                    persisted => {
                        persisted.context(failed)?;
                        None
                    }
                }
            }
            To::Small(buffer) => {
                let (key, buffer) = (output.key(&inside)?, Bytes::from(buffer));
                let put = |mode: PutMode| output.store.put_opts(&key, buffer.clone().into(), mode.into());
                match put(PutMode::Create).await {
                    Err(object_store::Error::AlreadyExists { .. }) => output.digest(&inside).await?,
                    Err(
                        object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. },
                    ) => {
                        put(PutMode::Overwrite).await.context(failed)?;
                        None
                    }
                    put => {
                        put.context(failed)?;
                        None
                    }
                }
            }
            // A multipart upload would replace an existing file, so the store is checked again.
            To::Store(mut writer) => match output.digest(&inside).await? {
                Some(there) => {
                    writer.abort().await.context(failed)?;
                    Some(there)
                }
                None => {
                    writer.shutdown().await.context(failed)?;
                    None
                }
            },
            To::There { bytes, crc32 } => Some((bytes, crc32)),
        };
        match there {
            Some(there) if there != written => Err(Error::input(format!(
                "{}/{inside} is there already and holds other bytes than would be written: move it away, or choose another folder",
                output.shown()
            ))),
            there => {
                if there.is_some() {
                    tracing::debug!(inside, "the file is there already");
                }
                Ok((inside, written.0, written.1))
            }
        }
    }
}

/// Allows a Parquet writer to write to the upload. The caller finishes the upload after the writer.
impl AsyncFileWriter for Upload {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, ParquetResult<()>> {
        Box::pin(async move { self.put(bytes).await.map_err(|e| ParquetError::External(Box::new(e))) })
    }

    fn complete(&mut self) -> BoxFuture<'_, ParquetResult<()>> {
        Box::pin(async { Ok(()) })
    }
}

/// The number of bytes that are read at once from a local file.
const READ_BYTES: usize = 256 << 10;

/// The number of bytes in one part of an upload, and the number of parts that are sent at the same time.
pub(super) const PUT_BYTES: usize = 8 << 20;
const PUTS: usize = 2;

/// Returns a writer that uploads the object at `path` in parts.
pub(super) fn multipart_writer(store: &Arc<dyn ObjectStore>, path: Path) -> BufWriter {
    BufWriter::with_capacity(Arc::clone(store), path, PUT_BYTES).with_max_concurrency(PUTS)
}

/// The size and the CRC-32 (IEEE) of a stream of bytes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Digest {
    bytes: u64,
    crc32: crc32fast::Hasher,
}

impl Digest {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc32.update(bytes);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn end(self) -> (u64, u32) {
        (self.bytes, self.crc32.finalize())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use datafusion::prelude::SessionContext;
    use object_store::memory::InMemory;

    use super::*;

    /// Returns an output in memory and one in a folder.
    pub(crate) fn outputs() -> ([Layout; 2], tempfile::TempDir) {
        let session = SessionContext::new();
        session.register_object_store(&"memory://".parse().unwrap(), Arc::new(InMemory::new()));
        let folder = tempfile::tempdir().unwrap();
        let local = folder.path().join("to").to_str().unwrap().to_owned();
        (["memory:///to", local.as_str()].map(|url| Layout::open(&session, url).unwrap()), folder)
    }

    /// Two tasks begin the same file before one of them has ended. This happens if a stage is submitted again while its tasks still run.
    #[tokio::test]
    async fn who_comes_second_with_the_same_bytes_is_no_error_and_with_others_replaces_nothing() {
        let (outputs, _folder) = outputs();
        for output in outputs {
            for bytes in [100, PUT_BYTES + 1] {
                let inside = format!("kept/a/{bytes}");
                let data = Bytes::from(vec![b'x'; bytes]);
                let mut uploads = Vec::new();
                for data in [&data, &data, &Bytes::from_static(b"others")] {
                    let mut upload = output.upload(&inside).await.unwrap();
                    assert!(!matches!(upload.to, To::There { .. }));
                    upload.put(data.clone()).await.unwrap();
                    uploads.push(upload);
                }
                let others = uploads.pop().unwrap();
                let (second, first) = (uploads.pop().unwrap(), uploads.pop().unwrap());
                assert_eq!(first.finish().await.unwrap(), second.finish().await.unwrap());
                let error = others.finish().await.unwrap_err().to_string();
                assert!(error.contains("holds other bytes"), "{error}");
                let there = output.digest(&inside).await.unwrap();
                assert_eq!(there, Some((bytes as u64, crc32fast::hash(&data))));
            }
        }
    }
}
