//! Finds and removes the files of an output that are no longer needed: see [`super::ours`] for the rules.

use std::collections::BTreeMap;

use super::Layout;
use super::claim;
use super::entries::OutputEntry;
use super::names::Attempt;
use super::ours::{FileVerdict, Ours, RemovalOrder};
use super::paths::WORK;
use crate::error::Result;
use crate::schema::Table;

/// The files in the folders of an output that are not in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Garbage {
    /// Files of ours that are no longer needed, in the order of their removal: files that prove others to be ours come
    /// last.
    pub dead: Vec<OutputEntry>,
    /// Files that this program did not provably write; paths inside the output.
    pub foreign: Vec<String>,
    /// Files of ours that stay because of Delta logs that do not follow our results; paths inside the output.
    pub held: Vec<String>,
}

impl Garbage {
    /// A sentence for the user about each kind of file that stays.
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

/// Finds the garbage of an output. Reads manifests and listings, and removes nothing. `own` is the attempt of the
/// caller, whose claim protects none of its files.
///
/// # Errors
/// When the store does not answer, or the manifest is of a newer version, whose files are unknown.
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

/// Removes the dead files that [`survey`] found.
pub(crate) async fn remove(output: &Layout, garbage: &Garbage) -> Result<()> {
    output.remove_entries(garbage.dead.clone()).await
}
