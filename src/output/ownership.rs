//! The rule for removing and replacing files. This program removes and replaces only files that it wrote. A file belongs to this program if
//! another file of this program, or the content of the file, proves it:
//!
//! - A manifest, a stage's manifest or the record of an attempt **names** the file. This means that it contains the path of the file, or
//!   the id of the attempt that is in the file's name (see [`Attempt::part`]).
//! - The file contains a **mark**. This is the program's name in a commit of a Delta log, or the file's name in the footer of a generated
//!   Parquet file ([`generated_as`]). In a spill folder, it is the line in the lock file ([`FOLDER`]). In JSON files, the mark is the keys
//!   of a `manifest.json`, or the first bytes of a record or a claim ([`is_marked`]).
//!
//! A name alone proves nothing, and a copy of a file is foreign. Foreign files are kept. If a foreign file is in the way, the command fails
//! with an error that names the file.
//!
//! A file of this program is dead if no current manifest names it and its attempt does not claim the output. The logs of Delta tables are
//! kept, because their readers need all log files. Files are also kept if a log that this program does not update refers to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use super::attempt::{self, Attempt, AttemptRecord, whole_name};
use super::delta::{self, LogFiles};
use super::layout::{OutputEntry, WORK};
use super::manifest::{FinishedStage, Run};
use super::{Layout, claim, local};
use crate::error::guard::guarded;
use crate::error::{Error, Result};
use crate::schema::Table;

/// The writer of a `manifest.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Run,
    Apply,
    Other,
}

pub(crate) fn writer(bytes: &[u8]) -> Writer {
    let manifest: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let has = |key: &str| manifest.get(key).is_some();
    match has("resemblance") && has("fingerprint") {
        true if has("format_version") => Writer::Run,
        true if has("apply_format") => Writer::Apply,
        _ => Writer::Other,
    }
}

/// Refuses a `manifest.json` that a run must not replace. Fails with `Kind::Input` if another program or `apply` wrote it.
pub(crate) fn refuse_writer(bytes: &[u8], shown: &str) -> Result<()> {
    let shown = shown.trim_end_matches('/');
    match writer(bytes) {
        Writer::Run => Ok(()),
        Writer::Apply => Err(Error::input(format!(
            "{shown}/manifest.json is the manifest of a result of apply, which no run replaces: choose another output"
        ))),
        Writer::Other => Err(Error::input(match serde_json::from_slice::<Value>(bytes) {
            Err(error) => format!(
                "{shown}/manifest.json is not JSON ({error}): it is damaged, or another program wrote it, so no run replaces it. Restore \
                 it, choose another output, or move the file away"
            ),
            Ok(_) => format!(
                "{shown}/manifest.json was not written by this program, so no run replaces it: choose another output, or move \
                 the file away"
            ),
        })),
    }
}

/// Returns the first bytes that this program writes at this path. Returns `None` if files at this path carry no mark.
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

/// Whether `name` is the name of a record of `apply` about a part of a file. Such a name is a number.
fn is_part(name: &str) -> bool {
    name.len() >= 6 && name.bytes().all(|b| b.is_ascii_digit())
}

fn is_staged(inside: &str) -> bool {
    local::is_staged(inside.rsplit('/').next().unwrap_or_default(), "")
}

/// Whether this program wrote the JSON file at `inside`. Its first bytes decide, or all bytes if a kill or a power cut left fewer.
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

/// Returns the name of the writer in the footer of a generated Parquet file.
pub(crate) fn generated_as(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    format!("resemblance generate {} ({name})", env!("CARGO_PKG_VERSION"))
}

/// Whether `generate` wrote the Parquet file with its present name.
pub(crate) fn is_generated(file: &Path) -> bool {
    let Ok(opened) = std::fs::File::open(file) else { return false };
    let Ok(Ok(reader)) = guarded(|| SerializedFileReader::new(opened)) else { return false };
    let ours = generated_as(file);
    let writer = reader.metadata().file_metadata().created_by();
    // The version of the program is ignored.
    let parts = |text: &str| text.split_once(" (").map(|(_, name)| name.to_owned());
    writer.is_some_and(|writer| writer.starts_with("resemblance generate ") && parts(writer) == parts(&ours))
}

/// The content of the lock file in a spill folder. It marks the folder as a folder of this program.
pub(crate) const FOLDER: &str = "this folder is resemblance's, which removes it\n";

/// Whether the content of the file is [`FOLDER`].
pub(crate) fn marks_folder(file: &Path) -> bool {
    let is_file = std::fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file());
    is_file && std::fs::read(file).is_ok_and(|bytes| bytes == FOLDER.as_bytes())
}

/// The decision about a file in an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FileVerdict {
    /// The file is needed.
    InForce,
    /// There is no proof that this program wrote the file.
    Foreign,
    /// This program wrote the file, but a Delta log that it does not update may refer to the file.
    Held,
    /// This program wrote the file, and the file can be removed.
    Dead(RemovalOrder),
}

/// The order of removal. Files that prove the origin of other files are removed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RemovalOrder {
    Data,
    Proof,
    Claim,
}

/// The content of an output's manifests, records and claims.
#[derive(Debug, Default)]
pub(super) struct Ours {
    /// Whether the output has a result. The files of its stages are then no longer needed.
    finished: bool,
    /// Files that a current manifest names.
    in_force: BTreeSet<String>,
    /// Files that a file of this program lists.
    named: BTreeSet<String>,
    /// Files that carry a mark of this program.
    marked: BTreeSet<String>,
    attempts: BTreeSet<Attempt>,
    /// Attempts that currently claim the output.
    alive: BTreeSet<Attempt>,
    held: LogFiles,
}

impl Ours {
    /// Reads the manifest and the records of attempts, which prove the origin of files in `output`.
    pub(super) async fn named(output: &Layout) -> Result<Self> {
        let mut ours = Self::from_manifest(output.manifest().await?);
        for meta in output.list(attempt::ATTEMPTS).await? {
            if let Some(inside) = output.inside(&meta.location) {
                ours.read_record(output, &inside).await?;
            }
        }
        Ok(ours)
    }

    /// Reads the proofs for the files `there`, which are paths inside `output`. The claim of the caller's attempt `own` protects no file.
    pub(super) async fn among<'a>(
        output: &Layout,
        own: &Attempt,
        there: impl Iterator<Item = &'a String> + Clone,
    ) -> Result<Self> {
        let mut ours = Self::from_manifest(output.manifest().await?);
        for inside in there.clone() {
            ours.read_record(output, inside).await?;
        }
        if there.clone().any(|inside| delta::is_part_of_log(inside)) {
            ours.held = delta::held(output).await?;
        }
        // Claims are listed last. An attempt that began after the files were listed has written none of these files.
        let claimants = claim::claimants(output).await?;
        ours.alive.extend(claimants.into_iter().filter(|attempt| attempt != own));
        Ok(ours)
    }

    fn from_manifest(finished: Option<Run>) -> Self {
        let mut ours = Self { finished: finished.is_some(), ..Self::default() };
        if let Some(run) = &finished {
            ours.in_force.extend(run.paths().into_iter().map(str::to_owned));
            ours.attempts.extend(run.attempts.iter().filter_map(|id| Attempt::parse(id)));
        }
        ours
    }

    /// Reads a JSON file if it carries a mark of this program.
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
            if self.finished { self.named.extend(files) } else { self.in_force.extend(files) }
        }
        self.marked.insert(inside.to_owned());
        Ok(())
    }

    /// Whether this program wrote the file at `inside`. The file must be in the folder of a table.
    pub(super) fn owns(&self, inside: &str) -> bool {
        let known = Attempt::from_path(inside).is_some_and(|attempt| self.attempts.contains(&attempt));
        known || self.in_force.contains(inside) || self.named.contains(whole_name(inside))
    }

    pub(super) fn verdict(&self, inside: &str) -> FileVerdict {
        let whole = whole_name(inside);
        if self.in_force.contains(inside) || delta::is_part_of_log(inside) {
            return FileVerdict::InForce;
        }
        let of_claim = claim::attempt_of(whole);
        let is_claim = of_claim.is_some();
        let attempt = Attempt::from_path(inside).or_else(|| attempt::attempt_of(whole)).or(of_claim);
        if attempt.is_some_and(|attempt| self.alive.contains(&attempt)) {
            return FileVerdict::InForce;
        }
        if self.marked.contains(inside) {
            let begun = whole != inside || delta::is_in_log(inside);
            return match (begun, is_claim) {
                // Another attempt may be about to rename the file.
                (true, _) if !self.alive.is_empty() => FileVerdict::InForce,
                (true, _) => FileVerdict::Dead(RemovalOrder::Data),
                (false, true) => FileVerdict::Dead(RemovalOrder::Claim),
                (false, false) if self.finished => FileVerdict::Dead(RemovalOrder::Proof),
                (false, false) => FileVerdict::InForce,
            };
        }
        if !self.owns(inside) {
            FileVerdict::Foreign
        } else if self.held.holds(inside) {
            FileVerdict::Held
        } else {
            FileVerdict::Dead(RemovalOrder::Data)
        }
    }
}

/// Returns the bytes of a JSON file if this program wrote it, or `None` for any other file.
async fn marked(output: &Layout, inside: &str) -> Result<Option<Bytes>> {
    if beginning(whole_name(inside)).is_none() {
        return Ok(None);
    }
    let bytes = match output.folder() {
        // The local store hides incomplete files, so the file is read directly.
        Some(folder) => std::fs::read(folder.join(inside)).ok().map(Bytes::from),
        None => output.read_bytes(inside).await?.map(|(bytes, _)| bytes),
    };
    Ok(bytes.filter(|bytes| is_marked(inside, bytes)))
}

impl Layout {
    pub(crate) async fn wrote(&self, inside: &str) -> Result<bool> {
        Ok(marked(self, inside).await?.is_some())
    }

    /// Removes an outdated JSON file that this program wrote, if it still exists. Fails with `Kind::Input` if the file is foreign.
    pub(crate) async fn discard(&self, inside: &str) -> Result<()> {
        match self.read_bytes(inside).await? {
            None => Ok(()),
            Some((bytes, _)) if is_marked(inside, &bytes) => self.remove(vec![self.path(inside)]).await,
            Some(_) => Err(Error::input(format!(
                "{}/{inside} was not written by this program, which needs this path: move it away",
                self.shown().trim_end_matches('/')
            ))),
        }
    }
}

/// The files in the folders of an output that no current manifest names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Garbage {
    /// Files of this program that can be removed, in the order of removal.
    pub dead: Vec<OutputEntry>,
    /// The paths of files without a proof that this program wrote them.
    pub foreign: Vec<String>,
    /// The paths of this program's files that are kept because a Delta log may refer to them.
    pub held: Vec<String>,
}

impl Garbage {
    /// Returns one sentence for the user about each kind of kept files.
    pub(crate) fn sentences(&self, output: &Layout) -> Vec<String> {
        let output = output.shown();
        let few = |files: &[String], (one, many): (&str, &str)| match files {
            [] => None,
            [first] => Some(format!("1 file in {output} {one}: {first}")),
            [first, others @ ..] => {
                Some(format!("{} files in {output} {many}: {first} and {} more", files.len(), others.len()))
            }
        };
        let foreign = (
            "is not known to be written by this program and stays",
            "are not known to be written by this program and stay",
        );
        let held = (
            "is of an earlier result and stays, because the Delta log of its table does not follow the result",
            "are of an earlier result and stay, because the Delta logs of their tables do not follow the result",
        );
        [few(&self.foreign, foreign), few(&self.held, held)].into_iter().flatten().collect()
    }
}

/// Finds the garbage in an output by its manifests and listings. The claim of the caller's attempt `own` protects no file.
pub(crate) async fn survey(output: &Layout, own: &Attempt) -> Result<Garbage> {
    let mut there = BTreeMap::new();
    for folder in Table::ALL.map(Table::name).into_iter().chain([WORK]) {
        there.extend(output.entries(folder).await?.into_iter().map(|entry| (entry.inside.clone(), entry)));
    }
    let ours = Ours::among(output, own, there.keys()).await?;
    let mut dead: BTreeMap<RemovalOrder, Vec<OutputEntry>> = BTreeMap::new();
    let mut found = Garbage::default();
    for (inside, entry) in there {
        if claim::attempt_of(&inside).is_some_and(|attempt| attempt == *own) {
            // The caller removes its own claim.
            continue;
        }
        match ours.verdict(&inside) {
            FileVerdict::InForce => {}
            FileVerdict::Foreign => found.foreign.push(inside),
            FileVerdict::Held => found.held.push(inside),
            FileVerdict::Dead(order) => dead.entry(order).or_default().push(entry),
        }
    }
    found.dead = dead.into_values().flatten().collect();
    Ok(found)
}

pub(crate) async fn remove(output: &Layout, garbage: &Garbage) -> Result<()> {
    output.remove_entries(garbage.dead.clone()).await
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
            let moved = inside.replace("_work/", "_work/backup/").replace("pairs/", "pairs/x/");
            assert!(!is_marked(&moved, b""), "{moved}");
        }
        assert!(!is_marked("_work/scores.0123456789abcdef.json", stage.as_bytes()));
        let other = format!("_work/attempts/{}.json", Attempt::random());
        assert!(!is_marked(&other, b"{\n  \"attempt\": \"0\""));
    }
}
