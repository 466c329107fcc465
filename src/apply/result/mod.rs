//! Reads a finished result: its files, its tables, and the documents that were removed with their texts.

mod removed;
mod tables;

pub use removed::{Removed, RemovedFilter};
pub use tables::TABLES;

use datafusion::prelude::SessionContext;

use super::manifest::ApplyManifest;
use crate::error::Result;
use crate::output::check::{self, Damage, ReadProgress};
use crate::output::manifest::File;
use crate::output::{Layout, applied};
use crate::rewrite::WrittenFile;

/// A finished result of `apply`.
pub struct AppliedResult {
    session: SessionContext,
    target: Layout,
    manifest: ApplyManifest,
    /// The places to which its sources were moved since, one for each of their URLs; none if they were not.
    places: Vec<String>,
}

impl AppliedResult {
    /// The finished result in the folder `url`; `None` if the folder has no result of `apply`.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) when it is not finished, another version wrote it, or the store does not answer.
    pub async fn find(session: &SessionContext, url: &str) -> Result<Option<Self>> {
        let target = Layout::open(session, url)?;
        let manifest = applied::manifest(&target).await?;
        Ok(manifest.map(|manifest| Self { session: session.clone(), target, manifest, places: Vec::new() }))
    }

    /// The same result, whose sources were moved to `places`, one for each of their URLs; none if they were not moved.
    #[must_use]
    pub fn with_source_in(self, places: Vec<String>) -> Self {
        Self { places, ..self }
    }

    /// Its files: those of the documents, and those of the tables of removed documents and spans.
    pub(crate) fn files(&self) -> Vec<File> {
        let mut files: Vec<File> = self.written().map(file).collect();
        files.extend(self.manifest.removed.iter().cloned());
        files.extend(self.manifest.removed_spans.iter().cloned());
        files
    }

    /// The files that are gone or have other bytes.
    ///
    /// # Errors
    /// When the store does not answer, or the manifest names a file outside of the folder.
    pub(crate) async fn damage(&self, seen: ReadProgress<'_>) -> Result<Vec<Damage>> {
        check::bytes(&self.target, &self.files().iter().collect::<Vec<_>>(), seen).await
    }

    fn written(&self) -> impl Iterator<Item = &WrittenFile> {
        self.manifest.files.iter().flat_map(|file| &file.written)
    }
}

/// A file of documents as one of a table.
fn file(WrittenFile { path, rows, bytes, crc32 }: &WrittenFile) -> File {
    File { table: "kept".to_owned(), path: path.clone(), rows: *rows, bytes: *bytes, crc32: *crc32 }
}
