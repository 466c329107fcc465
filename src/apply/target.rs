//! The folder that the result goes to: what may lie there before, and what is tidied at the end.

use super::manifest::{Begun, Manifest};
use crate::error::{Context, Error, Result};
use crate::job;
use crate::output::claim::Claim;
use crate::output::entries::Entry;
use crate::output::manifest::File;
use crate::output::names::Attempt;
use crate::output::{Layout, Stored};
use crate::pipeline::overlap;
use crate::rewrite::record::{PARTS, is_content};
use crate::source::Listed;

/// The manifest of a finished application.
const MANIFEST: &str = "manifest.json";
/// What says that the folder is this program's.
const BEGUN: &str = "_work/apply.json";
/// Claims of this process and of others that want the folder.
const CLAIMS: &str = "_work/claims/";

/// The option of the command that names the folder.
const SETTING: &str = "--to";

/// What lies in the folder.
pub(super) enum Found {
    /// This application, finished.
    Finished(Box<Manifest>),
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
pub(super) async fn find(target: &Layout, fingerprint: &str) -> Result<Found> {
    let shown = target.shown();
    let of_another = |what: &str| {
        Error::job(format!(
            "{shown} holds {what}, made of another output or with other options: choose another {SETTING}"
        ))
    };
    match target.read::<Manifest>(MANIFEST).await {
        Ok(Some(manifest)) if manifest.fingerprint == fingerprint => {
            return Ok(Found::Finished(Box::new(manifest)));
        }
        Ok(Some(_)) => return Err(of_another("a finished result of apply")),
        Ok(None) => {}
        // What cannot be read is something else, unless the store does not answer.
        Err(error) if !is_content(&error) => return Err(error),
        Err(_) => {
            return Err(Error::job(format!(
                "{shown} holds a {MANIFEST} that apply did not write: choose another {SETTING}"
            )));
        }
    }
    if let Some(begun) = target.read::<Begun>(BEGUN).await? {
        return match begun.fingerprint == fingerprint {
            true => Ok(Found::Mine),
            false => Err(of_another("an unfinished result of apply")),
        };
    }
    match target.holds_beside(|entry| entry.inside.starts_with(CLAIMS)).await? {
        None => Ok(Found::Mine),
        Some(Entry { inside, .. }) => Err(Error::job(format!(
            "{shown} is not empty: it holds {inside}, which apply did not write; choose another {SETTING}"
        ))),
    }
}

/// Says that the folder is this application's, and removes what an attempt left that was killed while it wrote.
///
/// # Errors
/// When the store refuses.
pub(super) async fn begin(target: &Layout, fingerprint: &str, output: &str) -> Result<()> {
    let begun = Begun { fingerprint: fingerprint.to_owned(), output: output.to_owned() };
    if !target.create(BEGUN, &begun).await? && target.read::<Begun>(BEGUN).await?.as_ref() != Some(&begun) {
        return Err(Error::input(format!(
            "another process began to write to {}: choose another {SETTING}",
            target.shown()
        )));
    }
    let mut staged = Vec::new();
    for folder in ["kept", "rejected"] {
        let there = match target.folder() {
            Some(_) => target.entries(folder).await?,
            // A store has no files that are not whole.
            None => Vec::new(),
        };
        staged.extend(there.into_iter().filter(Entry::is_staged));
    }
    target.remove_entries(staged).await
}

/// Publishes the result. What killed attempts wrote of the table `removed/` is taken away first, for readers of the folder.
///
/// # Errors
/// When the store refuses, or the folder was lost to another process.
pub(super) async fn publish(target: &Layout, claim: &Claim, manifest: &Manifest) -> Result<()> {
    let named = |entry: &Entry| manifest.removed.iter().any(|file: &File| file.path == entry.inside);
    let ours = |entry: &Entry| {
        let name = entry.inside.rsplit('/').next().unwrap_or_default();
        Attempt::of_part(name).is_some() && !named(entry)
    };
    let left = target.entries("removed").await?.into_iter().filter(ours).collect();
    target.remove_entries(left).await?;
    claim.verify().await?;
    match target.create(MANIFEST, manifest).await? {
        true => Ok(()),
        false => Err(Error::input(format!(
            "another process wrote {MANIFEST} to {}: choose another {SETTING}",
            target.shown()
        ))),
    }
}

/// As [`tidy`], where the attempt that finished the result was killed before it did that itself.
pub(super) async fn tidy_late(target: &Layout, fingerprint: &str) {
    if let Ok(Some(_)) = target.size(BEGUN).await {
        tidy(target, fingerprint).await;
    }
}

/// Removes the records that only an unfinished result needs. The result is there by now, so a store that fails is only told of.
pub(super) async fn tidy(target: &Layout, fingerprint: &str) {
    let removed = async {
        let entries = target.entries("_work").await.context(|| "the records cannot be listed".to_owned())?;
        let ours = |entry: &Entry| {
            let inside = entry.inside.as_str();
            let part = inside.starts_with(PARTS) && inside.ends_with(".json");
            let name = inside.rsplit('/').next().unwrap_or_default();
            inside == BEGUN
                || part
                || inside.ends_with(&format!(".{fingerprint}.json"))
                || Attempt::of_part(name).is_some()
        };
        target.remove_entries(entries.into_iter().filter(ours).collect()).await
    };
    if let Err(error) = removed.await {
        let shown = target.shown();
        tracing::warn!("the result is complete, but records in {shown}/_work could not be removed ({error})");
    }
}
