//! The job: its source, how texts are cut, hashed, banded and scored, and the place of the tables.
//!
//! [`mod@file`] is the TOML file; [`resolve()`] makes it a [`Job`] that cannot be invalid. Stages take the section of their name.
//!
//! From a file to a job:
//!
//! - `file`: the job file; `document`: the place of each key; `hints`: advice on unknown keys and values; `names`: values that are
//!   written in several ways; `wrong`: broken rules.
//! - `draft`: settings from the job of a finished output; `setting_file`: small files that a job names; `absolute`: absolute paths.
//! - `resolve`: checks the sections together, and makes the job.
//!
//! Each section has a file with its keys, their defaults and its rules:
//!
//! - `source`, with `format`, `rows` (`where` and `limit`) and `encoding`; `against`: the reference documents.
//! - `shingle`, whose settings are in [`crate::kernel::shingle`]; `minhash`; `lsh`; `passages`.
//! - `candidates`: the candidate methods; `score`; `curve`: the S-curve of bands and rows.
//! - `clusters` and `alarms`, with `preference`; `output`; `engine`, with `size`; `recipes`: what the recipes of other programs need.
//!
//! The parts of a resolved job: `input`: its kind of input; `read_file`: the files of its input; `fingerprint`: what decides its
//! rows; `keys`: the job as keys of a job file.

mod absolute;
mod against;
mod candidates;
mod clusters;
pub mod curve;
mod document;
mod draft;
mod encoding;
mod engine;
pub mod file;
mod fingerprint;
mod format;
mod hints;
mod input;
mod keys;
mod lsh;
mod minhash;
mod names;
mod output;
mod passages;
mod preference;
mod read_file;
pub(crate) mod recipes;
mod resolve;
mod rows;
mod score;
mod setting_file;
mod shingle;
mod size;
mod source;
mod wrong;

use serde::{Deserialize, Serialize};

pub use self::against::{Against, NewPairs, Reference, SameId};
pub use self::candidates::{Candidates, Compare, Method};
pub use self::clusters::{Alarms, ClusterMethod, Clusters, Per};
use self::curve::Curve;
pub use self::draft::Draft;
pub use self::encoding::Encoding;
pub use self::engine::{Engine, Mode};
pub use self::fingerprint::{FORMAT_VERSION, fingerprint};
pub(crate) use self::format::without_compression;
pub use self::format::{Format, FormatName};
pub use self::input::{Input, Reuse};
pub(crate) use self::keys::keys;
use self::lsh::ROWS_OF_16_BITS;
pub use self::lsh::{BandRule, Choice, Lsh};
pub use self::minhash::{Family, Minhash, Modulus};
pub(crate) use self::names::Names;
pub use self::output::{Columns, Expand, Keep, Output, TableFormat};
pub use self::passages::Passages;
pub use self::preference::{Prefer, Preference};
pub use self::read_file::{InputFile, ReadRanges};
pub use self::recipes::coefficients::Coefficients;
pub use self::recipes::prime::is_prime;
pub use self::resolve::resolve;
pub use self::rows::{Condition, Limit, LimitSize};
pub use self::score::{Score, ScoreBy};
pub(crate) use self::shingle::{MAX_SHINGLE_SIZE, ShingleSection};
pub(crate) use self::size::parse_size;
#[cfg(test)]
pub(crate) use self::source::DOCUMENTS_COLUMNS;
pub use self::source::{Csv, DuplicateIds, OnError, References, Source, SourceId, SourceSection};
pub use crate::kernel::lsh_bands::BucketHash;
pub use crate::kernel::measure::Measure;
pub use crate::kernel::shingle::{Normalize, Shingle, ShingleHash, Short, Unit, Words};
pub use crate::kernel::signature::Bits;
pub use crate::kernel::text::units::TextUnit;

/// A resolved job: every default filled in, every rule checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The run's name in logs and in the manifest.
    pub name: String,
    /// The files of the documents, and their columns.
    pub source: Source,
    /// The input of the run.
    pub input: Input,
    /// The settings for cutting texts into shingles.
    pub shingle: Shingle,
    /// `[shingle] max_frequency`: the largest share of documents, of the source or of a group, that a shingle is in and counts.
    /// `None` if all shingles count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_frequency: Option<f64>,
    /// The settings for signatures.
    pub minhash: Minhash,
    /// The settings for buckets.
    pub lsh: Lsh,
    /// The settings for candidates.
    pub candidates: Candidates,
    /// The reference documents, which those of the source are compared with; `None` where they are compared with each other alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// The threshold of pairs, and their measure.
    pub score: Score,
    /// The cluster method, and the document that represents a cluster.
    pub clusters: Clusters,
    /// The passages that are found inside documents; `None` if none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passages: Option<Passages>,
    /// Bounds that a person should check before duplicates are removed.
    pub alarms: Alarms,
    /// The place and the columns of the tables.
    pub output: Output,
    /// The engine that runs it. Nothing here changes a row of the result.
    pub engine: Engine,
}

/// The expected recall at the threshold under which a job gets a warning.
const LOW_RECALL: f64 = 0.9;

impl Job {
    /// Whether the documents come from texts, and not from finished outputs.
    pub(crate) fn reads_texts(&self) -> bool {
        matches!(self.input, Input::Read)
    }

    /// Whether documents are compared: the pairs of outputs that are merged are known, and a job may ask for passages only.
    pub(crate) fn compares(&self) -> bool {
        !matches!(self.input, Input::Merge(_)) && self.candidates.method.compares()
    }

    /// The place of the reference documents; `None` if there are none.
    pub fn reference(&self) -> Option<&Reference> {
        self.against.as_ref().map(|against| &against.reference)
    }

    /// Which documents are paired, where there are reference documents.
    pub(crate) fn new_pairs(&self) -> Option<NewPairs> {
        self.against.as_ref().map(|against| against.pairs)
    }

    /// What happens to a new document that has the id of a reference document of another output.
    pub(crate) fn same_id(&self) -> Option<SameId> {
        match self.reference()? {
            Reference::Outputs { same_id, .. } => Some(*same_id),
            Reference::Source(_) => None,
        }
    }

    /// The second source, where there is one.
    pub(crate) fn second_source(&self) -> Option<&Source> {
        match self.reference()? {
            Reference::Outputs { .. } => None,
            Reference::Source(source) => Some(source),
        }
    }

    /// The probabilities that the job finds pairs, by their similarity.
    pub fn curve(&self) -> Curve {
        Curve::new(self.candidates.method, &self.minhash, &self.lsh, &self.score)
    }

    /// The share of true pairs at the threshold that the job is expected to find; higher for pairs that are more similar.
    pub fn expected_recall(&self) -> f64 {
        if !self.candidates.method.compares() {
            return 0.0;
        }
        self.curve().kept(self.score.least_jaccard())
    }

    /// The keys that together let exact similarities alone decide on candidates, where estimates do.
    pub(crate) fn keys_for_exact_scores(&self) -> Vec<&'static str> {
        let keys = [
            (self.shingle.short == Short::Empty, "shingle.short=whole"),
            (self.score.by == ScoreBy::Signature, "score.by=shingles"),
            (self.score.prefilter, "score.prefilter=false"),
        ];
        keys.into_iter().filter_map(|(is_needed, key)| is_needed.then_some(key)).collect()
    }

    /// The warning about a job that is expected to miss more than one pair in ten at its threshold; `None` for any
    /// other.
    pub(crate) fn low_recall(&self) -> Option<String> {
        const MORE_CANDIDATES: &str =
            "leave [lsh] out to find 99 %, or set candidates.method = \"prefix\" to find more";
        let (curve, threshold) = (self.curve(), self.score.threshold);
        let least = self.score.least_jaccard();
        let (recall, candidates) = (curve.kept(least), curve.candidate(least));
        (self.compares() && recall < LOW_RECALL).then(|| {
            let exact = self.keys_for_exact_scores().join(" and ");
            let advice = match (exact.as_str(), candidates < LOW_RECALL) {
                ("", _) => MORE_CANDIDATES.to_owned(),
                (exact, false) => format!("set {exact} to find {:.1} %", 100.0 * candidates),
                (exact, true) => format!("set {exact}, and {MORE_CANDIDATES}"),
            };
            format!(
                "this job is expected to find {:.1} % of the pairs at similarity {threshold}: {advice}",
                100.0 * recall
            )
        })
    }

    /// The warnings about the job that need no data.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let short = self.candidates.method.uses_buckets() && self.minhash.bits == Bits::Of16;
        let few_bits = (short && self.lsh.has_few_rows()).then(|| {
            format!(
                "values of 16 bits in bands of {} rows make candidates by chance: set minhash.bits = 32, or lsh.rows = \
                 {ROWS_OF_16_BITS} or more",
                self.lsh.rows
            )
        });
        self.low_recall().into_iter().chain(few_bits).collect()
    }

    /// The columns that the tables have.
    pub(crate) fn columns(&self) -> Columns {
        let Output { keep, pair_passages, .. } = self.output;
        let (groups, bits) = (self.has_groups(), self.minhash.bits);
        Columns { keep, bits, pair_passages, groups, clusters: self.clusters.method }
    }

    /// Whether documents are of groups.
    pub(crate) fn has_groups(&self) -> bool {
        self.source.group.is_some() || self.second_source().is_some_and(|second| second.group.is_some())
    }

    /// Whether the clusters of other outputs may get another id: those that are merged, or that hold reference documents.
    pub(crate) fn continues_clusters(&self) -> bool {
        matches!(self.input, Input::Merge(_)) || matches!(self.reference(), Some(Reference::Outputs { .. }))
    }

    /// The job that would read the second source alone, and cut its texts as this one does.
    pub(crate) fn of_second_source(&self, second: &Source) -> Job {
        Job { source: second.clone(), against: None, ..self.clone() }
    }

    /// The job that merges `outputs` into the one at `url`. `last` is the job of the last of them.
    pub fn of_merge(outputs: Vec<String>, last: &Job, url: &str) -> Job {
        // No text is read for a merge.
        let output = Output { url: url.to_owned(), pair_passages: false, ..last.output.clone() };
        Job {
            name: "merge".into(),
            input: Input::Merge(outputs),
            against: None,
            passages: None,
            output,
            ..last.clone()
        }
    }
}
