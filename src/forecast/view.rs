//! A forecast, as plain data.

use std::iter::Sum;

use serde::{Deserialize, Serialize};

use crate::evaluate::Estimate;

/// What a run of a job will take, by a sample of its documents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The name of the job.
    pub name: String,
    /// The sample.
    pub sample: SampleView,
    /// Documents that the run reads, also those that it rejects. Without a range where the files say how many they are.
    pub documents: Amount,
    /// Documents that cannot be compared.
    pub rejects: Amount,
    /// Pairs of different shingle sets that are compared; `None` if every two documents are.
    pub candidates: Option<Amount>,
    /// Pairs in the result.
    pub pairs: Amount,
    /// Seconds in this process.
    pub seconds: Estimate,
    /// Seconds on a cluster; `None` if no number of tasks is given.
    pub cluster: Option<OnCluster>,
    /// The most memory of the process, in bytes; `None` where the system does not say how much it has.
    pub peak_memory_bytes: Option<Amount>,
    /// Bytes that the stages write to the output, also those of tables that are removed at the end.
    pub written_bytes: Amount,
    /// Bytes of the tables that stay.
    pub output_bytes: Amount,
    /// Bytes of spills.
    pub spilled_bytes: Amount,
    /// The most bytes on disks at once: spills, and on a disk also what is written to the output.
    pub most_disk_bytes: Amount,
    /// Requests to an object store; `None` if neither source nor output is in one.
    pub requests: Option<Requests>,
    /// The stages in order. The last one, `check and publish`, is the end of the run.
    pub stages: Vec<StageForecast>,
    /// The tables that stay.
    pub tables: Vec<TableForecast>,
    /// What may cost more than it should, or give another result than was meant.
    pub risks: Vec<Risk>,
    /// Passages that many documents of the sample have: its most frequent shingles, those that follow each other joined.
    #[serde(default)]
    pub templates: Vec<Template>,
    /// What the sample cannot tell.
    pub notes: Vec<String>,
}

/// The sample of a forecast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampleView {
    /// Its documents.
    pub documents: u64,
    /// The seed that chose them.
    pub seed: u64,
    /// The files that were read for it.
    pub files: u64,
    /// The files of the source.
    pub of_files: u64,
    /// Documents that were read for it, also those that it does not have.
    pub documents_read: u64,
}

/// A whole number with its range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amount {
    /// The number.
    pub value: u64,
    /// The lower end.
    pub low: u64,
    /// The upper end.
    pub high: u64,
}

impl Amount {
    /// A number that is known.
    pub(super) fn exact(value: u64) -> Self {
        Self { value, low: value, high: value }
    }

    /// A number with its range, whose ends are put in order.
    pub(super) fn ranged([value, low, high]: [f64; 3]) -> Self {
        let whole = |number: f64| number.max(0.0).round() as u64;
        Self { value: whole(value), low: whole(low.min(value)), high: whole(high.max(value)) }
    }
}

impl Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            value: sum.value + one.value,
            low: sum.low + one.low,
            high: sum.high + one.high,
        })
    }
}

/// A run on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OnCluster {
    /// Tasks that run at once.
    pub tasks: u64,
    /// Seconds of the run, estimated from those in this process.
    pub seconds: Estimate,
}

/// Requests to an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Reads: GET, HEAD and listings.
    pub reads: Amount,
    /// Writes: PUT and POST, a part of a file each.
    pub writes: Amount,
}

/// A stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageForecast {
    /// Its name.
    pub name: String,
    /// Its seconds.
    pub seconds: Estimate,
    /// Bytes of the files that it writes.
    pub written_bytes: Amount,
}

/// A table that stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableForecast {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Amount,
}

/// A risk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// What it is.
    pub kind: RiskKind,
    /// A sentence about it.
    pub text: String,
    /// A text that shows it, cut after some words.
    pub example: Option<String>,
    /// Settings that avoid it, as `KEY=VALUE` for `--set`; each is meant alone.
    pub set: Vec<String>,
}

/// A passage that many documents of the sample have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// The passage as shingles have it, cut after some words.
    pub text: String,
    /// Its shingles.
    pub shingles: u64,
    /// Documents with the most frequent of them, of those whose shingles were counted.
    pub documents: u64,
    /// Their share.
    pub share: f64,
}

/// What a risk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskKind {
    /// Many documents have the same shingles: a header, a licence.
    FrequentShingles,
    /// Many documents have few shingles or none.
    ShortDocuments,
    /// A document is very large.
    LargeDocument,
    /// The bands make many candidates that are not pairs.
    ManyCandidates,
    /// Many pairs are expected to be missed at the threshold.
    LowRecall,
    /// The run would end because of `output.max_pairs`.
    TooManyPairs,
    /// The disk has less free space than the run needs.
    LittleDisk,
    /// The process may need more memory than there is.
    LittleMemory,
}
