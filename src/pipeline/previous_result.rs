//! The result in an output at the beginning of a run, which `--overwrite` replaces with one put when the new one is
//! complete.

use bytes::Bytes;
use object_store::UpdateVersion;
use xxhash_rust::xxh3::xxh3_64;

use super::outcome::OnExisting;
use crate::error::{Error, Result};
use crate::output::manifest::Run as Manifest;
use crate::output::{Layout, ours};

/// The result before the run.
pub(super) struct PreviousResult {
    /// The bytes and version of `manifest.json`, if there was one.
    there: Option<(Bytes, UpdateVersion)>,
    /// The parsed manifest, if it can be read.
    manifest: Option<Manifest>,
}

impl PreviousResult {
    /// The result of `output` now.
    ///
    /// # Errors
    /// When the store does not answer, another program wrote the manifest, which must not be replaced, or there is a result of
    /// `apply`.
    pub(super) async fn read(output: &Layout) -> Result<Self> {
        let there = output.manifest_bytes().await?;
        let manifest = there.as_ref().and_then(|(bytes, _)| serde_json::from_slice(bytes).ok());
        if let (Some((bytes, _)), None) = (&there, &manifest) {
            // A manifest of another version can be replaced, but its files are unknown and stay.
            ours::refuse_writer(bytes, output.shown())?;
        }
        if there.is_none() && output.is_applied().await? {
            return Err(Error::input(format!(
                "{} holds a result of apply, and no run writes among its files: choose another output.url",
                output.shown()
            )));
        }
        Ok(Self { there, manifest })
    }

    /// The files of the result.
    pub(super) fn files(&self) -> Vec<String> {
        let paths = self.manifest.iter().flat_map(Manifest::paths);
        paths.map(str::to_owned).collect()
    }

    /// The attempts that the manifest names.
    pub(super) fn attempts(&self) -> Vec<String> {
        self.manifest.as_ref().map(|manifest| manifest.attempts.clone()).unwrap_or_default()
    }

    /// The key of this run's stages: its fingerprint, and with `--overwrite` also the result that it replaces, so that it resumes
    /// from its own stages and never from those of that result.
    pub(super) fn key(&self, fingerprint: &str, existing: OnExisting) -> String {
        let fingerprint = fingerprint.get(..16).unwrap_or(fingerprint);
        match (existing, &self.there) {
            (OnExisting::Fail, _) => fingerprint.to_owned(),
            (OnExisting::Overwrite, None) => format!("{fingerprint}-over-nothing"),
            (OnExisting::Overwrite, Some((bytes, _))) => {
                format!("{fingerprint}-over-{:016x}", xxh3_64(bytes))
            }
        }
    }

    /// Replaces the previous manifest by `manifest`. Returns false if another process has put one meanwhile.
    ///
    /// # Errors
    /// When the store refuses.
    pub(super) async fn put(&self, output: &Layout, manifest: &Manifest) -> Result<bool> {
        match &self.there {
            None => output.create("manifest.json", manifest).await,
            Some((bytes, version)) => output.replace("manifest.json", manifest, bytes, version).await,
        }
    }
}
