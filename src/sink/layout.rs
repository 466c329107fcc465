//! The layout of an output: which path holds what, on any object store.

use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::local;
use super::manifest::{File, Run};
use crate::address;
use crate::error::{Context, Error, Result};
use crate::job::FORMAT_VERSION;
use crate::local_path;
use crate::schema::Table;

/// The folder of what only a run itself reads.
pub(super) const WORK: &str = "_work";

/// The manifest of a finished run.
pub(super) const MANIFEST: &str = "manifest.json";

/// An output: a folder or URL prefix.
#[derive(Clone, Debug)]
pub struct Layout {
    store: Arc<dyn ObjectStore>,
    store_url: ObjectStoreUrl,
    root: Path,
    /// The output as the user named it.
    shown: String,
    /// The folder, where the output is on this machine.
    folder: Option<PathBuf>,
}

impl Layout {
    /// The output at `url`: a path, or a URL whose store the session knows.
    ///
    /// # Errors
    /// When the URL cannot be read or its store is unknown.
    pub fn open(session: &SessionContext, url: &str) -> Result<Self> {
        address::check(url).map_err(|said| Error::job(format!("the URL of an output {said}")))?;
        let (parsed, folder) = match address::scheme(url) {
            Some((scheme, _)) if !scheme.eq_ignore_ascii_case("file") => (address::url(url)?, None),
            Some(_) => {
                let parsed = address::url(url)?;
                let folder =
                    parsed.to_file_path().map_err(|()| Error::job(format!("{url} is no local path")))?;
                (parsed, Some(local_path::absolute(folder)?))
            }
            None => {
                let folder =
                    local_path::absolute(url).context(|| format!("cannot use {url} as an output"))?;
                let parsed = Url::from_directory_path(&folder)
                    .map_err(|()| Error::job(format!("{url} is no path")))?;
                (parsed, Some(folder))
            }
        };
        let root = match &folder {
            Some(folder) => Path::from_absolute_path(folder).map_err(object_store::Error::from)?,
            None => Path::from_url_path(parsed.path()).map_err(object_store::Error::from)?,
        };
        let store_url = ObjectStoreUrl::parse(&parsed[..url::Position::BeforePath])?;
        let store = session
            .runtime_env()
            .object_store(&store_url)
            .context(|| format!("cannot use {url} as an output"))?;
        Ok(Self { store, store_url, root, shown: url.to_owned(), folder })
    }

    /// The output as the user named it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The store's URL, by which plans find it in a session.
    pub fn store_url(&self) -> &ObjectStoreUrl {
        &self.store_url
    }

    /// The path that all others start with.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder, where the output is on this machine.
    pub fn folder(&self) -> Option<&FsPath> {
        self.folder.as_deref()
    }

    /// The path of an entry inside the output.
    pub fn path(&self, inside: &str) -> Path {
        inside.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    /// The path inside the output of an object of its store; none for objects elsewhere.
    pub(super) fn inside(&self, path: &Path) -> Option<String> {
        let parts = path.prefix_match(&self.root)?;
        Some(parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"))
    }

    /// The folder of a table, inside the output.
    pub fn table(table: &str) -> String {
        match Table::named(table) {
            Some(_) => table.to_owned(),
            None => format!("{WORK}/{table}"),
        }
    }

    /// The manifest of a step, inside the output. `key` tells the steps of one run from those of others.
    pub fn step(step: &str, key: &str) -> String {
        format!("{WORK}/{step}.{key}.json")
    }

    /// The URL of a file of the output.
    ///
    /// # Errors
    /// When store and path do not make a URL.
    pub fn url(&self, inside: &str) -> Result<Url> {
        let path = self.path(inside);
        // What a URL would read otherwise; the rest is encoded as it is parsed.
        let written = path.as_ref().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        Url::parse(&format!("{}/{written}", self.store_url.as_str().trim_end_matches('/')))
            .map_err(|e| Error::bug(format!("{path} makes no URL")).because(e))
    }

    /// Reads a file of the output whole; none where there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(super) async fn read_bytes(&self, inside: &str) -> Result<Option<(Bytes, UpdateVersion)>> {
        let got = match self.store.get(&self.path(inside)).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e).context(|| format!("cannot read {}/{inside}", self.shown)),
        };
        let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
        match got.bytes().await {
            Ok(bytes) => Ok(Some((bytes, version))),
            // On a disk the file is opened when it is asked for, and may be gone when it is read.
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e).context(|| format!("cannot read {}/{inside}", self.shown)),
        }
    }

    /// Whether anything lies in the folders of ours, or a manifest.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn exists(&self) -> Result<bool> {
        let folders = Table::ALL.map(Table::name).into_iter().chain([WORK]);
        if let Some(root) = &self.folder {
            return Ok(folders.chain([MANIFEST]).any(|name| root.join(name).exists()));
        }
        for folder in folders {
            if self.store.list(Some(&self.path(folder))).try_next().await?.is_some() {
                return Ok(true);
            }
        }
        Ok(self.manifest_bytes().await?.is_some())
    }

    /// The bytes of `manifest.json`, and what the store calls this version of it; none where there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn manifest_bytes(&self) -> Result<Option<(Bytes, UpdateVersion)>> {
        self.read_bytes(MANIFEST).await
    }

    /// Reads the manifest of a finished run, whose rows this program may or may not be able to read: see
    /// [`Run::check_format`]. None where there is none.
    ///
    /// # Errors
    /// When the store does not answer, or it is no manifest, or that of a newer program.
    pub async fn manifest(&self) -> Result<Option<Run>> {
        let manifest = self.read::<Run>(MANIFEST).await?;
        // What an older program wrote is known; what a newer one means by its names is not.
        if let Some(newer) = manifest.as_ref().filter(|run| run.format_version > u64::from(FORMAT_VERSION)) {
            newer.check_format(&self.shown)?;
        }
        Ok(manifest)
    }

    /// Reads a JSON file of the output; none where there is none.
    ///
    /// # Errors
    /// When the store does not answer or the file is not what it should be.
    pub async fn read<T: DeserializeOwned>(&self, inside: &str) -> Result<Option<T>> {
        let Some((bytes, _)) = self.read_bytes(inside).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Error::input(format!(
                "{}/{inside} is not a manifest of this version; run again with --overwrite",
                self.shown
            ))
            .because(e)
        })
    }

    /// Writes a JSON file of the output at once, unless another is there: whether it is there as given. The manifest of a
    /// run is on the disk then, where that is this machine's; what lies under `_work` may be lost in a power cut.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn create<T: Serialize>(&self, inside: &str, value: &T) -> Result<bool> {
        let (path, json) = (self.path(inside), json(value)?);
        let written = match &self.folder {
            Some(folder) if inside == MANIFEST => local::create(folder, inside, &json).await,
            _ => self.store.put_opts(&path, json.clone().into(), PutMode::Create.into()).await.map(|_| ()),
        };
        let there = match written {
            Ok(()) => return Ok(true),
            // A put whose answer was lost is sent again, and then meets itself.
            Err(object_store::Error::AlreadyExists { .. }) => match self.store.get(&path).await {
                Ok(got) => got.bytes().await,
                Err(object_store::Error::NotFound { .. }) => return Ok(false),
                Err(e) => Err(e),
            },
            Err(e) => Err(e),
        };
        Ok(there.context(|| format!("cannot write {}/{inside}", self.shown))? == json)
    }

    /// Writes a JSON file of the output at once in place of `found`: whether it is there as given. Readers see the one or
    /// the other. Where the store can tell that it is no longer `found` that is there, it stays.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn replace<T: Serialize>(
        &self,
        inside: &str,
        value: &T,
        found: &Bytes,
        version: &UpdateVersion,
    ) -> Result<bool> {
        let (path, json) = (self.path(inside), json(value)?);
        let there = || async { Ok::<_, Error>(self.read_bytes(inside).await?.map(|(bytes, _)| bytes)) };
        let now = there().await?;
        if now.as_ref() != Some(found) {
            return Ok(now == Some(json));
        }
        let written = match &self.folder {
            Some(folder) => local::replace(folder, inside, &json).await,
            None => {
                let put = |mode| self.store.put_opts(&path, json.clone().into(), mode);
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
                Ok(there().await? == Some(json))
            }
            Err(e) => Err(e).context(|| format!("cannot write {}/{inside}", self.shown)),
        }
    }

    /// Removes a JSON file that this program wrote and that says nothing true any more.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn discard(&self, inside: &str) -> Result<()> {
        self.remove(vec![self.path(inside)]).await
    }

    /// The names of the steps whose manifests bear `key`, sorted.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn steps(&self, key: &str) -> Result<Vec<String>> {
        let listed = self.store.list_with_delimiter(Some(&self.path(WORK))).await;
        let listed = listed.context(|| format!("cannot list {}/{WORK}", self.shown))?;
        let ending = format!(".{key}.json");
        let names = listed.objects.iter().filter_map(|object| object.location.filename());
        let mut steps: Vec<String> =
            names.filter_map(|name| name.strip_suffix(&ending)).map(str::to_owned).collect();
        steps.sort_unstable();
        Ok(steps)
    }

    /// Removes a step: its manifest first, so that nobody takes over what is half removed, then its `files`.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn remove_step(&self, step: &str, key: &str, files: &[File]) -> Result<()> {
        self.discard(&Self::step(step, key)).await?;
        self.remove(files.iter().map(|file| self.path(&file.path)).collect()).await
    }

    /// The store that the output is in.
    pub(super) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The objects under a folder of the output, sorted by path.
    pub(super) async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let listed = self.store.list(Some(&self.path(folder))).try_collect::<Vec<ObjectMeta>>().await;
        let mut listed = listed.context(|| format!("cannot list {}/{folder}", self.shown))?;
        listed.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(listed)
    }

    /// Removes objects. One that is gone already is no error.
    pub(super) async fn remove(&self, paths: Vec<Path>) -> Result<()> {
        let removed = self.store.delete_stream(futures::stream::iter(paths.into_iter().map(Ok)).boxed());
        let mut removed = std::pin::pin!(removed);
        while let Some(result) = removed.next().await {
            match result {
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(e).context(|| format!("cannot remove files of {}", self.shown)),
            }
        }
        Ok(())
    }

    /// Removes the empty folders under `_work`, and itself where it is empty: object stores have no folders, so only a
    /// local one keeps them.
    pub(super) fn remove_empty_work(&self) {
        if let Some(folder) = &self.folder {
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
