//! The one rule by which this program removes or replaces files: only its own.
//!
//! A file is ours if another file that we wrote proves it:
//!
//! - A manifest, a stage's manifest or the record of an attempt **names** it: by its path, or by the attempt in its own
//!   name, together with the folder that it was written to (see [`Attempt::part`]).
//! - It holds our **mark** inside: the keys of a `manifest.json`, the first bytes of a record or a claim
//!   ([`is_marked`]), the program in a commit of a Delta log, the name in the footer of a generated Parquet file
//!   ([`generated_as`]), or the line in the lock of a folder for spills ([`FOLDER`]).
//!
//! A name alone proves nothing, and a copy of a file of ours is foreign. Foreign files stay. If one is in the way, the
//! command fails with an error that names it.
//!
//! A file of ours is dead when nothing in force names it and its attempt does not claim the output now. The logs of
//! Delta tables stay, also those of other programs, because their readers need every one of their files. Files that are
//! named by a log that does not follow our results stay too.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use super::attempt::AttemptRecord;
use super::delta::LogFiles;
use super::manifest::{FinishedStage, Run};
use super::names::{Attempt, whole_name};
use super::paths::WORK;
use super::{Layout, attempt, claim, delta, local};
use crate::error::guard::guarded;
use crate::error::{Error, Result};

/// The writer of a `manifest.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A run of this program, of any version.
    Run,
    /// `apply` of this program, of any version.
    Apply,
    /// Another program.
    Other,
}

/// The writer of a `manifest.json` with these bytes.
pub(crate) fn writer(bytes: &[u8]) -> Writer {
    let manifest: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let has = |key: &str| manifest.get(key).is_some();
    match has("resemblance") && has("fingerprint") {
        true if has("format_version") => Writer::Run,
        true if has("apply_format") => Writer::Apply,
        _ => Writer::Other,
    }
}

/// Refuses a `manifest.json` that a run must not replace.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if another program or `apply` wrote it.
pub(crate) fn refuse_writer(bytes: &[u8], shown: &str) -> Result<()> {
    let shown = shown.trim_end_matches('/');
    match writer(bytes) {
        Writer::Run => Ok(()),
        Writer::Apply => Err(Error::input(format!(
            "{shown}/manifest.json is that of a result of apply, which no run replaces: choose another output"
        ))),
        Writer::Other => Err(Error::input(match serde_json::from_slice::<Value>(bytes) {
            Err(error) => format!(
                "{shown}/manifest.json is not JSON ({error}): it is damaged, or not of this program, which never replaces it. Restore \
                 it, choose another output, or move the file away"
            ),
            Ok(_) => format!(
                "{shown}/manifest.json was not written by this program, which never replaces it: choose another output, or move \
                 the file away"
            ),
        })),
    }
}

/// The first bytes of a file of ours at this path; `None` if files at this path cannot be recognised by them.
fn beginning(inside: &str) -> Option<String> {
    if let Some(attempt) = attempt::attempt_of(inside) {
        return Some(format!("{{\n  \"attempt\": \"{attempt}\""));
    }
    if claim::attempt_of(inside).is_some() {
        return Some("{".to_owned());
    }
    if delta::is_in_log(inside) {
        return is_staged(inside).then(|| "{\"commitInfo\":{\"timestamp\":".to_owned());
    }
    let name = inside.strip_prefix(WORK)?.strip_prefix('/')?.strip_suffix(".json")?;
    if name == "apply" || name.strip_prefix("parts/").is_some_and(is_part) {
        return Some("{\n  \"fingerprint\": \"".to_owned());
    }
    let (stage, key) = name.rsplit_once('.').filter(|(stage, _)| !stage.contains('/'))?;
    Some(format!("{{\n  \"stage\": \"{stage}\",\n  \"fingerprint\": \"{}", key.get(..16)?))
}

/// Whether this is the name of a record of `apply`: the number of a part.
fn is_part(name: &str) -> bool {
    name.len() >= 6 && name.bytes().all(|b| b.is_ascii_digit())
}

fn is_staged(inside: &str) -> bool {
    local::is_staged(inside.rsplit('/').next().unwrap_or_default(), "")
}

/// Whether we wrote the JSON file at `inside`, by its first bytes. If a kill or a power cut left fewer of them, the
/// existing ones must be ours.
pub(crate) fn is_marked(inside: &str, bytes: &[u8]) -> bool {
    let whole = whole_name(inside);
    if claim::attempt_of(whole).is_some() {
        return claim::is_claim(bytes);
    }
    beginning(whole).is_some_and(|mark| {
        let length = mark.len().min(bytes.len());
        bytes[..length] == mark.as_bytes()[..length]
    })
}

/// The name of the writer in the footer of a generated Parquet file of this name.
pub(crate) fn generated_as(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("resemblance generate {} ({name})", env!("CARGO_PKG_VERSION"))
}

/// Whether `generate` wrote the Parquet file, under its current name.
pub(crate) fn is_generated(file: &Path) -> bool {
    let Ok(opened) = std::fs::File::open(file) else { return false };
    let Ok(Ok(reader)) = guarded(|| SerializedFileReader::new(opened)) else { return false };
    let ours = generated_as(file);
    let writer = reader.metadata().file_metadata().created_by();
    // By any version.
    let parts = |text: &str| text.split_once(" (").map(|(_, name)| name.to_owned());
    writer.is_some_and(|writer| writer.starts_with("resemblance generate ") && parts(writer) == parts(&ours))
}

/// The content of the file that marks a folder as this program's: the lock of a folder for spills.
pub(crate) const FOLDER: &str = "this folder is resemblance's, which removes it\n";

/// Whether the file holds [`FOLDER`].
pub(crate) fn marks_folder(file: &Path) -> bool {
    let is_file = std::fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file());
    is_file && std::fs::read(file).is_ok_and(|bytes| bytes == FOLDER.as_bytes())
}

/// The treatment of a file of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileVerdict {
    /// It is needed.
    InForce,
    /// Nothing proves that it is ours.
    Foreign,
    /// It is ours, and a Delta log that does not follow our results names it, or may name it.
    Held,
    /// It is ours and dead.
    Dead(RemovalOrder),
}

/// The order in which dead files are removed: files that prove others to be ours come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RemovalOrder {
    Data,
    Proof,
    Claim,
}

/// The content of the manifests, records and claims of an output.
#[derive(Debug, Default)]
pub(super) struct Ours {
    /// Whether there is a result, so that the files of its stages are no longer needed.
    finished: bool,
    /// Files that a manifest in force names.
    in_force: BTreeSet<String>,
    /// Files that are ours because a file of ours names them.
    named: BTreeSet<String>,
    /// Files that hold our mark.
    marked: BTreeSet<String>,
    attempts: BTreeSet<Attempt>,
    /// Attempts that claim the output now.
    alive: BTreeSet<Attempt>,
    held: LogFiles,
}

impl Ours {
    /// Reads the proofs that files of `output` are ours, except for claims: its manifest and the records of its
    /// attempts.
    ///
    /// # Errors
    /// When the store does not answer, or the manifest is of a newer version: then its files are unknown.
    pub(super) async fn named(output: &Layout) -> Result<Self> {
        let mut ours = Self::of_manifest(output.manifest().await?);
        for meta in output.list(attempt::ATTEMPTS).await? {
            if let Some(inside) = output.inside(&meta.location) {
                ours.read_record(output, &inside).await?;
            }
        }
        Ok(ours)
    }

    /// Reads which of the files `there`, by their paths inside `output`, are ours and needed. `own` is the attempt of
    /// the caller, whose claim on the output protects none of its files.
    ///
    /// # Errors
    /// As [`Self::named`].
    pub(super) async fn among<'a>(
        output: &Layout,
        own: &Attempt,
        there: impl Iterator<Item = &'a String> + Clone,
    ) -> Result<Self> {
        let mut ours = Self::of_manifest(output.manifest().await?);
        for inside in there.clone() {
            ours.read_record(output, inside).await?;
        }
        if there.clone().any(|inside| delta::is_part_of_log(inside)) {
            ours.held = delta::held(output).await?;
        }
        // Listed last: an attempt that began after the listing of files has none among them.
        let claimants = claim::claimants(output).await?;
        ours.alive.extend(claimants.into_iter().filter(|attempt| attempt != own));
        Ok(ours)
    }

    fn of_manifest(finished: Option<Run>) -> Self {
        let mut ours = Self { finished: finished.is_some(), ..Self::default() };
        if let Some(run) = &finished {
            ours.in_force.extend(run.paths().into_iter().map(str::to_owned));
            ours.attempts.extend(run.attempts.iter().filter_map(|id| Attempt::parse(id)));
        }
        ours
    }

    /// Reads a JSON file, if it is ours.
    async fn read_record(&mut self, output: &Layout, inside: &str) -> Result<()> {
        let Some(bytes) = marked(output, inside).await? else { return Ok(()) };
        let whole = whole_name(inside);
        if let Some(attempt) = attempt::attempt_of(whole) {
            if let Ok(record) = serde_json::from_slice::<AttemptRecord>(&bytes) {
                self.named.extend(record.replaces);
            }
            self.attempts.insert(attempt);
        } else if let Ok(stage) = serde_json::from_slice::<FinishedStage>(&bytes) {
            let files = stage.files.into_iter().map(|file| file.path);
            match self.finished {
                true => self.named.extend(files),
                false => self.in_force.extend(files),
            }
        }
        self.marked.insert(inside.to_owned());
        Ok(())
    }

    /// Whether a file of a table is ours.
    pub(super) fn owns(&self, inside: &str) -> bool {
        let known = Attempt::of_part(inside).is_some_and(|attempt| self.attempts.contains(&attempt));
        known || self.in_force.contains(inside) || self.named.contains(whole_name(inside))
    }

    /// The treatment of a file.
    pub(super) fn verdict(&self, inside: &str) -> FileVerdict {
        let whole = whole_name(inside);
        if self.in_force.contains(inside) || delta::is_part_of_log(inside) {
            return FileVerdict::InForce;
        }
        let of_claim = claim::attempt_of(whole);
        let is_claim = of_claim.is_some();
        let attempt = Attempt::of_part(inside).or_else(|| attempt::attempt_of(whole)).or(of_claim);
        if attempt.is_some_and(|attempt| self.alive.contains(&attempt)) {
            return FileVerdict::InForce;
        }
        if self.marked.contains(inside) {
            let begun = whole != inside || delta::is_in_log(inside);
            return match (begun, is_claim) {
                // Another attempt may be about to rename it.
                (true, _) if !self.alive.is_empty() => FileVerdict::InForce,
                (true, _) => FileVerdict::Dead(RemovalOrder::Data),
                (false, true) => FileVerdict::Dead(RemovalOrder::Claim),
                (false, false) if self.finished => FileVerdict::Dead(RemovalOrder::Proof),
                (false, false) => FileVerdict::InForce,
            };
        }
        match self.owns(inside) {
            true if self.held.holds(inside) => FileVerdict::Held,
            true => FileVerdict::Dead(RemovalOrder::Data),
            false => FileVerdict::Foreign,
        }
    }
}

/// The bytes of a JSON file that we wrote; `None` if we did not.
async fn marked(output: &Layout, inside: &str) -> Result<Option<Bytes>> {
    if beginning(whole_name(inside)).is_none() {
        return Ok(None);
    }
    let bytes = match output.folder() {
        // A local store hides incomplete files.
        Some(folder) => std::fs::read(folder.join(inside)).ok().map(Bytes::from),
        None => output.read_bytes(inside).await?.map(|(bytes, _)| bytes),
    };
    Ok(bytes.filter(|bytes| is_marked(inside, bytes)))
}

impl Layout {
    /// Whether we wrote the JSON file at `inside`.
    pub(crate) async fn wrote(&self, inside: &str) -> Result<bool> {
        Ok(marked(self, inside).await?.is_some())
    }

    /// Removes a JSON file of ours that is out of date. It is no error if it is gone already.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if it is foreign, or the store refuses.
    pub(crate) async fn discard(&self, inside: &str) -> Result<()> {
        match self.read_bytes(inside).await? {
            None => Ok(()),
            Some((bytes, _)) if is_marked(inside, &bytes) => self.remove(vec![self.path(inside)]).await,
            Some(_) => Err(Error::input(format!(
                "{}/{inside} was not written by this program, which needs its place: move it away",
                self.shown().trim_end_matches('/')
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_tells_who_wrote_it() {
        for (text, expected) in [
            (r#"{"format_version": 3, "resemblance": "0.0.1", "fingerprint": "0a"}"#, Writer::Run),
            (r#"{"apply_format": 1, "resemblance": "0.0.1", "fingerprint": "0a"}"#, Writer::Apply),
            (r#"{"metadata": {"dbt_version": "1.9.0"}, "nodes": {}}"#, Writer::Other),
            (r#"{"format_version": 3}"#, Writer::Other),
            ("resemblance fingerprint format_version", Writer::Other),
            ("", Writer::Other),
        ] {
            assert_eq!(writer(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_record_is_ours_by_its_place_and_its_first_bytes() {
        let attempt = Attempt::random();
        let key = "0123456789abcdef-over-nothing";
        let stage = "{\n  \"stage\": \"keys\",\n  \"fingerprint\": \"0123456789abcdef0123456789abcdef\"";
        for (inside, bytes) in [
            (format!("_work/attempts/{attempt}.json"), format!("{{\n  \"attempt\": \"{attempt}\"")),
            (format!("_work/keys.{key}.json"), stage.to_owned()),
            ("_work/parts/000012.json".to_owned(), "{\n  \"fingerprint\": \"0a\"".to_owned()),
            ("pairs/_delta_log/.resemblance-aB3dE6.tmp".to_owned(), "{\"commitInfo\"".to_owned()),
        ] {
            assert!(is_marked(&inside, bytes.as_bytes()), "{inside}");
            assert!(is_marked(&inside, &bytes.as_bytes()[..3]) && is_marked(&inside, b""), "{inside}");
            assert!(!is_marked(&inside, b"{\"mine\": true}"), "{inside}");
            assert!(!is_marked(
                &inside.replace("_work/", "_work/backup/").replace("pairs/", "pairs/x/"),
                b""
            ));
        }
        assert!(!is_marked("_work/scores.0123456789abcdef.json", stage.as_bytes()));
        assert!(!is_marked(
            &format!("_work/attempts/{}.json", Attempt::random()),
            b"{\n  \"attempt\": \"0\""
        ));
    }
}
