//! The job: what is read, how it is cut, hashed, banded and scored, and where the tables go.
//!
//! [`mod@file`] is the TOML file and nothing else; [`resolve()`] makes of it a [`Job`] that cannot be invalid.
//! Stages take the section that bears their name.

mod against;
pub mod choose;
mod clusters;
mod coefficients;
pub mod curve;
mod document;
mod draft;
mod encoding;
mod engine;
pub mod file;
mod fingerprint;
mod minhash;
mod normalize;
mod output;
mod preference;
mod prime;
mod resolve;
mod search;
mod setting_file;
mod shingle;
mod size;
mod source;
pub(crate) mod stop_words;

use std::time::SystemTime;

use serde::{Deserialize, Serialize};

pub use self::against::{Against, NewPairs, SameId};
pub use self::clusters::{Alarms, ClusterMethod, Clusters, Per};
pub use self::coefficients::Coefficients;
pub use self::draft::Draft;
pub use self::encoding::Encoding;
pub use self::engine::{Cluster, Engine};
pub use self::fingerprint::{FORMAT_VERSION, fingerprint};
pub use self::minhash::{Family, Minhash, Modulus};
pub use self::output::{Columns, Expand, Keep, Output, Tables};
pub use self::preference::{Prefer, Preference};
pub use self::prime::is_prime;
#[cfg(test)]
pub(crate) use self::resolve::DOCUMENTS_COLUMNS;
pub use self::resolve::resolve;
pub(crate) use self::resolve::{MAX_PERMUTATIONS, MAX_SHINGLE_SIZE, MAX_THREADS};
pub use self::search::{BucketHash, Candidates, Choice, Compare, Lsh, Measure, Method, Score, ScoreBy};
pub use self::shingle::{Normalize, Shingle, ShingleHash, Short, Unit, Words};
pub(crate) use self::size::parse_size;
pub use self::source::{Csv, DuplicateIds, Format, Id, OnError, References, Source};

/// A resolved job: every default filled in, every rule checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What the run calls itself in logs and in the manifest.
    pub name: String,
    /// Where the documents are.
    pub source: Source,
    /// The finished output whose sketches are used again: its job read `source`, cut and hashed as this one says. None where
    /// the texts are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<Reuse>,
    /// The finished outputs that are merged into one, in the order in which they were made. None where documents are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge: Option<Vec<String>>,
    /// How a text becomes a set of shingles.
    pub shingle: Shingle,
    /// How a set of shingles becomes a signature.
    pub minhash: Minhash,
    /// How a signature becomes buckets.
    pub lsh: Lsh,
    /// How candidates are found.
    pub candidates: Candidates,
    /// The documents that are known already, which those of the source are compared with; none where they are compared with
    /// each other alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub against: Option<Against>,
    /// What makes a candidate a pair.
    pub score: Score,
    /// What a cluster is, and which of its documents represents it.
    #[serde(default)]
    pub clusters: Clusters,
    /// What somebody should look at before copies are removed.
    #[serde(default)]
    pub alarms: Alarms,
    /// Where the tables go.
    pub output: Output,
    /// What runs it. Nothing here changes a row of the result.
    pub engine: Engine,
}

impl Job {
    /// Which documents are paired, where some are known already.
    pub(crate) fn new_pairs(&self) -> Option<NewPairs> {
        self.against.as_ref().map(|against| against.pairs)
    }

    /// What becomes of a document whose id is known, where some are known from earlier runs.
    pub(crate) fn same_id(&self) -> Option<SameId> {
        self.against.as_ref().filter(|against| against.source.is_none()).map(|against| against.same_id)
    }

    /// The second source, whose documents are known, where there is one.
    pub(crate) fn known_source(&self) -> Option<&Source> {
        self.against.as_ref()?.source.as_ref()
    }

    /// The columns that the tables have.
    pub(crate) fn columns(&self) -> Columns {
        let Output { keep, passages, .. } = self.output;
        let represented = self.against.is_none().then_some(self.clusters.method);
        Columns { keep, passages, groups: self.has_groups(), represented }
    }

    /// Whether documents are of groups.
    pub(crate) fn has_groups(&self) -> bool {
        self.source.group.is_some() || self.known_source().is_some_and(|known| known.group.is_some())
    }

    /// Whether the run goes on from earlier ones.
    pub(crate) fn goes_on(&self) -> bool {
        self.against.as_ref().is_some_and(|against| against.source.is_none())
    }

    /// The job that would read the second source `known` alone, and cut its texts as this one does.
    pub(crate) fn of_known_source(&self, known: &Source) -> Job {
        Job { source: known.clone(), against: None, ..self.clone() }
    }

    /// The job that merges `outputs`, of which the last one was made by `last`, into the one at `url`.
    pub fn of_merge(outputs: Vec<String>, last: &Job, url: &str) -> Job {
        // No text is read for a merge.
        let output = Output { url: url.to_owned(), passages: false, ..last.output.clone() };
        Job { name: "merge".into(), reuse: None, merge: Some(outputs), against: None, output, ..last.clone() }
    }
}

/// A finished output whose sketches are used again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reuse {
    /// Its folder or URL prefix.
    pub output: String,
    /// Whether it keeps shingles, so that no text is read again.
    pub keeps_shingles: bool,
}

/// One file of the input, as it was when the run listed it. Part of the run's fingerprint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// The file's URL or path.
    pub path: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was last written.
    pub modified: SystemTime,
    /// What its object store calls its content; none for files on disks, where a copy of a file would have another.
    pub e_tag: Option<String>,
}
