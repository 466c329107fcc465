//! The paths of the files in an output, and functions that read, write, list and remove them, in an object store or on this machine.

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
use crate::address;
use crate::error::{Context, Error, Result};
use crate::schema::Table;

/// The folder of files that only runs read.
pub(super) const WORK: &str = "_work";

pub(super) const MANIFEST: &str = "manifest.json";

/// The file in `_resemblance/` that shows that `apply` has begun.
pub(crate) const BEGUN: &str = "_work/apply.json";

/// Returns `None` if a request failed because its object does not exist.
pub(super) fn unless_missing<T>(result: object_store::Result<T>) -> object_store::Result<Option<T>> {
    match result {
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        result => result.map(Some),
    }
}

/// An output: a folder or URL prefix.
#[derive(Clone, Debug)]
pub struct Layout {
    pub(super) store: Arc<dyn ObjectStore>,
    store_url: ObjectStoreUrl,
    root: Path,
    /// The name of the output as written by the user.
    shown: String,
    /// The folder of the output if it is on this machine.
    folder: Option<PathBuf>,
    pub(super) writer: String,
}

impl Layout {
    /// Opens the output at `url`, which is a path or a URL. The session must contain the store of the URL. Fails if the URL is invalid, or
    /// if its store is unknown.
    pub fn open(session: &SessionContext, url: &str) -> Result<Self> {
        address::check(url).map_err(|fault| Error::job(format!("the URL of an output {fault}")))?;
        let (parsed, folder) = match address::scheme(url) {
            Some((scheme, _)) if !scheme.eq_ignore_ascii_case("file") => (address::url(url)?, None),
            Some(_) => {
                let parsed = address::url(url)?;
                let folder =
                    parsed.to_file_path().map_err(|()| Error::job(format!("{url} is not a local path")))?;
                (parsed, Some(address::absolute(folder)?))
            }
            None => {
                let folder = address::absolute(url).context(|| format!("cannot use {url} as an output"))?;
                let parsed = Url::from_directory_path(&folder)
                    .map_err(|()| Error::job(format!("{url} is not a path")))?;
                (parsed, Some(folder))
            }
        };
        if folder.as_ref().is_some_and(|folder| folder.is_file()) {
            return Err(Error::job(format!(
                "{url} is a file, and the files of an output are in a folder: name that folder"
            )));
        }
        let root = match &folder {
            Some(folder) => Path::from_absolute_path(folder).map_err(object_store::Error::from)?,
            None => Path::from_url_path(parsed.path()).map_err(object_store::Error::from)?,
        };
        let store_url = ObjectStoreUrl::parse(&parsed[..url::Position::BeforePath])?;
        let store = session
            .runtime_env()
            .object_store(&store_url)
            .context(|| format!("cannot use {url} as an output"))?;
        Ok(Self { store, store_url, root, shown: url.to_owned(), folder, writer: String::new() })
    }

    /// Returns the output at the path `root` of a store, for a task that knows no session.
    pub(super) fn in_store(store: Arc<dyn ObjectStore>, store_url: &str, root: Path) -> Result<Self> {
        let (store_url, shown) = (ObjectStoreUrl::parse(store_url)?, root.to_string());
        Ok(Self { store, store_url, root, shown, folder: None, writer: String::new() })
    }

    /// Sets the prefix in the names of unfinished files to `writer`, so that the files of a killed process can be found.
    pub(crate) fn written_by(self, writer: &str) -> Self {
        Self { writer: format!("{writer}-"), ..self }
    }

    /// Returns a folder inside the output as a separate output.
    pub(crate) fn within(&self, folder: &str) -> Self {
        Self {
            root: self.path(folder),
            shown: format!("{}/{folder}", self.shown.trim_end_matches('/')),
            folder: self.folder.as_ref().map(|root| root.join(folder)),
            ..self.clone()
        }
    }

    /// Returns the folders beside the output as outputs, in the order of their names.
    pub(crate) async fn siblings(&self) -> Result<Vec<Layout>> {
        let Some((parent, name)) = self.root.as_ref().rsplit_once('/') else { return Ok(Vec::new()) };
        let parent = Path::parse(parent).map_err(object_store::Error::from)?;
        let listed = unless_missing(self.store.list_with_delimiter(Some(&parent)).await)
            .context(|| format!("cannot list the folders beside {}", self.shown))?;
        let mut roots = listed.map(|listed| listed.common_prefixes).unwrap_or_default();
        roots.retain(|root| root.filename() != Some(name));
        roots.sort();
        let sibling = |root: Path| {
            let name = root.filename().unwrap_or_default();
            let shown = self.shown.trim_end_matches('/').rsplit_once('/');
            let shown = shown.map_or_else(|| name.to_owned(), |(parent, _)| format!("{parent}/{name}"));
            let folder = self.folder.as_ref().map(|own| own.with_file_name(name));
            Self { root, shown, folder, ..self.clone() }
        };
        Ok(roots.into_iter().map(sibling).collect())
    }

    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the output's absolute path, which a process with another working folder can open.
    pub(crate) fn absolute(&self) -> String {
        match &self.folder {
            Some(folder) => folder.to_string_lossy().into_owned(),
            None => self.shown.clone(),
        }
    }

    /// The URL of the store. Plans use it to find the store in a session.
    pub(crate) fn store_url(&self) -> &ObjectStoreUrl {
        &self.store_url
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn folder(&self) -> Option<&FsPath> {
        self.folder.as_deref()
    }

    /// Returns the path of an entry inside the output. An empty `inside` is the output itself.
    pub(crate) fn path(&self, inside: &str) -> Path {
        let parts = inside.split('/').filter(|part| !part.is_empty());
        parts.fold(self.root.clone(), |path, part| path.join(part))
    }

    /// Returns the path inside the output for an object in the same store, or `None` for objects outside the output.
    pub(super) fn inside(&self, path: &Path) -> Option<String> {
        let parts = path.prefix_match(&self.root)?;
        Some(parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"))
    }

    /// Returns the folder of a table inside the output.
    pub(crate) fn table(table: &str) -> String {
        match Table::named(table) {
            Some(_) => table.to_owned(),
            None => format!("{WORK}/{table}"),
        }
    }

    /// Returns the path of a stage's manifest inside the output. `key` distinguishes the stages of different runs.
    pub(crate) fn stage(stage: &str, key: &str) -> String {
        format!("{WORK}/{stage}.{key}.json")
    }

    pub(crate) fn url(&self, inside: &str) -> Result<Url> {
        let path = self.path(inside);
        // Encodes the characters that would end the path. The parser encodes other special characters.
        let written = path.as_ref().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        Url::parse(&format!("{}/{written}", self.store_url.as_str().trim_end_matches('/')))
            .map_err(|e| Error::bug(format!("{path} cannot be made a URL")).because(e))
    }

    /// Returns the bytes of a file and their version in the store, or `None` if the file does not exist.
    pub(super) async fn read_bytes(&self, inside: &str) -> Result<Option<(Bytes, UpdateVersion)>> {
        let Some((bytes, meta)) = self.read_object(inside).await? else { return Ok(None) };
        Ok(Some((bytes, UpdateVersion { e_tag: meta.e_tag, version: meta.version })))
    }

    /// Returns the bytes of a file and its metadata in the store, or `None` if the file does not exist.
    pub(super) async fn read_object(&self, inside: &str) -> Result<Option<(Bytes, ObjectMeta)>> {
        let failed = || format!("cannot read {}/{inside}", self.shown());
        let got = self.store.get(&self.path(inside)).await;
        let Some(got) = unless_missing(got).context(failed)? else { return Ok(None) };
        let meta = got.meta.clone();
        // A file on a disk may disappear after it was opened and before it is read.
        let bytes = unless_missing(got.bytes().await).context(failed)?;
        Ok(bytes.map(|bytes| (bytes, meta)))
    }

    /// Reads a JSON file of the output. Returns `None` if the file does not exist.
    pub(crate) async fn read<T: DeserializeOwned>(&self, inside: &str) -> Result<Option<T>> {
        let Some((bytes, _)) = self.read_bytes(inside).await? else { return Ok(None) };
        self.parse(inside, &bytes).map(Some)
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, inside: &str, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|e| {
            Error::input(format!(
                "{}/{inside} is not a manifest of this version; run again with --overwrite",
                self.shown()
            ))
            .because(e)
        })
    }

    /// Writes a JSON file atomically unless the path exists. Returns whether the file now has this content. On a local disk, the manifest
    /// of a run is synced, but files under `_work` can be lost in a power cut.
    pub(crate) async fn create<T: Serialize>(&self, inside: &str, value: &T) -> Result<bool> {
        let bytes = json(value)?;
        if inside == MANIFEST {
            return self.create_whole(inside, bytes).await;
        }
        let put = self.put_if_absent(inside, &bytes).await;
        self.created(inside, put, &bytes).await
    }

    /// Writes a file atomically unless the path exists, and syncs it on a local disk. Returns whether the file now has this content.
    pub(super) async fn create_whole(&self, inside: &str, bytes: Bytes) -> Result<bool> {
        let put = match self.folder() {
            Some(folder) => local::put(folder.join(inside), &self.writer, &bytes, false).await,
            None => self.put_if_absent(inside, &bytes).await,
        };
        self.created(inside, put, &bytes).await
    }

    async fn put_if_absent(&self, inside: &str, bytes: &Bytes) -> object_store::Result<()> {
        let path = self.path(inside);
        self.store.put_opts(&path, bytes.clone().into(), PutMode::Create.into()).await.map(|_| ())
    }

    /// Whether the file has these bytes after a conditional put. `put` is the result of the put.
    async fn created(&self, inside: &str, put: object_store::Result<()>, bytes: &Bytes) -> Result<bool> {
        match put {
            Ok(()) => Ok(true),
            // A put is retried if its answer was lost. The second put then finds the file that the first put wrote.
            Err(object_store::Error::AlreadyExists { .. }) => {
                Ok(self.read_bytes(inside).await?.is_some_and(|(there, _)| there == *bytes))
            }
            Err(e) => Err(e).context(|| format!("cannot write {}/{inside}", self.shown())),
        }
    }

    /// Replaces a JSON file atomically if its content is `found`. Returns whether the file now has the new content.
    pub(crate) async fn replace<T: Serialize>(
        &self,
        inside: &str,
        value: &T,
        found: &Bytes,
        version: &UpdateVersion,
    ) -> Result<bool> {
        self.replace_bytes(inside, json(value)?, found, version).await
    }

    /// Replaces the content of a file with bytes: see [`Self::replace`].
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
            Some(folder) => local::put(folder.join(inside), &self.writer, &bytes, true).await,
            None => {
                let put = |mode| self.store.put_opts(&path, bytes.clone().into(), mode);
                match put(PutMode::Update(version.clone()).into()).await {
                    // The server does not support conditional puts.
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

    /// Returns the objects under a folder of the output, sorted by path.
    pub(super) async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let listed = self.store.list(Some(&self.path(folder))).try_collect::<Vec<ObjectMeta>>().await;
        let mut listed = listed.context(|| format!("cannot list {}/{folder}", self.shown()))?;
        listed.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(listed)
    }

    /// Removes objects. It is not an error if an object is already gone.
    pub(super) async fn remove(&self, paths: Vec<Path>) -> Result<()> {
        let removed = self.store.delete_stream(futures::stream::iter(paths.into_iter().map(Ok)).boxed());
        let mut removed = std::pin::pin!(removed);
        while let Some(result) = removed.next().await {
            unless_missing(result).context(|| format!("cannot remove files of {}", self.shown()))?;
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

pub(super) fn json<T: Serialize>(value: &T) -> Result<Bytes> {
    let mut json = serde_json::to_vec_pretty(value)
        .map_err(|e| Error::bug("a manifest cannot be written").because(e))?;
    json.push(b'\n');
    Ok(Bytes::from(json))
}

/// A file in a folder of an output. Any program may have written it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputEntry {
    /// The path inside the output.
    pub inside: String,
    pub bytes: u64,
}

impl OutputEntry {
    /// Whether the name of the file shows that it is an unfinished file of `output`'s writer.
    pub(crate) fn is_staged_by(&self, output: &Layout) -> bool {
        local::is_staged(self.inside.rsplit('/').next().unwrap_or_default(), &output.writer)
    }
}

impl Layout {
    /// Returns a file in the output for which `ours` returns false, if there is one.
    pub(crate) async fn holds_beside(
        &self,
        ours: impl Fn(&OutputEntry) -> bool,
    ) -> Result<Option<OutputEntry>> {
        if self.folder().is_some() {
            return Ok(self.entries("").await?.into_iter().find(|entry| !ours(entry)));
        }
        let mut listed = self.store.list(Some(self.root()));
        while let Some(meta) = listed.try_next().await.context(|| format!("cannot list {}", self.shown()))? {
            let entry = self.entry(&meta).filter(|entry| !ours(entry));
            if entry.is_some() {
                return Ok(entry);
            }
        }
        Ok(None)
    }

    fn entry(&self, meta: &ObjectMeta) -> Option<OutputEntry> {
        Some(OutputEntry { inside: self.inside(&meta.location)?, bytes: meta.size })
    }

    /// Lists the files under a folder of the output. An empty `folder` is the whole output.
    pub(crate) async fn entries(&self, folder: &str) -> Result<Vec<OutputEntry>> {
        let Some(root) = self.folder() else {
            return Ok(self.list(folder).await?.iter().filter_map(|meta| self.entry(meta)).collect());
        };
        let files = local::files_under(&root.join(folder));
        let files = files.context(|| format!("cannot list {}/{folder}", self.shown()))?;
        let entry = |(file, bytes): (PathBuf, u64)| {
            let inside = file.strip_prefix(root).ok()?.to_string_lossy().into_owned();
            Some(OutputEntry { inside, bytes })
        };
        Ok(files.into_iter().filter_map(entry).collect())
    }

    /// Removes files. It is not an error if a file is already gone.
    pub(crate) async fn remove_entries(&self, entries: Vec<OutputEntry>) -> Result<()> {
        let Some(root) = self.folder() else {
            return self.remove(entries.iter().map(|entry| self.path(&entry.inside)).collect()).await;
        };
        for entry in entries {
            let file = root.join(entry.inside);
            local::remove(&file).context(|| format!("cannot remove {}", file.display()))?;
        }
        self.remove_empty_work();
        Ok(())
    }
}
