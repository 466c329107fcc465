//! The stages of a run, by subject. A stage consists of a name, a description, tables with their columns, and a plan that computes the
//! rows with functions of [`crate::frames`].
//!
//! `check` prints the lists below for a job. Some stages are in no list, because the data decides whether they are needed, for example the
//! rounds that compare dense groups. Another stage runs them or returns them as follow-ups.

mod clusters;
mod components;
mod copies;
pub(super) mod decisions;
pub(super) mod documents;
mod frequent;
mod interface;
mod losses;
mod pairs;
mod passages;
mod reference;
pub(super) mod search;
mod searched;
pub(super) mod totals;

use std::collections::VecDeque;

use self::interface::{Stage, StageContext};
use super::keep_values;
use crate::error::Result;
use crate::job::Job;

/// The stages that find and score pairs.
static SEARCH: &[&Stage] = &[
    &documents::LEFT_OUT_ROWS,
    &documents::DUPLICATES,
    &frequent::GROUP_SIZES,
    &frequent::FREQUENT,
    &documents::CUTS,
    &documents::DICTIONARY,
    &documents::SKETCHES,
    &search::NEW_FREQUENCIES,
    &decisions::JUDGED_DOCUMENTS,
    &decisions::UNKNOWN,
    &reference::REFERENCE_DUPLICATES,
    &reference::REFERENCE,
    &passages::UNCOMPARED,
    &passages::UNITS,
    &passages::REFERENCE_UNITS,
    &passages::FINGERPRINTS,
    &passages::REFERENCE_FINGERPRINTS,
    &passages::FINGERPRINT_HITS,
    &passages::WINDOWS,
    &copies::COPIES,
    &decisions::SAME_SCORES,
    &search::ALL_FREQUENCIES,
    &pairs::CANDIDATES,
    &pairs::SCORES,
    &pairs::MEMBERS,
    &pairs::TEXTS,
];

static PAIRS: &[&Stage] = &[&pairs::PAIRS, &pairs::GROUP_PAIRS];

/// The stages that compute clusters from scores, and the stages that choose which occurrence of a passage is kept. Passages are
/// preferably kept in documents that no other document represents. These stages read no table that [`PAIRS`] writes.
static CLUSTERS: &[&Stage] = &[
    &components::COMPONENTS,
    &clusters::RANKS,
    &clusters::REPRESENTED,
    &decisions::APART,
    &losses::REMOVALS,
    &losses::LOSSES,
    &clusters::CLUSTERS,
    &clusters::CLUSTER_LEVELS,
    &losses::SPARED,
    &clusters::CLUSTER_ID_CHANGES,
    &passages::REPEATED_WINDOWS,
    &passages::SPANS,
    &passages::PASSAGES,
    &frequent::FREQUENT_SHINGLES,
    &decisions::DECISIONS,
];

/// The stages that read the tables of all other stages.
static ENDS: &[&Stage] = &[&totals::COUNT_TOTALS];

fn needed(list: &'static [&'static Stage], job: &Job) -> impl Iterator<Item = &'static Stage> {
    list.iter().copied().filter(|stage| (stage.is_in)(job))
}

fn stages(job: &Job) -> impl Iterator<Item = &'static Stage> {
    [SEARCH, PAIRS, CLUSTERS, ENDS].into_iter().flat_map(move |list| needed(list, job))
}

/// The description of a stage of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageDescription {
    /// The name of the stage.
    pub name: String,
    /// The description in one line.
    pub text: String,
    /// The names of the tables that the stage writes.
    pub tables: Vec<String>,
}

/// Returns descriptions of the stages of `job`, in order.
pub fn describe(job: &Job) -> Vec<StageDescription> {
    let described = |stage: &Stage| StageDescription {
        name: stage.name().into_owned(),
        text: stage.describe(job),
        tables: stage.tables(job).iter().map(|(table, _)| table.name().into_owned()).collect(),
    };
    stages(job).map(described).collect()
}

pub(super) async fn walk(cx: &StageContext<'_>) -> Result<()> {
    let names: Vec<String> = stages(cx.job).map(|stage| stage.name().into_owned()).collect();
    cx.runner.begin(&names);
    run(cx, SEARCH).await?;
    keep_values::check(cx).await?;
    if cx.engine().runs_stages_together() {
        // Awaits both lists even if one fails, so that the next attempt can take over all finished stages.
        let (pairs, clusters) = futures::join!(run(cx, PAIRS), run(cx, CLUSTERS));
        pairs.and(clusters)?;
    } else {
        run(cx, PAIRS).await?;
        run(cx, CLUSTERS).await?;
    }
    run(cx, ENDS).await
}

/// Runs the stages in a list one after the other. The follow-ups of a stage run before the next stage.
async fn run(cx: &StageContext<'_>, list: &'static [&'static Stage]) -> Result<()> {
    let mut ahead: VecDeque<&Stage> = needed(list, cx.job).collect();
    while let Some(stage) = ahead.pop_front() {
        let further = stage.run(cx).await?;
        cx.runner.expect(further.len());
        for stage in further.into_iter().rev() {
            ahead.push_front(stage);
        }
    }
    Ok(())
}
