//! What an output holds that nobody needs any more, and what it holds that is not ours: see [`super::ours`] for which is which.

use std::collections::BTreeMap;
use std::path::PathBuf;

use object_store::path::Path;

use super::Layout;
use super::claim;
use super::local;
use super::names::Attempt;
use super::ours::{Order, Ours, Verdict};
use super::paths::WORK;
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
    /// Files of ours that stay because of Delta logs that do not follow our results; paths inside the output.
    pub held: Vec<String>,
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
    /// The sentences about files that stay; none if there are none.
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

/// What of an output is dead, and what is not ours. Reads manifests and listings, removes nothing. `own` is the attempt that
/// asks, whose claim on the output keeps none of its files.
///
/// # Errors
/// When the store does not answer, or the manifest is of another version: then nobody knows what it names.
pub(crate) async fn survey(output: &Layout, own: &Attempt) -> Result<Garbage> {
    let there = there(output).await?;
    let ours = Ours::among(output, own, there.keys()).await?;
    let mut dead: BTreeMap<Order, Vec<Dead>> = BTreeMap::new();
    let mut found = Garbage::default();
    for (inside, (bytes, file)) in there {
        if claim::attempt_of(&inside).is_some_and(|attempt| attempt == *own) {
            // The asker takes its claim back itself.
            continue;
        }
        match ours.verdict(&inside) {
            Verdict::InForce => {}
            Verdict::Foreign => found.foreign.push(inside),
            Verdict::Held => found.held.push(inside),
            Verdict::Dead(order) => dead.entry(order).or_default().push(Dead { inside, bytes, file }),
        }
    }
    found.dead = dead.into_values().flatten().collect();
    Ok(found)
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
