//! The published state of an output: the manifest of its run and those of its stages.

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::{ObjectStore, UpdateVersion};
use serde::Deserialize;

use super::APPLIED;
use super::manifest::{File, Run};
use super::ours;
use super::paths::{BEGUN, Layout, MANIFEST, WORK};
use crate::address;
use crate::error::{Context, Error, Result};
use crate::job::FORMAT_VERSION;
use crate::schema::Table;

/// The output in the manifest of a result of `apply`.
#[derive(Deserialize)]
struct PublishedOutput {
    output_url: String,
}

impl Layout {
    /// Whether there is a manifest or any file in our folders.
    pub(crate) async fn exists(&self) -> Result<bool> {
        let folders = Table::ALL.map(Table::name).into_iter().chain([WORK]);
        if let Some(root) = self.folder() {
            return Ok(folders.chain([MANIFEST]).any(|name| root.join(name).exists()));
        }
        for folder in folders {
            if self.store().list(Some(&self.path(folder))).try_next().await?.is_some() {
                return Ok(true);
            }
        }
        Ok(self.manifest_bytes().await?.is_some())
    }

    /// The bytes of `manifest.json` and the store's version of it; `None` if the file does not exist.
    pub(crate) async fn manifest_bytes(&self) -> Result<Option<(Bytes, UpdateVersion)>> {
        self.read_bytes(MANIFEST).await
    }

    /// The bytes of `manifest.json`, and when it was put, in milliseconds since 1970; `None` if the file does not exist.
    pub(super) async fn published_manifest(&self) -> Result<Option<(Bytes, i64)>> {
        let found = self.read_object(MANIFEST).await?;
        Ok(found.map(|(bytes, meta)| (bytes, meta.last_modified.timestamp_millis())))
    }

    /// Reads the manifest of a finished run, whose rows this program may or may not be able to read: see
    /// [`Run::check_format`]. `None` if no run has finished here.
    ///
    /// # Errors
    /// When the store does not answer, or another program or a newer version wrote it.
    pub(crate) async fn manifest(&self) -> Result<Option<Run>> {
        let Some((bytes, _)) = self.manifest_bytes().await? else { return Ok(None) };
        let manifest = self.parse::<Run>(MANIFEST, &bytes);
        if manifest.is_err() {
            ours::refuse_writer(&bytes, self.shown())?;
        }
        let manifest = manifest.map(Some)?;
        // The names in a newer manifest may have other meanings.
        if let Some(newer) = manifest.as_ref().filter(|run| run.format_version > u64::from(FORMAT_VERSION)) {
            newer.check_format(self.shown())?;
        }
        Ok(manifest)
    }

    /// The error if a finished output is expected and there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn unfinished(&self) -> Result<Error> {
        let shown = self.shown();
        if let Some(missing) = address::missing(shown) {
            return Ok(Error::input(format!("{missing}: name what a job has as output.url")));
        }
        let applied: Option<PublishedOutput> = self.within(APPLIED).read(MANIFEST).await?;
        Ok(Error::input(match (applied, self.is_applied().await?) {
            (Some(PublishedOutput { output_url }), _) => {
                format!("{shown} holds a result of apply: name the output that was applied, {output_url}")
            }
            (None, true) => format!("{shown} holds a result of apply: name the output that was applied"),
            (None, false) => format!(
                "{shown} holds no finished output (no manifest.json): name what a job has as output.url, and run that job to its end"
            ),
        }))
    }

    /// Whether there is a result of `apply`, finished or begun.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn is_applied(&self) -> Result<bool> {
        let records = self.within(APPLIED);
        Ok(records.size(MANIFEST).await?.is_some() || records.size(BEGUN).await?.is_some())
    }

    /// The names of the stages whose manifests have `key`, sorted.
    pub(crate) async fn stages(&self, key: &str) -> Result<Vec<String>> {
        let listed = self.store().list_with_delimiter(Some(&self.path(WORK))).await;
        let listed = listed.context(|| format!("cannot list {}/{WORK}", self.shown()))?;
        let ending = format!(".{key}.json");
        let names = listed.objects.iter().filter_map(|object| object.location.filename());
        let mut stages: Vec<String> =
            names.filter_map(|name| name.strip_suffix(&ending)).map(str::to_owned).collect();
        stages.sort_unstable();
        Ok(stages)
    }

    /// Removes a stage: its manifest first, so that no run reuses a half-removed stage, then its `files`.
    pub(crate) async fn remove_stage(&self, stage: &str, key: &str, files: &[File]) -> Result<()> {
        self.discard(&Self::stage(stage, key)).await?;
        self.remove(files.iter().map(|file| self.path(&file.path)).collect()).await
    }
}
