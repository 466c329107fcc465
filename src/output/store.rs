//! Reads, puts, lists and removes the files of an output, on this machine or in any object store.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::local;
use super::paths::{Layout, MANIFEST, WORK};
use crate::error::{Context, Error, Result};

impl Layout {
    /// The bytes of a file of the output and the store's version of it; `None` if the file does not exist.
    pub(super) async fn read_bytes(&self, inside: &str) -> Result<Option<(Bytes, UpdateVersion)>> {
        let Some((bytes, meta)) = self.read_object(inside).await? else { return Ok(None) };
        Ok(Some((bytes, UpdateVersion { e_tag: meta.e_tag, version: meta.version })))
    }

    /// The bytes of a file of the output and the store's metadata; `None` if the file does not exist.
    pub(super) async fn read_object(&self, inside: &str) -> Result<Option<(Bytes, ObjectMeta)>> {
        let got = match self.store().get(&self.path(inside)).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e).context(|| format!("cannot read {}/{inside}", self.shown())),
        };
        let meta = got.meta.clone();
        match got.bytes().await {
            Ok(bytes) => Ok(Some((bytes, meta))),
            // A file on a disk may be gone between its opening and its reading.
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e).context(|| format!("cannot read {}/{inside}", self.shown())),
        }
    }

    /// Reads a JSON file of the output; `None` if the file does not exist.
    ///
    /// # Errors
    /// When the store does not answer or the file is not a `T`.
    pub(crate) async fn read<T: DeserializeOwned>(&self, inside: &str) -> Result<Option<T>> {
        let Some((bytes, _)) = self.read_bytes(inside).await? else { return Ok(None) };
        self.parse(inside, &bytes).map(Some)
    }

    /// Parses the bytes of a JSON file.
    ///
    /// # Errors
    /// When they are not a `T`.
    pub(super) fn parse<T: DeserializeOwned>(&self, inside: &str, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|e| {
            Error::input(format!(
                "{}/{inside} is not a manifest of this version; run again with --overwrite",
                self.shown()
            ))
            .because(e)
        })
    }

    /// Writes a JSON file of the output atomically, unless one exists. Returns whether the file now has this content. On this
    /// machine, a run's manifest is synced to the disk; files under `_work` may be lost in a power cut.
    pub(crate) async fn create<T: Serialize>(&self, inside: &str, value: &T) -> Result<bool> {
        let bytes = json(value)?;
        if inside == MANIFEST {
            return self.create_whole(inside, bytes).await;
        }
        let put = self.put_if_absent(inside, &bytes).await;
        self.created(inside, put, &bytes).await
    }

    /// Writes a file of the output atomically, unless one exists, and syncs it to a local disk. Returns whether the file now has
    /// this content.
    pub(super) async fn create_whole(&self, inside: &str, bytes: Bytes) -> Result<bool> {
        let put = match self.folder() {
            Some(folder) => local::create(folder.join(inside), self.writer(), &bytes).await,
            None => self.put_if_absent(inside, &bytes).await,
        };
        self.created(inside, put, &bytes).await
    }

    async fn put_if_absent(&self, inside: &str, bytes: &Bytes) -> object_store::Result<()> {
        let path = self.path(inside);
        self.store().put_opts(&path, bytes.clone().into(), PutMode::Create.into()).await.map(|_| ())
    }

    /// Whether a file has the bytes of a put-if-absent that ended with `put`.
    async fn created(&self, inside: &str, put: object_store::Result<()>, bytes: &Bytes) -> Result<bool> {
        let there = match put {
            Ok(()) => return Ok(true),
            // A put is repeated if its answer was lost, and then finds its own file.
            Err(object_store::Error::AlreadyExists { .. }) => {
                match self.store().get(&self.path(inside)).await {
                    Ok(got) => got.bytes().await,
                    Err(object_store::Error::NotFound { .. }) => return Ok(false),
                    Err(e) => Err(e),
                }
            }
            Err(e) => Err(e),
        };
        Ok(there.context(|| format!("cannot write {}/{inside}", self.shown()))? == *bytes)
    }

    /// Replaces `found`, a JSON file of the output, atomically. Returns whether the file now has this content. If the store
    /// detects that the file is no longer `found`, it stays.
    pub(crate) async fn replace<T: Serialize>(
        &self,
        inside: &str,
        value: &T,
        found: &Bytes,
        version: &UpdateVersion,
    ) -> Result<bool> {
        self.replace_bytes(inside, json(value)?, found, version).await
    }

    /// Replaces a file by bytes, as [`Self::replace`].
    ///
    /// # Errors
    /// As [`Self::replace`].
    pub(super) async fn replace_bytes(
        &self,
        inside: &str,
        bytes: Bytes,
        found: &Bytes,
        version: &UpdateVersion,
    ) -> Result<bool> {
        let path = self.path(inside);
        let there = || async { Ok::<_, Error>(self.read_bytes(inside).await?.map(|(bytes, _)| bytes)) };
        let now = there().await?;
        if now.as_ref() != Some(found) {
            return Ok(now == Some(bytes));
        }
        let written = match self.folder() {
            Some(folder) => local::replace(folder.join(inside), self.writer(), &bytes).await,
            None => {
                let put = |mode| self.store().put_opts(&path, bytes.clone().into(), mode);
                match put(PutMode::Update(version.clone()).into()).await {
                    // The server does not support conditions.
                    Err(
                        object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. },
                    ) => put(PutMode::Overwrite.into()).await.map(|_| ()),
                    put => put.map(|_| ()),
                }
            }
        };
        match written {
            Ok(()) => Ok(true),
            Err(object_store::Error::Precondition { .. } | object_store::Error::NotFound { .. }) => {
                Ok(there().await? == Some(bytes))
            }
            Err(e) => Err(e).context(|| format!("cannot write {}/{inside}", self.shown())),
        }
    }

    /// The objects under a folder of the output, sorted by path.
    pub(super) async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let listed = self.store().list(Some(&self.path(folder))).try_collect::<Vec<ObjectMeta>>().await;
        let mut listed = listed.context(|| format!("cannot list {}/{folder}", self.shown()))?;
        listed.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(listed)
    }

    /// Removes objects. It is no error if one is gone already.
    pub(super) async fn remove(&self, paths: Vec<Path>) -> Result<()> {
        let removed = self.store().delete_stream(futures::stream::iter(paths.into_iter().map(Ok)).boxed());
        let mut removed = std::pin::pin!(removed);
        while let Some(result) = removed.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(e).context(|| format!("cannot remove files of {}", self.shown())),
            }
        }
        Ok(())
    }

    /// Removes the empty folders in `_work` of a local output, and `_work` itself if it is empty.
    pub(super) fn remove_empty_work(&self) {
        if let Some(folder) = self.folder() {
            local::remove_empty(&folder.join(WORK));
        }
    }
}

fn json<T: Serialize>(value: &T) -> Result<Bytes> {
    let mut json = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::bug("a manifest cannot be written").because(e))?;
    json.push(b'\n');
    Ok(Bytes::from(json))
}
