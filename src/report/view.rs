//! The report as plain data, which `--json` prints.

use serde::{Deserialize, Serialize};

use crate::evaluate::Evaluation;
use crate::evaluate::audit::Judged;
use crate::forecast::{Forecast, StageForecast};
use crate::page::Side;

/// A report on a finished output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The URL of the output, with masked secrets.
    pub output: String,
    /// The name of the dataset: the last part of its first URL.
    pub dataset: String,
    /// The name of the job.
    pub name: String,
    /// The version of this program that made the output.
    pub resemblance: String,
    /// The time when the run finished, in UTC, as RFC 3339.
    pub finished: String,
    /// The main results in five numbers.
    pub numbers: ReportNumbers,
    /// The main results in a sentence.
    pub sentence: String,
    /// A sentence that explains shingles.
    pub shingle: String,
    /// The exceeded bounds of the job, and the warnings of the run.
    pub alarms: AlarmView,
    /// The documents that `apply` would remove.
    pub removed: RemovedView,
    /// The threshold of the job.
    pub threshold: f64,
    /// The measure of the threshold: jaccard, estimated jaccard or containment.
    pub measure: String,
    /// The number of intervals of similarity from 0 to 1.
    pub per_unit: u32,
    /// The number of pairs in each interval of similarity.
    pub similarities: Vec<SimilarityBin>,
    /// The number of clusters in each interval of sizes.
    pub cluster_sizes: Vec<ClusterSizes>,
    /// The largest, the loosest and a random cluster.
    pub clusters: Vec<DrawnCluster>,
    /// The reason why the texts could not be read; `None` if they were read.
    pub no_texts: Option<String>,
    /// The spared documents by reason, which `apply` keeps besides the representatives; `None` if the job does not spare documents.
    pub spared: Option<Vec<Spared>>,
    /// Examples of spared documents.
    pub spared_examples: Vec<SpareExample>,
    /// The documents that were not compared.
    pub rejected: Vec<Rejected>,
    /// The repeated passages inside documents; `None` if the job does not search for them.
    pub passages: Option<RepeatedPassages>,
    /// The frequent shingles, which comparisons ignore; `None` if all shingles are compared.
    pub frequent_shingles: Option<FrequentShingles>,
    /// The expected and the measured recall.
    pub recall: RecallView,
    /// The precision, estimated from labels; `None` if no file of labels is given.
    pub judged: Option<Judged>,
    /// The time, memory and bytes of the run.
    pub cost: Cost,
    /// The settings of the job.
    pub settings: Vec<Setting>,
    /// The changes since an earlier output, if the user names one.
    pub before: Option<Before>,
}

/// The main results in five numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ReportNumbers {
    /// The number of compared documents.
    pub documents: u64,
    /// The number of pairs.
    pub pairs: u64,
    /// The number of clusters.
    pub clusters: u64,
    /// The number of documents that `apply` would remove.
    pub removed: u64,
    /// The number of removals that lose more than 2 % of their shingles; `None` if the run did not count them.
    pub lossy_removals: Option<u64>,
}

/// The exceeded bounds and the warnings. A reader should look at them first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlarmView {
    /// Whether the job has bounds.
    pub has_bounds: bool,
    /// A sentence for each exceeded bound.
    pub exceeded: Vec<String>,
    /// The warnings of the run.
    pub warnings: Vec<String>,
}

/// The documents that `apply` would remove.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemovedView {
    /// The removals by reason.
    pub by_reason: Vec<RemovalsBy>,
    /// The removals by group, in descending order of removals; `None` if the job has no groups.
    pub by_group: Option<Vec<RemovalsOfGroup>>,
    /// The number of groups that the list omits.
    pub more_groups: u64,
    /// The sum of the sizes of the shingle sets of all documents.
    pub shingles: u64,
    /// The sum of the sizes of the shingle sets of removed documents.
    pub removed_shingles: u64,
    /// The bytes of the source.
    pub source_bytes: u64,
    /// The estimated bytes of the removed documents, in proportion to their shingles; `None` if the job has reference documents.
    pub about_bytes: Option<u64>,
    /// The number of shingles that only removed documents of a cluster contain; `None` if the run did not count them.
    pub lost_shingles: Option<u64>,
}

/// The documents that are removed for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalsBy {
    /// `same_shingles`, `contained`, `lossy`, `not_counted` or `chain`.
    pub reason: String,
    /// The number of documents.
    pub documents: u64,
    /// The sum of the sizes of their shingle sets.
    pub shingles: u64,
}

/// The removals from one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemovalsOfGroup {
    /// The name of the group; `None` for documents without a group.
    pub group: Option<String>,
    /// The number of documents.
    pub documents: u64,
    /// The number of removed documents.
    pub removed: u64,
}

/// The pairs in an interval of similarity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimilarityBin {
    /// The minimum Jaccard similarity.
    pub from: f64,
    /// The end of the interval, which is excluded. For pairs with similarity 1, both ends of the interval are 1.
    pub to: f64,
    /// The number of pairs.
    pub pairs: u64,
}

/// The clusters in an interval of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClusterSizes {
    /// The minimum size in this interval.
    pub from: u64,
    /// The maximum size in this interval.
    pub to: u64,
    /// The number of clusters.
    pub clusters: u64,
    /// The number of documents in these clusters.
    pub documents: u64,
}

/// A cluster that is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrawnCluster {
    /// The reason: `largest`, `loosest` or `random`.
    pub why: String,
    /// The id.
    pub cluster_id: String,
    /// The number of documents.
    pub size: u64,
    /// Some of the documents, the representative first.
    pub members: Vec<MemberOf>,
    /// The weakest link that connects the cluster. `None` if it has too many pairs, if all documents have the same shingles, or if other
    /// outputs can contain some pairs.
    pub weakest_link: Option<Link>,
    /// Pairs without which the cluster would fall into two parts. They are ordered by the size of the smaller part, descending.
    pub bridges: Vec<BridgeLink>,
    /// The number of all bridges; `None` if the cluster has too many pairs, or if some pairs can be in other outputs.
    pub all_bridges: Option<u64>,
    /// Pairs with their texts.
    pub texts: Vec<PairOfTexts>,
}

/// A document in a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberOf {
    /// The id.
    pub id: String,
    /// Whether the document represents the cluster.
    pub representative: bool,
    /// Whether the document is a reference document.
    pub reference: bool,
    /// The Jaccard similarity with the representative; `None` if the two documents are not a pair.
    pub jaccard: Option<f64>,
    /// The lowest similarity on the strongest path to the representative, if the output contains the column `weakest_link`.
    pub weakest_link: Option<f64>,
}

/// A pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    /// The id of the first document.
    pub id_a: String,
    /// The id of the second document.
    pub id_b: String,
    /// The Jaccard similarity.
    pub jaccard: f64,
}

/// A pair that is the only connection between two parts of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BridgeLink {
    /// The pair.
    #[serde(flatten)]
    pub link: Link,
    /// The number of documents in the part of `id_a`.
    pub side_a: u64,
    /// The number of documents in the part of `id_b`.
    pub side_b: u64,
}

/// Two texts side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairOfTexts {
    /// A phrase that describes the pair.
    pub what: String,
    /// The Jaccard similarity.
    pub jaccard: f64,
    /// The share of the first document's shingles that the second document contains.
    pub containment_a: f64,
    /// The share of the second document's shingles that the first document contains.
    pub containment_b: f64,
    /// The two texts.
    pub sides: [Side; 2],
}

/// Documents that are spared for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spared {
    /// `chain` or `not_contained`.
    pub reason: String,
    /// The number of documents.
    pub documents: u64,
    /// The number of shingles that their removal would lose; `None` if the run did not count them.
    pub lost_shingles: Option<u64>,
}

/// A document that is spared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpareExample {
    /// The id.
    pub id: String,
    /// The id of the representative of its cluster.
    pub representative: String,
    /// The reason, as in [`Spared`].
    pub reason: String,
    /// The Jaccard similarity of the document and the representative.
    pub jaccard: Option<f64>,
    /// The share of the document's shingles that the representative contains.
    pub containment: Option<f64>,
    /// The number of shingles that would be lost if the document were removed.
    pub lost_shingles: Option<u64>,
}

/// Documents that were rejected for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// The reason.
    pub reason: String,
    /// The meaning of the reason.
    pub meaning: String,
    /// The number of documents.
    pub documents: u64,
    /// Some of the documents.
    pub examples: Vec<Example>,
}

/// A rejected document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    #[serde(skip_serializing)]
    pub(super) reason: String,
    /// The id, if any.
    pub id: Option<String>,
    /// The file.
    pub source: String,
    /// The index of the document in the file, from 0.
    pub position: u64,
}

/// The expected and the measured recall.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecallView {
    /// Sentences that say which pairs the job can miss.
    pub missed: Vec<String>,
    /// The expected recall for pairs whose similarity equals the threshold.
    pub at_threshold: f64,
    /// The expected recall for all pairs whose exact similarity reaches the threshold, estimated from the found pairs; `None` if there
    /// are none.
    pub expected: Option<f64>,
    /// The reason why the recall cannot be measured; `None` if it can be measured.
    pub refusal: Option<&'static str>,
    /// The recall that an evaluation measured, if the user asked for one.
    pub measured: Option<Evaluation>,
}

/// The time, memory and bytes of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The total seconds of the stages.
    pub seconds: f64,
    /// The memory budget in bytes.
    pub memory: u64,
    /// The stages in order.
    pub stages: Vec<StageCost>,
    /// The tables of the output.
    pub tables: Vec<TableCost>,
    /// The forecast of the run, if any.
    pub forecast: Option<Forecast>,
    /// The peak memory of the process in bytes, if the record of the run contains this number.
    pub peak_memory: Option<u64>,
}

/// The cost of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageCost {
    /// The name.
    pub name: String,
    /// The seconds.
    pub seconds: f64,
    /// The number of rows written.
    pub rows: u64,
    /// The number of bytes written.
    pub bytes: u64,
    /// The forecast for this stage, if any.
    pub forecast: Option<StageForecast>,
}

/// The size of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableCost {
    /// The name.
    pub name: String,
    /// The number of rows.
    pub rows: u64,
    /// The number of files.
    pub files: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// A setting of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// The changes since an earlier output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Before {
    /// The URL of the earlier output, with masked secrets.
    pub output: String,
    /// The counts of both runs.
    pub counts: Vec<Change<u64>>,
    /// The differences, for each kind of row.
    pub compared: Vec<ComparedOutputs>,
    /// The number of the earlier output's pairs in each interval of similarity.
    pub similarities: Vec<SimilarityBin>,
    /// The settings that differ between the two jobs.
    pub settings: Vec<Change<String>>,
}

/// A count or a setting in both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change<T> {
    /// The name.
    pub name: String,
    /// The value in the earlier run.
    pub before: T,
    /// The value in this run.
    pub now: T,
}

/// The differences between two outputs in one kind of row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedOutputs {
    /// The kind of row: documents, pairs, clusters or removals.
    #[serde(default)]
    pub what: String,
    /// The number of rows that only this output contains.
    pub new: u64,
    /// The number of rows that only the earlier output contains.
    pub gone: u64,
    /// The number of pairs with another similarity, or of clusters with other documents; `None` for other rows.
    pub changed: Option<u64>,
}

/// The repeated passages in an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatedPassages {
    /// The number of passages.
    pub passages: u64,
    /// The number of occurrences; `None` if the run did not count them.
    pub occurrences: Option<u64>,
    /// At most ten passages, in descending order of the number of documents that contain them.
    pub most_frequent: Vec<FrequentPassage>,
}

/// A repeated passage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrequentPassage {
    /// The id, in the form that `show --passage` accepts.
    pub passage_id: String,
    /// The beginning of the passage.
    pub sample: String,
    /// The number of words.
    pub words: u64,
    /// The number of documents that contain the passage.
    pub documents: u64,
    /// The number of occurrences.
    pub occurrences: u64,
}

/// The frequent shingles of an output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrequentShingles {
    /// The maximum share of documents that may contain a shingle. Comparisons ignore a shingle with a larger share.
    pub max_frequency: f64,
    /// The number of frequent shingles; `None` if the run did not count them.
    pub shingles: Option<u64>,
    /// At most ten shingles, in descending order of their share of documents.
    pub most_frequent: Vec<FrequentShingle>,
}

/// A shingle that comparisons ignore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrequentShingle {
    /// The text.
    pub sample: String,
    /// The number of documents in the run's sample that contain the shingle. If the job has groups, only documents in `group` are counted.
    pub documents: u64,
    /// `documents` as a share of the sampled documents, or of the sampled documents in `group`.
    pub share: f64,
    /// The group in which the share is the largest, if the job has groups.
    #[serde(default)]
    pub group: Option<String>,
}
