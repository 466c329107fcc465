//! The target folder. Checks its content before an application, and removes unneeded records afterwards.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};
use serde::de::DeserializeOwned;

use super::manifest::{ApplyManifest, Begun};
use crate::error::{Context, Error, Result};
use crate::job;
use crate::output::attempt::{self, ATTEMPTS, Attempt, AttemptRecord, REMOVED, REMOVED_SPANS};
use crate::output::check;
use crate::output::claim::{self, Claim};
use crate::output::layout::OutputEntry;
use crate::output::{APPLIED, BEGUN, Layout, Stored};
use crate::pipeline::overlap;
use crate::rewrite::work::is_content;
use crate::source::Listed;

pub(super) const MANIFEST: &str = "manifest.json";
/// The claims of processes that write to the folder.
const CLAIMS: &str = "_work/claims/";

/// The number of records that are checked at the same time.
const CONCURRENT_LOOKS: usize = 32;

/// The option of the command that names the folder.
const SETTING: &str = "--to";

/// Refuses a folder that overlaps with an input, with `Kind::Job` and both paths.
pub(super) fn refuse_overlap(
    target: &Layout,
    stored: &Stored,
    source: &job::Source,
    listed: &Listed,
) -> Result<()> {
    overlap::refuse_urls(target, source, SETTING)?;
    overlap::refuse_output(target, stored.layout(), SETTING)?;
    overlap::refuse_files(target, listed, SETTING)
}

/// Returns the manifest of this application if it is finished. Returns `None` if it is unfinished or the folder is empty. Fails with
/// `Kind::Job` if the folder contains anything else, and with `Kind::Input` if a file of the result is gone or has another size.
pub(super) async fn finished(target: &Layout, fingerprint: &str) -> Result<Option<ApplyManifest>> {
    let (shown, records) = (target.shown().trim_end_matches('/'), target.within(APPLIED));
    let of_another = |result: &str| {
        Error::job(format!(
            "{shown} holds {result}, made of another output or with other options: choose another {SETTING}"
        ))
    };
    let foreign =
        format!("{shown} holds a {APPLIED}/{MANIFEST} that apply did not write: choose another {SETTING}");
    if let Some(manifest) = read_record::<ApplyManifest>(&records, MANIFEST, foreign).await? {
        if manifest.fingerprint != fingerprint {
            return Err(of_another("a finished result of apply"));
        }
        let damage = check::sizes(target, &manifest.all_files().iter().collect::<Vec<_>>()).await?;
        return if damage.is_empty() { Ok(Some(manifest)) } else { Err(check::damaged(target, &damage)) };
    }
    let cut_off = format!(
        "{shown}/{APPLIED}/{BEGUN} was not written by apply, or is incomplete: remove the folder {shown}, or choose another {SETTING}"
    );
    match read_record::<Begun>(&records, BEGUN, cut_off).await? {
        Some(begun) if begun.fingerprint == fingerprint => {}
        Some(_) => return Err(of_another("an unfinished result of apply")),
        None => refuse_strangers(target).await?,
    }
    Ok(None)
}

/// Reads a record. Returns `None` if the record does not exist. `fault` is the error message if the file has other content.
async fn read_record<T: DeserializeOwned>(
    records: &Layout,
    inside: &str,
    fault: String,
) -> Result<Option<T>> {
    records.read(inside).await.map_err(|error| if is_content(&error) { Error::job(fault) } else { error })
}

/// Refuses a folder that contains files but no finished or unfinished result of `apply`. Fails with `Kind::Job`, which names a file.
pub(super) async fn refuse_others(target: &Layout, source: &job::Source) -> Result<()> {
    overlap::refuse_urls(target, source, SETTING)?;
    let records = target.within(APPLIED);
    for record in [MANIFEST, BEGUN] {
        if records.size(record).await?.is_some() {
            return Ok(());
        }
    }
    refuse_strangers(target).await
}

async fn refuse_strangers(target: &Layout) -> Result<()> {
    let (shown, claims) = (target.shown(), format!("{APPLIED}/{CLAIMS}"));
    match target.holds_beside(|entry| entry.inside.starts_with(&claims)).await? {
        None => Ok(()),
        Some(OutputEntry { inside, .. }) => Err(Error::job(format!(
            "{shown} is not empty: it holds {inside}, which apply did not write; choose another {SETTING}"
        ))),
    }
}

/// Marks the folder as the folder of this application, records the attempt of `claim`, and removes unfinished files of killed attempts.
pub(super) async fn begin(target: &Layout, claim: &Claim, fingerprint: &str, output: &str) -> Result<()> {
    let begun = Begun { fingerprint: fingerprint.to_owned(), output: output.to_owned() };
    let is_ours = |there: Option<Begun>| there.is_some_and(|there| there.fingerprint == fingerprint);
    let records = target.within(APPLIED);
    if !records.create(BEGUN, &begun).await? && !is_ours(records.read(BEGUN).await?) {
        return Err(Error::input(format!(
            "another process began to write to {}: choose another {SETTING}",
            target.shown()
        )));
    }
    let record = AttemptRecord {
        attempt: claim.attempt.to_string(),
        fingerprint: fingerprint.to_owned(),
        resemblance: env!("CARGO_PKG_VERSION").to_owned(),
        replaces: Vec::new(),
    };
    record.put(&records).await?;
    let there = match target.folder() {
        Some(_) => target.entries("").await?,
        // An object store has no unfinished files.
        None => Vec::new(),
    };
    target.remove_entries(there.into_iter().filter(|entry| entry.is_staged_by(target)).collect()).await
}

/// Publishes the result. First removes the files that killed attempts left in `removed/` and `removed_spans/`, because readers read every
/// file in these folders.
pub(super) async fn publish(target: &Layout, claim: &Claim, manifest: &ApplyManifest) -> Result<()> {
    let records = target.within(APPLIED);
    let files = manifest.removed.iter().chain(&manifest.removed_spans);
    let named: BTreeSet<&str> = files.map(|file| file.path.as_str()).collect();
    let attempts = attempt::ids(&records).await?;
    let left = |entry: &OutputEntry| {
        let of_ours = Attempt::from_path(&entry.inside).is_some_and(|of| attempts.contains(&of.to_string()));
        of_ours && !named.contains(format!("{APPLIED}/{}", entry.inside).as_str())
    };
    for folder in [REMOVED, REMOVED_SPANS] {
        let left = records.entries(folder).await?.into_iter().filter(left).collect();
        records.remove_entries(left).await?;
    }
    claim.verify().await?;
    if records.create(MANIFEST, manifest).await? {
        Ok(())
    } else {
        Err(Error::input(format!(
            "another process wrote {MANIFEST} to {}: choose another {SETTING}",
            target.shown()
        )))
    }
}

/// Runs [`tidy`] for an attempt that was killed after it finished the result.
pub(super) async fn tidy_late(target: &Layout) {
    let records = target.within(APPLIED);
    if let Ok(Some(_)) = records.size(BEGUN).await {
        tidy(target).await;
    }
    if let Err(error) = claim::remove_dead(&records).await {
        tracing::debug!("claims of attempts that were killed could not be removed: {error}");
    }
}

/// Removes the records that only an unfinished result needs. The result is complete, so failures are only logged.
pub(super) async fn tidy(target: &Layout) {
    let records = target.within(APPLIED);
    let removed = async {
        let entries = records.entries("_work").await.context(|| "the records cannot be listed".to_owned())?;
        let attempts = attempt::ids(&records).await?;
        let entries = entries.into_iter().filter(|entry| !entry.inside.starts_with(CLAIMS));
        let looked_at = stream::iter(entries).map(|entry| {
            let (attempts, records) = (&attempts, &records);
            async move {
                let of_ours =
                    Attempt::from_path(&entry.inside).is_some_and(|of| attempts.contains(&of.to_string()));
                Ok::<_, Error>((of_ours || records.wrote(&entry.inside).await?).then_some(entry))
            }
        });
        let ours: Vec<Option<OutputEntry>> = looked_at.buffered(CONCURRENT_LOOKS).try_collect().await?;
        let mut ours: Vec<OutputEntry> = ours.into_iter().flatten().collect();
        // Files that prove the origin of other files are removed last. The mark of the application is removed at the very end.
        ours.sort_by_key(|entry| (entry.inside == BEGUN, entry.inside.starts_with(ATTEMPTS)));
        records.remove_entries(ours).await
    };
    if let Err(error) = removed.await {
        let shown = records.shown();
        tracing::warn!("the result is complete, but records in {shown}/_work could not be removed ({error})");
    }
}
