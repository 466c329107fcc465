//! The objects of an output: read, put, listed and removed, on this machine or in any object store.

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
    /// Reads a file of the output whole; `None` if there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(super) async fn read_bytes(&self, inside: &str) -> Result<Option<(Bytes, UpdateVersion)>> {
        let Some((bytes, meta)) = self.read_object(inside).await? else { return Ok(None) };
        Ok(Some((bytes, UpdateVersion { e_tag: meta.e_tag, version: meta.version })))
    }

    /// The same with all that the store says of it.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(super) async fn read_object(&self, inside: &str) -> Result<Option<(Bytes, ObjectMeta)>> {
        let got = match self.store().get(&self.path(inside)).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e).context(|| format!("cannot read {}/{inside}", self.shown())),
        };
        let meta = got.meta.clone();
        match got.bytes().await {
            Ok(bytes) => Ok(Some((bytes, meta))),
            // On a disk the file is opened when it is asked for, and may be gone when it is read.
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e).context(|| format!("cannot read {}/{inside}", self.shown())),
        }
    }

    /// Reads a JSON file of the output; `None` if there is none.
    ///
    /// # Errors
    /// When the store does not answer or the file is not what it should be.
    pub(crate) async fn read<T: DeserializeOwned>(&self, inside: &str) -> Result<Option<T>> {
        let Some((bytes, _)) = self.read_bytes(inside).await? else { return Ok(None) };
        self.parse(inside, &bytes).map(Some)
    }

    /// What the bytes of a JSON file of ours say.
    ///
    /// # Errors
    /// When they are not what they should be.
    pub(super) fn parse<T: DeserializeOwned>(&self, inside: &str, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|e| {
            Error::input(format!(
                "{}/{inside} is not a manifest of this version; run again with --overwrite",
                self.shown()
            ))
            .because(e)
        })
    }

    /// Writes a JSON file of the output at once, unless another is there: whether it is there as given. The manifest of a
    /// run is on the disk then, where that is this machine's; what lies under `_work` may be lost in a power cut.
    ///
    /// # Errors
    /// When the store refuses.
    pub(crate) async fn create<T: Serialize>(&self, inside: &str, value: &T) -> Result<bool> {
        let bytes = json(value)?;
        if inside == MANIFEST {
            return self.create_whole(inside, bytes).await;
        }
        let put = self.put_if_absent(inside, &bytes).await;
        self.created(inside, put, &bytes).await
    }

    /// Writes a file of the output at once, unless another is there: whether it is there as given. It is on the disk then,
    /// where that is this machine's.
    ///
    /// # Errors
    /// When the store refuses.
    pub(super) async fn create_whole(&self, inside: &str, bytes: Bytes) -> Result<bool> {
        let put = match self.folder() {
            Some(folder) => local::create(folder, inside, &bytes).await,
            None => self.put_if_absent(inside, &bytes).await,
        };
        self.created(inside, put, &bytes).await
    }

    async fn put_if_absent(&self, inside: &str, bytes: &Bytes) -> object_store::Result<()> {
        let path = self.path(inside);
        self.store().put_opts(&path, bytes.clone().into(), PutMode::Create.into()).await.map(|_| ())
    }

    /// Whether a file is there as it was `put`, if absent.
    async fn created(&self, inside: &str, put: object_store::Result<()>, bytes: &Bytes) -> Result<bool> {
        let there = match put {
            Ok(()) => return Ok(true),
            // A put whose answer was lost is sent again, and then meets itself.
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

    /// Writes a JSON file of the output at once, replacing `found`: whether it is there as given. Readers see the one or
    /// the other. Where the store can tell that it is no longer `found` that is there, it stays.
    ///
    /// # Errors
    /// When the store refuses.
    pub(crate) async fn replace<T: Serialize>(
        &self,
        inside: &str,
        value: &T,
        found: &Bytes,
        version: &UpdateVersion,
    ) -> Result<bool> {
        self.replace_bytes(inside, json(value)?, found, version).await
    }

    /// The same with bytes.
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
            Some(folder) => local::replace(folder, inside, &bytes).await,
            None => {
                let put = |mode| self.store().put_opts(&path, bytes.clone().into(), mode);
                match put(PutMode::Update(version.clone()).into()).await {
                    // A server that has no such condition.
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

    /// Removes objects. One that is gone already is not an error.
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

    /// Removes the empty folders under `_work`, and itself where it is empty: object stores have no folders, so only a
    /// local one keeps them.
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
