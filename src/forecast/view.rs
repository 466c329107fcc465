//! The forecast as plain data.

use std::iter::Sum;

use serde::{Deserialize, Serialize};

use crate::evaluate::Estimate;

/// The forecast of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The name of the job.
    pub name: String,
    /// The sample.
    pub sample: SampleView,
    /// The number of documents that the run reads, including rejects. The range is empty if the files state the number.
    pub documents: Amount,
    /// The number of documents that cannot be compared.
    pub rejects: Amount,
    /// The number of compared pairs of different shingle sets; `None` if all pairs of documents are compared.
    pub candidates: Option<Amount>,
    /// The number of pairs in the result.
    pub pairs: Amount,
    /// The seconds in this process.
    pub seconds: Estimate,
    /// The run on a cluster; `None` if no number of tasks is given.
    pub cluster: Option<OnCluster>,
    /// The peak memory of the process in bytes; `None` if the system does not report it.
    pub peak_memory_bytes: Option<Amount>,
    /// Bytes that the stages write to the output, including temporary tables.
    pub written_bytes: Amount,
    /// Bytes of the final tables.
    pub output_bytes: Amount,
    /// Bytes of spills.
    pub spilled_bytes: Amount,
    /// The maximum number of bytes on local disks at once: spills, and the output if it is local.
    pub most_disk_bytes: Amount,
    /// Requests to an object store; `None` if neither source nor output is in an object store.
    pub requests: Option<Requests>,
    /// The stages in order. The last stage, `check and publish`, is the end of the run.
    pub stages: Vec<StageForecast>,
    /// The final tables.
    pub tables: Vec<TableForecast>,
    /// Risks of high cost or unintended results.
    pub risks: Vec<Risk>,
    /// Passages that many documents in the sample share: its most frequent shingles. Overlapping shingles are joined.
    #[serde(default)]
    pub templates: Vec<Template>,
    /// Limits of the forecast.
    pub notes: Vec<String>,
}

/// The sample of a forecast.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleView {
    /// The number of documents.
    pub documents: u64,
    /// The seed of the draw.
    pub seed: u64,
    /// The number of files read.
    pub files: u64,
    /// The number of files of the source.
    pub of_files: u64,
    /// The number of documents that were read, including documents outside the sample.
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
    /// Returns a known number, with an empty range.
    pub(super) fn exact(value: u64) -> Self {
        Self { value, low: value, high: value }
    }

    /// Returns a rounded number with a range that includes it.
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
    /// The number of tasks that run at once.
    pub tasks: u64,
    /// Seconds of the run, estimated from the seconds in one process.
    pub seconds: Estimate,
}

/// Requests to an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Reads: GET, HEAD and listings.
    pub reads: Amount,
    /// Writes: PUT and POST, one per part of a file.
    pub writes: Amount,
}

/// The forecast of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageForecast {
    /// The name.
    pub name: String,
    /// The seconds.
    pub seconds: Estimate,
    /// The bytes of the files that the stage writes.
    pub written_bytes: Amount,
}

/// The forecast of a final table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableForecast {
    /// The name.
    pub name: String,
    /// The bytes.
    pub bytes: Amount,
}

/// A risk of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// The kind.
    pub kind: RiskKind,
    /// A sentence that describes the risk.
    pub text: String,
    /// The beginning of a text that shows the risk.
    pub example: Option<String>,
    /// Alternative settings that avoid the risk, as `KEY=VALUE` for `--set`.
    pub set: Vec<String>,
}

/// A passage that many documents in the sample share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// The normalised beginning of the passage.
    pub text: String,
    /// The number of shingles.
    pub shingles: u64,
    /// The number of sampled documents with its most frequent shingle.
    pub documents: u64,
    /// The share of these documents.
    pub share: f64,
}

/// The kind of a risk.
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
    /// The process may need more memory than is available.
    LittleMemory,
}
