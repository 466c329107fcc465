//! The files in a folder of an output, also those of other programs.

use std::path::PathBuf;

use futures::TryStreamExt;
use object_store::ObjectStore;
use object_store::path::Path;

use super::{Layout, local};
use crate::error::{Context, Result};

/// A file in an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputEntry {
    /// Its path inside the output.
    pub inside: String,
    /// Its size.
    pub bytes: u64,
    place: EntryLocation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum EntryLocation {
    Disk(PathBuf),
    Store(Path),
}

impl OutputEntry {
    /// Whether its name is that of an unfinished file of `output`'s writer.
    pub(crate) fn is_staged_by(&self, output: &Layout) -> bool {
        local::is_staged(self.inside.rsplit('/').next().unwrap_or_default(), output.writer())
    }
}

impl Layout {
    /// A file anywhere in the output that is not one of `ours`; `None` if there are no others.
    pub(crate) async fn holds_beside(
        &self,
        ours: impl Fn(&OutputEntry) -> bool,
    ) -> Result<Option<OutputEntry>> {
        if self.folder().is_some() {
            return Ok(self.entries("").await?.into_iter().find(|entry| !ours(entry)));
        }
        let mut listed = self.store().list(Some(self.root()));
        while let Some(meta) = listed.try_next().await.context(|| format!("cannot list {}", self.shown()))? {
            let Some(inside) = self.inside(&meta.location) else { continue };
            let entry = OutputEntry { inside, bytes: meta.size, place: EntryLocation::Store(meta.location) };
            if !ours(&entry) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    /// The files under a folder of the output, or in all of it.
    pub(crate) async fn entries(&self, folder: &str) -> Result<Vec<OutputEntry>> {
        let Some(root) = self.folder() else {
            let listed = self.list(folder).await?.into_iter();
            let entry = |meta: object_store::ObjectMeta| {
                let inside = self.inside(&meta.location)?;
                Some(OutputEntry { inside, bytes: meta.size, place: EntryLocation::Store(meta.location) })
            };
            return Ok(listed.filter_map(entry).collect());
        };
        let files = local::files_under(&root.join(folder));
        let files = files.context(|| format!("cannot list {}/{folder}", self.shown()))?;
        let entry = |(file, bytes): (PathBuf, u64)| {
            let inside = file.strip_prefix(root).ok()?.to_string_lossy().into_owned();
            Some(OutputEntry { inside, bytes, place: EntryLocation::Disk(file) })
        };
        Ok(files.into_iter().filter_map(entry).collect())
    }

    /// Removes files. It is no error if one is gone already.
    pub(crate) async fn remove_entries(&self, entries: Vec<OutputEntry>) -> Result<()> {
        let mut objects = Vec::new();
        for entry in entries {
            match entry.place {
                EntryLocation::Disk(file) => {
                    local::remove(&file).context(|| format!("cannot remove {}", file.display()))?;
                }
                EntryLocation::Store(path) => objects.push(path),
            }
        }
        self.remove(objects).await?;
        self.remove_empty_work();
        Ok(())
    }
}
