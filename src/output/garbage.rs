//! What an output holds that nobody needs any more, and what it holds that is not ours.
//!
//! A file is ours where something that we wrote stands behind it: a manifest or a step's manifest names it, the record of
//! an attempt says that it will be replaced, or its name carries an attempt whose record is there or whom the manifest of
//! the finished run names. Of these, a file is dead when nothing in force names it and its attempt does not claim the
//! output now. Nothing else is ever removed.
//!
//! The logs of Delta tables are neither dead nor foreign, whoever wrote them: their readers need every one of their files.
//! They must have followed the manifest before anything is removed, so that no log names a file that is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use object_store::path::Path;

use super::attempt::Record;
use super::local;
use super::manifest::FinishedStep;
use super::names::{Attempt, whole_name};
use super::paths::WORK;
use super::{Layout, attempt, claim, delta};
use crate::error::{Context, Result};
use crate::schema::Table;

/// What lies in the folders of an output besides what is in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Garbage {
    /// Files of ours that nobody needs, in the order in which they are to be removed: what proves that others are ours
    /// comes last.
    pub dead: Vec<Dead>,
    /// Files that we did not write, or cannot prove to have written; paths inside the output.
    pub foreign: Vec<String>,
}

/// A file of ours that nobody needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dead {
    /// Its path inside the output.
    pub inside: String,
    /// Its size.
    pub bytes: u64,
    /// The file, where the output is on this machine: a local store hides files that are not whole yet.
    file: Option<PathBuf>,
}

impl Garbage {
    /// The sentence about files that are not ours; `None` if there are none.
    pub(crate) fn foreign_sentence(&self, output: &Layout) -> Option<String> {
        let (first, others) = self.foreign.split_first()?;
        let output = output.shown();
        Some(match others.len() {
            0 => format!("1 file in {output} is not known to be written by this program and stays: {first}"),
            n => format!(
                "{} files in {output} are not known to be written by this program and stay: {first} and {n} more",
                n + 1
            ),
        })
    }
}

/// What of an output is dead, and what is not ours. Reads manifests and listings, removes nothing. `own` is the attempt that
/// asks, whose claim on the output keeps none of its files.
///
/// # Errors
/// When the store does not answer, or the manifest is of another version: then nobody knows what it names.
pub(crate) async fn survey(output: &Layout, own: &Attempt) -> Result<Garbage> {
    let finished = output.manifest().await?;
    let there = there(output).await?;
    let mut known = Known::default();
    if let Some(run) = &finished {
        known.in_force.extend(run.paths().into_iter().map(str::to_owned));
        known.attempts.extend(run.attempts.iter().filter_map(|id| Attempt::parse(id)));
    }
    for inside in there.keys().filter(|inside| inside.starts_with(WORK) && inside.ends_with(".json")) {
        known.read(output, inside, finished.is_some()).await?;
    }
    // Listed last: an attempt that came after the listing above has no file in it.
    known.alive.extend(claim::claimants(output).await?.into_iter().filter(|attempt| attempt != own));

    let mut dead: [Vec<Dead>; 3] = Default::default();
    let mut foreign = Vec::new();
    for (inside, (bytes, file)) in there {
        if inside.starts_with(claim::CLAIMS) && inside.contains(own.as_str()) {
            // The asker takes its claim back itself.
            continue;
        }
        match known.kind(&inside) {
            Kind::InForce => {}
            Kind::Foreign => foreign.push(inside),
            Kind::Dead(order) => dead[order].push(Dead { inside, bytes, file }),
        }
    }
    Ok(Garbage { dead: dead.into_iter().flatten().collect(), foreign })
}

/// Removes what [`survey`] found dead.
///
/// # Errors
/// When the store refuses.
pub(crate) async fn remove(output: &Layout, garbage: &Garbage) -> Result<()> {
    let mut objects: Vec<Path> = Vec::new();
    for dead in &garbage.dead {
        match &dead.file {
            Some(file) => local::remove(file).context(|| format!("cannot remove {}", file.display()))?,
            None => objects.push(output.path(&dead.inside)),
        }
    }
    output.remove(objects).await?;
    output.remove_empty_work();
    Ok(())
}

/// Every file in the folders of ours, by its path inside the output: its size, and where it is on this machine.
async fn there(output: &Layout) -> Result<BTreeMap<String, (u64, Option<PathBuf>)>> {
    let mut found = BTreeMap::new();
    for folder in Table::ALL.map(Table::name).into_iter().chain([WORK]) {
        match output.folder() {
            Some(root) => {
                let listed = local::files_under(&root.join(folder));
                let listed = listed.context(|| format!("cannot list {}/{folder}", output.shown()))?;
                for (file, bytes) in listed {
                    let Ok(inside) = file.strip_prefix(root) else { continue };
                    let inside = inside.to_string_lossy().into_owned();
                    found.insert(inside, (bytes, Some(file)));
                }
            }
            None => {
                for meta in output.list(folder).await? {
                    if let Some(inside) = output.inside(&meta.location) {
                        found.insert(inside, (meta.size, None));
                    }
                }
            }
        }
    }
    Ok(found)
}

enum Kind {
    InForce,
    Foreign,
    /// Dead; its place in the order of removal.
    Dead(usize),
}

/// Data first, then the manifests and records that prove it to be ours, then claims.
const DATA: usize = 0;
const PROOF: usize = 1;
const CLAIM: usize = 2;

/// What manifests, records and claims say.
#[derive(Default)]
struct Known {
    /// Files that a manifest in force names.
    in_force: BTreeSet<String>,
    /// Files that are ours because a file of ours names them.
    named: BTreeSet<String>,
    /// Step manifests and records that are not needed any more.
    proofs: BTreeSet<String>,
    /// Step manifests and records that are.
    kept: BTreeSet<String>,
    attempts: BTreeSet<Attempt>,
    alive: BTreeSet<Attempt>,
}

impl Known {
    /// Takes in a JSON file under `_work`. `finished`: the steps are needed no more.
    async fn read(&mut self, output: &Layout, inside: &str, finished: bool) -> Result<()> {
        let Some((bytes, _)) = output.read_bytes(inside).await? else { return Ok(()) };
        if let Some(attempt) = attempt::attempt_of(inside) {
            if let Ok(record) = serde_json::from_slice::<Record>(&bytes) {
                self.named.extend(record.replaces);
            }
            // The name alone proves it, also where a power cut took the content.
            self.attempts.insert(attempt);
        } else if let Ok(step) = serde_json::from_slice::<FinishedStep>(&bytes) {
            let files = step.files.into_iter().map(|file| file.path);
            match finished {
                true => self.named.extend(files),
                false => self.in_force.extend(files),
            }
        } else {
            return Ok(());
        }
        match finished {
            true => self.proofs.insert(inside.to_owned()),
            false => self.kept.insert(inside.to_owned()),
        };
        Ok(())
    }

    fn kind(&self, inside: &str) -> Kind {
        let whole = whole_name(inside);
        if self.in_force.contains(inside) || self.kept.contains(inside) {
            return Kind::InForce;
        }
        if delta::is_part_of_log(inside) {
            return Kind::InForce;
        }
        let name = inside.rsplit('/').next().unwrap_or(inside);
        let attempt = Attempt::of_part(name)
            .or_else(|| attempt::attempt_of(whole))
            .or_else(|| claim::attempt_of(&Path::from(whole)).filter(|_| inside.starts_with(claim::CLAIMS)));
        if attempt.as_ref().is_some_and(|attempt| self.alive.contains(attempt)) {
            return Kind::InForce;
        }
        if self.proofs.contains(inside) {
            return Kind::Dead(PROOF);
        }
        if inside.starts_with(claim::CLAIMS) {
            return if attempt.is_some() { Kind::Dead(CLAIM) } else { Kind::Foreign };
        }
        let known = attempt.is_some_and(|attempt| self.attempts.contains(&attempt));
        if known || self.named.contains(whole) {
            return Kind::Dead(DATA);
        }
        // The beginning of a manifest, record or commit of ours.
        let begun = match inside.starts_with(WORK) {
            true => local::is_staged(name) || (whole != inside && whole.ends_with(".json")),
            false => local::is_staged(name) && delta::is_in_log(inside),
        };
        if begun && self.alive.is_empty() {
            return Kind::Dead(DATA);
        }
        Kind::Foreign
    }
}
