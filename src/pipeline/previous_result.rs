//! The result that an output holds when a run begins: what `--overwrite` replaces, in one put, when the new one is whole.

use bytes::Bytes;
use object_store::UpdateVersion;
use xxhash_rust::xxh3::xxh3_64;

use super::outcome::OnExisting;
use crate::error::Result;
use crate::output::manifest::Run as Manifest;
use crate::output::{Layout, ours};

/// What was there.
pub(super) struct PreviousResult {
    /// The bytes and version of `manifest.json`; `None` if there was none.
    there: Option<(Bytes, UpdateVersion)>,
    /// What they say; `None` if that cannot be read.
    manifest: Option<Manifest>,
}

impl PreviousResult {
    /// What `output` holds now.
    ///
    /// # Errors
    /// When the store does not answer, or somebody else wrote the manifest, so that nothing may replace it.
    pub(super) async fn read(output: &Layout) -> Result<Self> {
        let there = output.manifest_bytes().await?;
        let manifest = there.as_ref().and_then(|(bytes, _)| serde_json::from_slice(bytes).ok());
        if let (Some((bytes, _)), None) = (&there, &manifest) {
            // One of another version names nothing that could be removed; its place is taken all the same.
            ours::refuse_writer(bytes, output.shown())?;
        }
        Ok(Self { there, manifest })
    }

    /// The files of the result that was there.
    pub(super) fn files(&self) -> Vec<String> {
        let paths = self.manifest.iter().flat_map(Manifest::paths);
        paths.map(str::to_owned).collect()
    }

    /// The attempts that the result that was there names.
    pub(super) fn attempts(&self) -> Vec<String> {
        self.manifest.as_ref().map(|manifest| manifest.attempts.clone()).unwrap_or_default()
    }

    /// What tells the steps of this run from those of others: its fingerprint, and for a run that replaces also what it
    /// replaces. So `--overwrite` never takes over steps of the run whose result it replaces, and goes on from its own.
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

    /// Puts `manifest`, replacing what was there: whether it is there now. It is not where another process put one
    /// meanwhile.
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
