//! The layout of an output: the paths of its files, on any object store. Their operations are in [`super::store`].

use std::path::{Path as FsPath, PathBuf};
use std::sync::Arc;

use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use object_store::ObjectStore;
use object_store::path::Path;
use url::Url;

use crate::address;
use crate::error::{Context, Error, Result};
use crate::schema::Table;

/// The folder of files that only runs read.
pub(super) const WORK: &str = "_work";

/// The manifest of a finished run.
pub(super) const MANIFEST: &str = "manifest.json";

/// The file in that folder that shows that an application has begun.
pub(crate) const BEGUN: &str = "_work/apply.json";

/// An output: a folder or URL prefix.
#[derive(Clone, Debug)]
pub struct Layout {
    store: Arc<dyn ObjectStore>,
    store_url: ObjectStoreUrl,
    root: Path,
    /// The output as the user named it.
    shown: String,
    /// The folder, if the output is on this machine.
    folder: Option<PathBuf>,
    /// The prefix of unfinished files on a disk.
    writer: String,
}

impl Layout {
    /// The output at `url`: a path, or a URL whose store the session knows.
    ///
    /// # Errors
    /// When the URL cannot be read or its store is unknown.
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

    /// The same output, whose unfinished files have the prefix `writer`, so that those of a killed process can be
    /// found.
    pub(crate) fn written_by(self, writer: &str) -> Self {
        Self { writer: format!("{writer}-"), ..self }
    }

    /// A folder of the output as an output of its own.
    pub(crate) fn within(&self, folder: &str) -> Self {
        Self {
            root: self.path(folder),
            shown: format!("{}/{folder}", self.shown.trim_end_matches('/')),
            folder: self.folder.as_ref().map(|root| root.join(folder)),
            ..self.clone()
        }
    }

    /// The prefix of unfinished files on a disk.
    pub(super) fn writer(&self) -> &str {
        &self.writer
    }

    /// The output as the user named it.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// The output with an absolute path, so that a process with another working folder can open it.
    pub(crate) fn absolute(&self) -> String {
        match &self.folder {
            Some(folder) => folder.to_string_lossy().into_owned(),
            None => self.shown.clone(),
        }
    }

    /// The store's URL, by which plans find it in a session.
    pub(crate) fn store_url(&self) -> &ObjectStoreUrl {
        &self.store_url
    }

    /// The store that the output is in.
    pub(super) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// The path of the output in its store.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder, if the output is on this machine.
    pub(crate) fn folder(&self) -> Option<&FsPath> {
        self.folder.as_deref()
    }

    /// The path of an entry inside the output; that of the output itself for an empty one.
    pub(crate) fn path(&self, inside: &str) -> Path {
        let parts = inside.split('/').filter(|part| !part.is_empty());
        parts.fold(self.root.clone(), |path, part| path.join(part))
    }

    /// The path inside the output of an object of its store; `None` for objects elsewhere.
    pub(super) fn inside(&self, path: &Path) -> Option<String> {
        let parts = path.prefix_match(&self.root)?;
        Some(parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"))
    }

    /// The folder of a table, inside the output.
    pub(crate) fn table(table: &str) -> String {
        match Table::named(table) {
            Some(_) => table.to_owned(),
            None => format!("{WORK}/{table}"),
        }
    }

    /// The manifest of a stage, inside the output. `key` distinguishes the stages of different runs.
    pub(crate) fn stage(stage: &str, key: &str) -> String {
        format!("{WORK}/{stage}.{key}.json")
    }

    /// The URL of a file of the output.
    ///
    /// # Errors
    /// When store and path are not a valid URL.
    pub(crate) fn url(&self, inside: &str) -> Result<Url> {
        let path = self.path(inside);
        // Encode the characters that would end the path; the parser encodes the rest.
        let written = path.as_ref().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
        Url::parse(&format!("{}/{written}", self.store_url.as_str().trim_end_matches('/')))
            .map_err(|e| Error::bug(format!("{path} cannot be made a URL")).because(e))
    }
}
