//! A file of any size and any name, put into an output while it is made: it has its name when it is whole, and not before.

use std::path::PathBuf;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::future::BoxFuture;
use object_store::ObjectStoreExt;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use parquet::arrow::async_writer::AsyncFileWriter;
use parquet::errors::{ParquetError, Result as ParquetResult};
use tokio::io::AsyncWriteExt;

use super::Layout;
use super::local::{self, Staged};
use crate::error::{Context, Error, Result};

/// Bytes that go to the store at once, and how many such parts may be under way.
const PUT_BYTES: usize = 8 << 20;
const PUTS: usize = 2;

/// Bytes, counted and checksummed.
#[derive(Debug, Clone, Default)]
struct Digest {
    bytes: u64,
    crc32: crc32fast::Hasher,
}

impl Digest {
    fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.crc32.update(bytes);
    }

    fn end(self) -> (u64, u32) {
        (self.bytes, self.crc32.finalize())
    }
}

/// A file that is being put.
pub(crate) struct Upload {
    output: Layout,
    inside: String,
    digest: Digest,
    to: To,
}

enum To {
    Disk(tokio::fs::File, Staged),
    Store(Box<BufWriter>),
    /// A file of this name is there. It stays, and what is put must be the same.
    There {
        bytes: u64,
        crc32: u32,
    },
}

impl Layout {
    /// Begins to put a file. A file that is there already is never replaced: it must have the bytes that are put.
    ///
    /// # Errors
    /// When the store refuses, or the path leads out of the output.
    pub(crate) async fn upload(&self, inside: &str) -> Result<Upload> {
        let failed = || format!("cannot write {}/{inside}", self.shown());
        let to = match (self.digest(inside).await?, self.folder()) {
            (Some((bytes, crc32)), _) => To::There { bytes, crc32 },
            (None, Some(_)) => {
                let (file, staged) = local::stage(self.place(inside)?).await.context(failed)?;
                To::Disk(tokio::fs::File::from_std(file), staged)
            }
            (None, None) => {
                let writer = BufWriter::with_capacity(self.store().clone(), self.key(inside)?, PUT_BYTES)
                    .with_max_concurrency(PUTS);
                To::Store(Box::new(writer))
            }
        };
        Ok(Upload { output: self.clone(), inside: inside.to_owned(), digest: Digest::default(), to })
    }

    /// Bytes and CRC-32 of a file; `None` if there is none.
    async fn digest(&self, inside: &str) -> Result<Option<(u64, u32)>> {
        let failed = || format!("cannot read {}/{inside}", self.shown());
        let mut digest = Digest::default();
        if self.folder().is_some() {
            let place = self.place(inside)?;
            let read = tokio::task::spawn_blocking(move || {
                use std::io::Read;
                let mut file = std::fs::File::open(place)?;
                let mut buffer = vec![0; 256 << 10];
                loop {
                    match file.read(&mut buffer)? {
                        0 => return Ok::<_, std::io::Error>(digest.end()),
                        read => digest.update(&buffer[..read]),
                    }
                }
            });
            return match read.await.map_err(std::io::Error::other).flatten() {
                Ok(found) => Ok(Some(found)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(e).context(failed),
            };
        }
        let got = match self.store().get(&self.key(inside)?).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e).context(failed),
        };
        let mut bytes = got.into_stream();
        while let Some(bytes) = bytes.try_next().await.context(failed)? {
            digest.update(&bytes);
        }
        Ok(Some(digest.end()))
    }

    /// The size of a file; `None` if there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn size(&self, inside: &str) -> Result<Option<u64>> {
        if self.folder().is_some() {
            return Ok(tokio::fs::metadata(self.place(inside)?).await.ok().map(|meta| meta.len()));
        }
        match self.store().head(&self.key(inside)?).await {
            Ok(meta) => Ok(Some(meta.size)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e).context(|| format!("cannot read {}/{inside}", self.shown())),
        }
    }

    /// Where a file of this name is on this machine. Its name is taken as it is: [`Layout::path`] has other names for some.
    fn place(&self, inside: &str) -> Result<PathBuf> {
        let folder = self.folder().ok_or_else(|| Error::bug("an output in a store has no folder"))?;
        inside.split('/').all(is_name).then(|| folder.join(inside)).ok_or_else(|| outside(inside))
    }

    /// Where a file of this name is in its store.
    fn key(&self, inside: &str) -> Result<Path> {
        if !inside.split('/').all(is_name) {
            return Err(outside(inside));
        }
        Ok(Path::parse(format!("{}/{inside}", self.root())).map_err(object_store::Error::from)?)
    }
}

/// Whether a part of a path is the name of a file or a folder.
fn is_name(part: &str) -> bool {
    !matches!(part, "" | "." | "..") && !part.contains('\0')
}

fn outside(inside: &str) -> Error {
    Error::bug(format!("the path {inside:?} leads out of the output"))
}

impl Upload {
    /// Puts the next bytes.
    ///
    /// # Errors
    /// When the store refuses.
    pub(crate) async fn put(&mut self, bytes: Bytes) -> Result<()> {
        self.digest.update(&bytes);
        let put = match &mut self.to {
            To::Disk(file, _) => file.write_all(&bytes).await.map_err(Error::from),
            To::Store(writer) => writer.put(bytes).await.map_err(Error::from),
            To::There { .. } => Ok(()),
        };
        put.context(|| format!("cannot write {}/{}", self.output.shown(), self.inside))
    }

    /// Gives the file its name: its path, its size and its CRC-32.
    ///
    /// # Errors
    /// When the store refuses, or has another file of that name.
    pub(crate) async fn finish(self) -> Result<(String, u64, u32)> {
        let failed = || format!("cannot write {}/{}", self.output.shown(), self.inside);
        let (bytes, crc32) = self.digest.end();
        let other = || {
            Error::input(format!(
                "{}/{} is there already and holds other bytes than would be written: move it away, or choose another folder",
                self.output.shown(),
                self.inside
            ))
        };
        match self.to {
            To::Disk(mut file, staged) => {
                file.flush().await.context(failed)?;
                file.sync_all().await.context(failed)?;
                match staged.persist().await {
                    Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => return Err(other()),
                    persisted => persisted.context(failed)?,
                }
            }
            To::Store(mut writer) => writer.shutdown().await.context(failed)?,
            To::There { bytes: there, crc32: of_there } => {
                if (there, of_there) != (bytes, crc32) {
                    return Err(other());
                }
            }
        }
        Ok((self.inside, bytes, crc32))
    }
}

/// An upload that a Parquet writer fills, and that is finished when the writer is.
impl AsyncFileWriter for Upload {
    fn write(&mut self, bytes: Bytes) -> BoxFuture<'_, ParquetResult<()>> {
        Box::pin(async move { self.put(bytes).await.map_err(|e| ParquetError::External(Box::new(e))) })
    }

    fn complete(&mut self) -> BoxFuture<'_, ParquetResult<()>> {
        Box::pin(async { Ok(()) })
    }
}
