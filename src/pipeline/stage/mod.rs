//! The stages of a run, one a file: each has its name, what it does, the tables that it writes with their columns, and the frames
//! that make their rows.
//!
//! `Stages::of` lists those of a job: `check` prints the list, a run walks through it, and progress counts it. Some stages are on
//! no list, because only the data tell that there is one, such as the rounds that settle dense groups: the stage that needs one runs
//! it, or names it as a follow-up.

pub(super) mod agreeing;
pub(super) mod all_candidates;
pub mod candidates;
mod cluster_id_changes;
pub mod cluster_levels;
pub mod clusters;
mod components;
pub mod copies;
mod cuts;
pub(super) mod dense_candidates;
mod dictionary;
pub mod duplicates;
mod frequencies;
mod group_pairs;
mod hot_positions;
mod hot_sketches;
mod interface;
pub(crate) mod members;
pub(crate) mod pairs;
mod positions;
mod prefix_join;
pub mod ranks;
mod reference;
mod reference_duplicates;
pub mod represented;
pub(super) mod sample;
pub(crate) mod scores;
mod sketches;
pub mod stars;
mod texts;
mod union_find;

pub(crate) use self::interface::Stage;
use crate::job::Job;

/// The stages that find and score pairs, in their order.
static SEARCH: &[&dyn Stage] = &[
    &duplicates::Duplicates,
    &cuts::Cuts,
    &dictionary::Dictionary,
    &sketches::Sketches,
    &frequencies::Frequencies::New,
    &reference_duplicates::ReferenceDuplicates,
    &reference::Reference,
    &copies::Copies,
    &frequencies::Frequencies::All,
    &candidates::Candidates,
    &positions::Positions,
    &scores::Scores,
    &members::Members,
    &texts::TextPositions,
    &texts::Texts,
];

/// The stages that write pairs.
static PAIRS: &[&dyn Stage] = &[&pairs::Pairs, &group_pairs::GroupPairs];

/// The stages that make clusters of scores. None of them reads what those of pairs write.
static CLUSTERS: &[&dyn Stage] = &[
    &components::Components,
    &ranks::Ranks,
    &represented::Represented,
    &clusters::Clusters,
    &cluster_levels::ClusterLevels,
    &cluster_id_changes::ClusterIdChanges,
];

/// The stages of a job.
pub(crate) struct Stages {
    pub(super) search: Vec<&'static dyn Stage>,
    pub(super) pairs: Vec<&'static dyn Stage>,
    pub(super) clusters: Vec<&'static dyn Stage>,
}

impl Stages {
    /// Those of `job`.
    pub(crate) fn of(job: &Job) -> Self {
        let of = |stages: &[&'static dyn Stage]| {
            stages.iter().copied().filter(|stage| stage.is_in(job)).collect::<Vec<_>>()
        };
        Self { search: of(SEARCH), pairs: of(PAIRS), clusters: of(CLUSTERS) }
    }

    /// All of them, in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static dyn Stage> {
        [&self.search, &self.pairs, &self.clusters].into_iter().flatten().copied()
    }
}

/// A stage of a job, as a reader of the job sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// What it does, in one line.
    pub text: String,
    /// The names of the tables that it writes.
    pub tables: Vec<String>,
}

/// The stages of `job`, in their order.
pub fn describe(job: &Job) -> Vec<Described> {
    let described = |stage: &dyn Stage| Described {
        name: stage.name().into_owned(),
        text: stage.describe(job),
        tables: stage.tables(job).iter().map(|(table, _)| table.name().into_owned()).collect(),
    };
    Stages::of(job).all().map(described).collect()
}
