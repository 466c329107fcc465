//! The forecast as plain data.

use serde::{Deserialize, Serialize};

use crate::evaluate::Estimate;

/// The forecast of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The name of the job.
    pub name: String,
    /// The sample from which the cost was extrapolated.
    pub sample: SampleView,
    /// The number of documents that the run reads, including rejects. Both ends of the range equal the value if the number is exact.
    pub documents: Amount,
    /// The number of rejects, which are documents that cannot be compared.
    pub rejects: Amount,
    /// The number of candidates, which are compared pairs of different shingle sets; `None` if all pairs of documents are compared.
    pub candidates: Option<Amount>,
    /// The number of pairs in the output.
    pub pairs: Amount,
    /// The seconds of a run in one process.
    pub seconds: Estimate,
    /// The forecast for a run on a cluster; `None` if the user gives no number of tasks.
    pub cluster: Option<OnCluster>,
    /// The peak memory of the process in bytes; `None` if the system does not report it.
    pub peak_memory_bytes: Option<Amount>,
    /// The bytes that the stages write to the output, including temporary tables.
    pub written_bytes: Amount,
    /// The bytes of the final tables.
    pub output_bytes: Amount,
    /// The bytes that operators spill to disk.
    pub spilled_bytes: Amount,
    /// The maximum number of bytes on local disks at the same time: the spilled bytes, and the written bytes if the output is local.
    pub most_disk_bytes: Amount,
    /// The requests to object stores; `None` if neither the source nor the output is in an object store.
    pub requests: Option<Requests>,
    /// The stages in order. `check and publish`, the last step of a run, is also listed.
    pub stages: Vec<StageForecast>,
    /// The final tables.
    pub tables: Vec<TableForecast>,
    /// Risks of high cost or unintended results.
    pub risks: Vec<Risk>,
    /// Passages that many sampled documents share: the most frequent shingles, joined where they overlap.
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
    /// The seed with which documents were drawn.
    pub seed: u64,
    /// The number of files that were read to draw the sample.
    pub files: u64,
    /// The number of files in the source.
    pub of_files: u64,
    /// The number of documents that were read, including documents outside the sample.
    pub documents_read: u64,
}

/// A whole number with its range.
pub type Amount = Estimate<u64>;

impl Amount {
    /// Returns an exact number, whose range is only its value.
    pub(super) fn exact(value: u64) -> Self {
        Self { value, low: value, high: value }
    }

    /// Rounds a value and both ends of its range, which is extended to include the value.
    pub(super) fn ranged([value, low, high]: [f64; 3]) -> Self {
        let whole = |number: f64| number.max(0.0).round() as u64;
        Self { value: whole(value), low: whole(low.min(value)), high: whole(high.max(value)) }
    }
}

/// A run on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OnCluster {
    /// The number of tasks that run at once.
    pub tasks: u64,
    /// The seconds of the run, estimated from the seconds in one process.
    pub seconds: Estimate,
}

/// Requests to an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requests {
    /// Read requests: GET, HEAD and listings.
    pub reads: Amount,
    /// Write requests: PUT and POST, one per part of a file.
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
    /// Settings as `KEY=VALUE` for `--set`. Each setting alone can avoid the risk.
    pub set: Vec<String>,
}

/// A passage that many documents in the sample share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Template {
    /// The beginning of the passage, normalised as the job requires.
    pub text: String,
    /// The number of shingles.
    pub shingles: u64,
    /// The number of sampled documents that contain the most frequent shingle of the passage.
    pub documents: u64,
    /// `documents` as a share of the sampled documents.
    pub share: f64,
}

/// The kind of a risk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RiskKind {
    /// Many documents share shingles, such as a header or a licence.
    FrequentShingles,
    /// Many documents have few or no shingles.
    ShortDocuments,
    /// A document is very large.
    LargeDocument,
    /// The bands make many candidates that are not pairs.
    ManyCandidates,
    /// The job is expected to miss many pairs whose similarity is near the threshold.
    LowRecall,
    /// The run would end because of `output.max_pairs`.
    TooManyPairs,
    /// The disk has less free space than the run needs.
    LittleDisk,
    /// The process may need more memory than is available.
    LittleMemory,
}
