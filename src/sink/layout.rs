//! The layout of an output: which path holds what, on any object store.

use std::path::Path as FsPath;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use super::leftovers::{Leftover, Place, staged};
use crate::address;
use crate::error::{Context, Error, Result};
use crate::local_path;
use crate::schema::Table;

/// The folder of what only a run itself reads.
pub(super) const WORK: &str = "_work";

/// An output: a folder or URL prefix.
#[derive(Clone, Debug)]
pub struct Layout {
    store: Arc<dyn ObjectStore>,
    store_url: ObjectStoreUrl,
    root: Path,
    /// The output as the user named it.
    shown: String,
    /// The folder, where the output is on this machine.
    folder: Option<std::path::PathBuf>,
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

    /// The path of an entry inside the output.
    pub fn path(&self, inside: &str) -> Path {
        inside.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }

    /// The folder of a table, inside the output.
    pub fn table(table: &str) -> String {
        match Table::named(table) {
            Some(_) => table.to_owned(),
            None => format!("{WORK}/{table}"),
        }
    }

    /// The manifest of a stage, inside the output.
    pub fn stage(stage: &str) -> String {
        format!("{WORK}/{stage}.json")
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

    /// Reads a JSON file of the output; none where there is none.
    ///
    /// # Errors
    /// When the store does not answer or the file is not what it should be.
    pub async fn read<T: DeserializeOwned>(&self, inside: &str) -> Result<Option<T>> {
        let got = match self.store.get(&self.path(inside)).await {
            Ok(got) => got,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e).context(|| format!("cannot read {}/{inside}", self.shown)),
        };
        let bytes = got.bytes().await.context(|| format!("cannot read {}/{inside}", self.shown))?;
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            Error::input(format!(
                "{}/{inside} is not a manifest of this version; run again with --overwrite",
                self.shown
            ))
            .because(e)
        })
    }

    /// Writes a JSON file of the output in one put, unless another is there: whether it is there as given.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn create<T: Serialize>(&self, inside: &str, value: &T) -> Result<bool> {
        let mut json = serde_json::to_vec_pretty(value)
            .map_err(|e| Error::bug("a manifest cannot be written").because(e))?;
        json.push(b'\n');
        let (path, json) = (self.path(inside), Bytes::from(json));
        let there = match self.store.put_opts(&path, json.clone().into(), PutMode::Create.into()).await {
            Ok(_) => return Ok(true),
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

    /// Removes everything that this program writes, the manifest first; what else lies there stays.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn clear(&self) -> Result<()> {
        self.remove(vec![self.path("manifest.json")]).await?;
        for folder in Table::ALL.map(Table::name).into_iter().chain([WORK]) {
            self.remove_under(folder, |_| true).await?;
        }
        Ok(())
    }

    /// Removes the parts of public tables that `keep` does not name, and everything under `_work`.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn sweep(&self, keep: &std::collections::BTreeSet<&str>) -> Result<()> {
        let kept: std::collections::BTreeSet<Path> = keep.iter().map(|inside| self.path(inside)).collect();
        for table in Table::ALL.map(Table::name) {
            self.remove_under(table, |path| is_part(path) && !kept.contains(path)).await?;
        }
        self.remove_under(WORK, |_| true).await
    }

    /// Removes what [`leftovers`](super::leftovers::leftovers) found.
    ///
    /// # Errors
    /// When the store refuses.
    pub async fn remove_leftovers(&self, found: &[Leftover]) -> Result<()> {
        let mut objects = Vec::new();
        for leftover in found {
            match &leftover.place {
                Place::Object(path) => objects.push(path.clone()),
                Place::Staged(file) => remove_file(file)?,
            }
        }
        self.remove(objects).await?;
        if let Some(root) = &self.folder {
            remove_empty(&root.join(WORK));
        }
        Ok(())
    }

    /// The folder, where the output is on this machine.
    pub(super) fn folder(&self) -> Option<&FsPath> {
        self.folder.as_deref()
    }

    /// The objects under a folder of the output, sorted by path.
    pub(super) async fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>> {
        let listed = self.store.list(Some(&self.path(folder))).try_collect::<Vec<ObjectMeta>>().await;
        let mut listed = listed.context(|| format!("cannot list {}/{folder}", self.shown))?;
        listed.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(listed)
    }

    async fn remove_under(&self, folder: &str, gone: impl Fn(&Path) -> bool) -> Result<()> {
        let listed = self.list(folder).await?.into_iter().map(|meta| meta.location);
        self.remove(listed.filter(gone).collect()).await?;
        if let Some(root) = &self.folder {
            for leftover in staged(&root.join(folder)) {
                if let Place::Staged(file) = &leftover.place {
                    remove_file(file)?;
                }
            }
            if folder == WORK {
                remove_empty(&root.join(folder));
            }
        }
        Ok(())
    }

    async fn remove(&self, paths: Vec<Path>) -> Result<()> {
        let removed = self.store.delete_stream(futures::stream::iter(paths.into_iter().map(Ok)).boxed());
        let mut removed = std::pin::pin!(removed);
        while let Some(result) = removed.next().await {
            match result {
                // Two runs may sweep at once.
                Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(e).context(|| format!("cannot remove files of {}", self.shown)),
            }
        }
        Ok(())
    }
}

/// Whether a path has the name that the writer node gives to files.
pub(super) fn is_part(path: &Path) -> bool {
    path.filename().is_some_and(|name| name.starts_with("part-") && name.ends_with(".parquet"))
}

fn remove_file(file: &FsPath) -> Result<()> {
    match std::fs::remove_file(file) {
        // Two runs may sweep at once.
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).context(|| format!("cannot remove {}", file.display()))
        }
        _ => Ok(()),
    }
}

/// Removes empty folders: object stores have none, so only a local one keeps them.
fn remove_empty(folder: &FsPath) {
    if let Ok(entries) = std::fs::read_dir(folder) {
        entries.flatten().for_each(|entry| remove_empty(&entry.path()));
    }
    // A folder that is not empty stays, which is right.
    let _ = std::fs::remove_dir(folder);
}
