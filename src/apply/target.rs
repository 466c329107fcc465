//! The folder that the result goes to: what may lie there before, and what is tidied at the end.

use std::collections::BTreeSet;

use futures::{StreamExt, TryStreamExt, stream};

use super::manifest::{ApplyManifest, Begun};
use crate::error::{Context, Error, Result};
use crate::job;
use crate::output::attempt::{self, ATTEMPTS, AttemptRecord};
use crate::output::claim::{self, Claim};
use crate::output::entries::OutputEntry;
use crate::output::names::Attempt;
use crate::output::names::{REMOVED, REMOVED_SPANS};
use crate::output::{APPLIED, BEGUN, Layout, Stored};
use crate::pipeline::overlap;
use crate::rewrite::record::is_content;
use crate::source::Listed;

/// The manifest of a finished application, in the folder of records.
pub(super) const MANIFEST: &str = "manifest.json";
/// Claims of this process and of others that want the folder.
const CLAIMS: &str = "_work/claims/";

/// Records that are looked at together.
const CONCURRENT_LOOKS: usize = 32;

/// The option of the command that names the folder.
const SETTING: &str = "--to";

/// What lies in the folder.
pub(super) enum TargetState {
    /// This application, finished.
    Finished(Box<ApplyManifest>),
    /// Nothing, or this application, begun.
    Mine,
}

/// Refuses a folder that overlaps with what is read.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with both.
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

/// What lies in the folder, where that is this application's.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) where it is anything else.
pub(super) async fn find(target: &Layout, fingerprint: &str) -> Result<TargetState> {
    let (shown, records) = (target.shown().trim_end_matches('/'), target.within(APPLIED));
    let of_another = |what: &str| {
        Error::job(format!(
            "{shown} holds {what}, made of another output or with other options: choose another {SETTING}"
        ))
    };
    match records.read::<ApplyManifest>(MANIFEST).await {
        Ok(Some(manifest)) if manifest.fingerprint == fingerprint => {
            return Ok(TargetState::Finished(Box::new(manifest)));
        }
        Ok(Some(_)) => return Err(of_another("a finished result of apply")),
        Ok(None) => {}
        // What cannot be read is something else, unless the store does not answer.
        Err(error) if !is_content(&error) => return Err(error),
        Err(_) => {
            return Err(Error::job(format!(
                "{shown} holds a {APPLIED}/{MANIFEST} that apply did not write: choose another {SETTING}"
            )));
        }
    }
    match records.read::<Begun>(BEGUN).await {
        Ok(Some(begun)) if begun.fingerprint == fingerprint => return Ok(TargetState::Mine),
        Ok(Some(_)) => return Err(of_another("an unfinished result of apply")),
        Ok(None) => {}
        Err(error) if !is_content(&error) => return Err(error),
        Err(_) => {
            return Err(Error::job(format!(
                "{shown}/{APPLIED}/{BEGUN} is not what apply puts there, or was cut off: remove the folder {shown}, or choose another {SETTING}"
            )));
        }
    }
    refuse_strangers(target).await?;
    Ok(TargetState::Mine)
}

/// Refuses a folder in which there are files, and no result of an application, finished or begun.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) with the first of them.
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

/// Says that the folder is this application's, and that `claim`'s attempt writes there, and removes what an attempt left that was
/// killed while it wrote. `output` is what is applied, as the user named it this time.
///
/// # Errors
/// When the store refuses.
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
        attempt: claim.attempt().to_string(),
        fingerprint: fingerprint.to_owned(),
        resemblance: env!("CARGO_PKG_VERSION").to_owned(),
        replaces: Vec::new(),
    };
    record.put(&records).await?;
    let there = match target.folder() {
        Some(_) => target.entries("").await?,
        // A store has no files that are not whole.
        None => Vec::new(),
    };
    target.remove_entries(there.into_iter().filter(|entry| entry.is_staged_by(target)).collect()).await
}

/// Publishes the result. Files of the tables `removed/` and `removed_spans/` that killed attempts wrote are removed first,
/// because readers of the folder would read them.
///
/// # Errors
/// When the store refuses, or the folder was lost to another process.
pub(super) async fn publish(target: &Layout, claim: &Claim, manifest: &ApplyManifest) -> Result<()> {
    let records = target.within(APPLIED);
    let files = manifest.removed.iter().chain(&manifest.removed_spans);
    let named: BTreeSet<&str> = files.map(|file| file.path.as_str()).collect();
    let attempts = attempt::ids(&records).await?;
    let left = |entry: &OutputEntry| {
        let of_ours = Attempt::of_part(&entry.inside).is_some_and(|of| attempts.contains(&of.to_string()));
        of_ours && !named.contains(format!("{APPLIED}/{}", entry.inside).as_str())
    };
    for folder in [REMOVED, REMOVED_SPANS] {
        let left = records.entries(folder).await?.into_iter().filter(left).collect();
        records.remove_entries(left).await?;
    }
    claim.verify().await?;
    match records.create(MANIFEST, manifest).await? {
        true => Ok(()),
        false => Err(Error::input(format!(
            "another process wrote {MANIFEST} to {}: choose another {SETTING}",
            target.shown()
        ))),
    }
}

/// As [`tidy`], where the attempt that finished the result was killed before it did that itself.
pub(super) async fn tidy_late(target: &Layout) {
    let records = target.within(APPLIED);
    if let Ok(Some(_)) = records.size(BEGUN).await {
        tidy(target).await;
    }
    if let Err(error) = claim::remove_dead(&records).await {
        tracing::debug!("claims of attempts that were killed could not be removed: {error}");
    }
}

/// Removes what only an unfinished result needs. The result is there by now, so a store that fails is only reported.
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
                    Attempt::of_part(&entry.inside).is_some_and(|of| attempts.contains(&of.to_string()));
                Ok::<_, Error>((of_ours || records.wrote(&entry.inside).await?).then_some(entry))
            }
        });
        let ours: Vec<Option<OutputEntry>> = looked_at.buffered(CONCURRENT_LOOKS).try_collect().await?;
        let mut ours: Vec<OutputEntry> = ours.into_iter().flatten().collect();
        // What proves that others are ours goes after them, and last what says that there is something to tidy.
        ours.sort_by_key(|entry| (entry.inside == BEGUN, entry.inside.starts_with(ATTEMPTS)));
        records.remove_entries(ours).await
    };
    if let Err(error) = removed.await {
        let shown = records.shown();
        tracing::warn!("the result is complete, but records in {shown}/_work could not be removed ({error})");
    }
}
