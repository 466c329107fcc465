//! The stages of a run, one per file: each has its name, its description, the tables that it writes with their columns, and the
//! frames that make their rows. If a function from frames to frames does not say more, it fails only where a frame lacks its
//! columns.
//!
//! `Stages::of` lists those of a job: `check` prints the list, a run walks through it, and progress counts it. Some
//! stages are on no list, because only the data show that they are needed, such as the rounds that settle dense groups:
//! another stage runs them, or names them as follow-ups.

pub(super) mod agreeing;
pub mod buckets;
pub(super) mod candidates;
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
mod frequent;
mod frequent_shingles;
mod group_pairs;
mod interface;
pub(super) mod left_out;
mod losses;
pub(crate) mod members;
mod pair_limit;
pub(crate) mod pairs;
mod passages;
pub mod ranks;
mod reference;
mod reference_duplicates;
mod reference_passages;
pub(crate) mod removals;
pub mod represented;
mod sample;
pub(crate) mod scores;
pub mod search;
mod sketches;
mod spans;
pub(crate) mod spared;
pub mod stars;
mod texts;
mod totals;
mod uncompared;
mod union_find;
mod units;
mod word_runs;

pub(crate) use self::interface::Stage;
use crate::job::Job;

/// The stages that find and score pairs, in their order, and the one that sorts the buckets by which they are found.
static SEARCH: &[&Stage] = &[
    &left_out::LEFT_OUT_ROWS,
    &duplicates::DUPLICATES,
    &frequent::GROUP_SIZES,
    &frequent::FREQUENT,
    &cuts::CUTS,
    &dictionary::DICTIONARY,
    &sketches::SKETCHES,
    &frequencies::OF_NEW,
    &reference_duplicates::REFERENCE_DUPLICATES,
    &reference::REFERENCE,
    &uncompared::UNCOMPARED,
    &units::UNITS,
    &reference_passages::REFERENCE_UNITS,
    &word_runs::FINGERPRINTS,
    &reference_passages::REFERENCE_FINGERPRINTS,
    &word_runs::FINGERPRINT_HITS,
    &texts::HIT_POSITIONS,
    &word_runs::WINDOWS,
    &copies::COPIES,
    &frequencies::OF_ALL,
    &candidates::CANDIDATES,
    &texts::POSITIONS,
    &scores::SCORES,
    &members::MEMBERS,
    &texts::TEXT_POSITIONS,
    &texts::TEXTS,
    &buckets::BUCKETS,
];

/// The stages that write pairs.
static PAIRS: &[&Stage] = &[&pairs::PAIRS, &group_pairs::GROUP_PAIRS];

/// The stages that make clusters from scores, and those that choose the passages that stay: they prefer documents that no other one
/// represents. None of them reads a table of the stages that write pairs.
static CLUSTERS: &[&Stage] = &[
    &components::COMPONENTS,
    &ranks::RANKS,
    &represented::REPRESENTED,
    &removals::REMOVALS,
    &texts::REMOVAL_POSITIONS,
    &losses::LOSSES,
    &clusters::CLUSTERS,
    &cluster_levels::CLUSTER_LEVELS,
    &spared::SPARED,
    &cluster_id_changes::CLUSTER_ID_CHANGES,
    &word_runs::REPEATED_WINDOWS,
    &spans::SPANS,
    &texts::PASSAGE_POSITIONS,
    &passages::PASSAGES,
    &texts::FREQUENT_POSITIONS,
    &frequent_shingles::FREQUENT_SHINGLES,
];

/// The stages that read all tables.
static ENDS: &[&Stage] = &[&totals::COUNT_TOTALS];

/// The stages of a job.
pub(crate) struct Stages {
    pub(super) search: Vec<&'static Stage>,
    pub(super) pairs: Vec<&'static Stage>,
    pub(super) clusters: Vec<&'static Stage>,
    pub(super) ends: Vec<&'static Stage>,
}

impl Stages {
    /// The stages of `job`.
    pub(crate) fn of(job: &Job) -> Self {
        let of = |stages: &[&'static Stage]| {
            stages.iter().copied().filter(|stage| (stage.is_in)(job)).collect::<Vec<_>>()
        };
        Self { search: of(SEARCH), pairs: of(PAIRS), clusters: of(CLUSTERS), ends: of(ENDS) }
    }

    /// All of them, in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Stage> {
        [&self.search, &self.pairs, &self.clusters, &self.ends].into_iter().flatten().copied()
    }
}

/// The description of a stage of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageDescription {
    /// Its name.
    pub name: String,
    /// Its description, in one line.
    pub text: String,
    /// The names of the tables that it writes.
    pub tables: Vec<String>,
}

/// The stages of `job`, in their order.
pub fn describe(job: &Job) -> Vec<StageDescription> {
    let described = |stage: &Stage| StageDescription {
        name: stage.name().into_owned(),
        text: stage.describe(job),
        tables: stage.tables(job).iter().map(|(table, _)| table.name().into_owned()).collect(),
    };
    Stages::of(job).all().map(described).collect()
}
