//! The content of a report as plain data, which `--json` prints.

use serde::{Deserialize, Serialize};

use crate::audit::Judged;
use crate::evaluate::Evaluation;
use crate::forecast::{Forecast, StageForecast};
use crate::page::Side;

/// A report on a finished output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The output, as the user named it.
    pub output: String,
    /// The name of the dataset: the end of its first path.
    pub dataset: String,
    /// The name of the job.
    pub name: String,
    /// The version of this program that made the output.
    pub resemblance: String,
    /// The time when the run finished, in UTC, as RFC 3339.
    pub finished: String,
    /// The answer in five numbers.
    pub numbers: ReportNumbers,
    /// The answer in a sentence.
    pub sentence: String,
    /// A sentence that explains shingles.
    pub shingle: String,
    /// Bounds of the job that are exceeded, and warnings of the run.
    pub alarms: AlarmView,
    /// The documents that `apply` would remove.
    pub removed: RemovedView,
    /// The threshold of the job.
    pub threshold: f64,
    /// The measure of the threshold: jaccard, estimated jaccard or containment.
    pub measure: String,
    /// The number of intervals of similarity from 0 to 1.
    pub per_unit: u32,
    /// Pairs by similarity.
    pub similarities: Vec<SimilarityBin>,
    /// Clusters by size.
    pub cluster_sizes: Vec<ClusterSizes>,
    /// The largest, the loosest and a random cluster.
    pub clusters: Vec<DrawnCluster>,
    /// The reason why there are no texts; `None` if they were read.
    pub no_texts: Option<String>,
    /// The documents that are kept besides the representatives, by reason; `None` if the job does not spare documents.
    pub spared: Option<Vec<Spared>>,
    /// Examples of these documents.
    pub spared_examples: Vec<SpareExample>,
    /// The documents that were not compared.
    pub rejected: Vec<Rejected>,
    /// The repeated passages inside documents; `None` if the job does not search for them.
    pub passages: Option<RepeatedPassages>,
    /// The frequent shingles, which comparisons ignore; `None` if all shingles are compared.
    pub frequent_shingles: Option<FrequentShingles>,
    /// The expected and the measured recall.
    pub recall: RecallView,
    /// The estimates from labels; `None` if there is no file of labels.
    pub judged: Option<Judged>,
    /// The time, memory and bytes of the run.
    pub cost: Cost,
    /// The settings of the job.
    pub settings: Vec<Setting>,
    /// The changes since an earlier output, if one is named.
    pub before: Option<Before>,
}

/// The answer in five numbers.
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

/// The alarms and warnings, which a reader should look at first.
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
    /// The removals by group, the groups with the most removals first; `None` if the job has no groups.
    pub by_group: Option<Vec<RemovalsOfGroup>>,
    /// The number of groups that the list omits.
    pub more_groups: u64,
    /// The sum of the sizes of the shingle sets of all documents.
    pub shingles: u64,
    /// The sum of the sizes of the shingle sets of removed documents.
    pub removed_shingles: u64,
    /// The bytes of the source.
    pub source_bytes: u64,
    /// The estimated bytes of the removed documents, in proportion to the shingles; `None` with reference documents.
    pub about_bytes: Option<u64>,
    /// The number of shingles that no kept document in the cluster contains; `None` if the run did not count them.
    pub lost_shingles: Option<u64>,
}

/// Removals for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalsBy {
    /// `same_shingles`, `contained`, `lossy`, `not_counted` or `chain`.
    pub reason: String,
    /// The number of documents.
    pub documents: u64,
    /// The sum of the sizes of their shingle sets.
    pub shingles: u64,
}

/// Removals of a group.
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
    /// The end of the interval, which is excluded. It is 1 for pairs with similarity 1.
    pub to: f64,
    /// The number of pairs.
    pub pairs: u64,
}

/// The clusters in an interval of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClusterSizes {
    /// The smallest number of documents.
    pub from: u64,
    /// The largest number of documents.
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
    /// The weakest link that connects the cluster. `None` if there are too many pairs, if some may be in other outputs, or if all
    /// documents have the same shingles.
    pub weakest_link: Option<Link>,
    /// Pairs whose removal would divide the cluster. Pairs whose smaller part is larger come first.
    pub bridges: Vec<BridgeLink>,
    /// The number of all bridges; `None` if the cluster has too many pairs, or if some pairs may be in other outputs.
    pub all_bridges: Option<u64>,
    /// Pairs with their texts.
    pub texts: Vec<PairOfTexts>,
}

/// A document in a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberOf {
    /// The id.
    pub id: String,
    /// Whether it represents the cluster.
    pub representative: bool,
    /// Whether it is a reference document.
    pub reference: bool,
    /// The Jaccard similarity with the representative; `None` if they are not a pair.
    pub jaccard: Option<f64>,
    /// The minimum similarity on the best path to the representative, if the output contains it.
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
    /// The share of the first document's shingles that the second contains.
    pub containment_a: f64,
    /// The share of the second document's shingles that the first contains.
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
    /// The number of shingles that their removal would lose, if known.
    pub lost_shingles: Option<u64>,
}

/// A document that is spared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpareExample {
    /// The id.
    pub id: String,
    /// The id of the representative of its cluster.
    pub representative: String,
    /// The reason, see [`Spared`].
    pub reason: String,
    /// The Jaccard similarity of the document and the representative.
    pub jaccard: Option<f64>,
    /// The share of its shingles that the representative contains.
    pub containment: Option<f64>,
    /// The number of shingles that its removal would lose.
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
    /// The number in the file, from 0.
    pub position: u64,
}

/// The expected and the measured recall.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecallView {
    /// The ways in which the job can miss pairs, as sentences.
    pub missed: Vec<String>,
    /// The share of the pairs at the threshold that the job is expected to find.
    pub at_threshold: f64,
    /// The expected share of all pairs whose exact similarity reaches the threshold. It is estimated from the similarities of the found
    /// pairs; `None` if there are no pairs.
    pub expected: Option<f64>,
    /// The reason why the recall cannot be measured; `None` if it can be measured.
    pub refusal: Option<&'static str>,
    /// The result of an evaluation, if any.
    pub measured: Option<Evaluation>,
}

/// The time, memory and bytes of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// The seconds of all stages.
    pub seconds: f64,
    /// The memory budget in bytes.
    pub memory: u64,
    /// The stages in order.
    pub stages: Vec<StageCost>,
    /// The tables of the output.
    pub tables: Vec<TableCost>,
    /// The forecast of the run, if any.
    pub forecast: Option<Forecast>,
    /// The peak memory of the process in bytes, if the record of the run contains it.
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
    /// The earlier output, as the user named it.
    pub output: String,
    /// The counts of both runs.
    pub counts: Vec<Change<u64>>,
    /// The differences by kind of row.
    pub compared: Vec<ComparedOutputs>,
    /// The pairs of the earlier output by similarity, in the intervals of the report.
    pub similarities: Vec<SimilarityBin>,
    /// The settings that differ.
    pub settings: Vec<Change<String>>,
}

/// A number or a setting of both runs.
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
    /// The number of rows only in this output.
    pub new: u64,
    /// The number of rows only in the earlier output.
    pub gone: u64,
    /// The number of rows that are in both outputs and differ: pairs with another similarity, clusters with other documents.
    pub changed: Option<u64>,
}

/// The repeated passages in an output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RepeatedPassages {
    /// The number of passages.
    pub passages: u64,
    /// The number of occurrences; `None` if the run did not count them.
    pub occurrences: Option<u64>,
    /// The passages that occur in the most documents: at most ten.
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
    /// The number of documents in which it occurs.
    pub documents: u64,
    /// The number of occurrences.
    pub occurrences: u64,
}

/// The frequent shingles of an output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FrequentShingles {
    /// The share of documents above which comparisons ignore a shingle.
    pub max_frequency: f64,
    /// The number of frequent shingles; `None` if the run did not count them.
    pub shingles: Option<u64>,
    /// The shingles with the largest shares, at most ten.
    pub most_frequent: Vec<FrequentShingle>,
}

/// A shingle that comparisons ignore.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FrequentShingle {
    /// The text.
    pub sample: String,
    /// The number of documents that contain it. With groups, the count is for the group with the largest share.
    pub documents: u64,
    /// The share of all documents, or of the documents in the group.
    pub share: f64,
    /// The group with the largest share, if the job has groups.
    #[serde(default)]
    pub group: Option<String>,
}
