//! The content of a report, as plain data.

use serde::{Deserialize, Serialize};

use super::repeated::{FrequentShingles, RepeatedPassages};
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
    /// When the run finished, in UTC, as RFC 3339.
    pub finished: String,
    /// The answer in five numbers.
    pub numbers: ReportNumbers,
    /// The answer in a sentence.
    pub sentence: String,
    /// A sentence that explains shingles.
    pub shingle: String,
    /// Bounds of the job that are exceeded, and warnings of the run.
    pub alarms: AlarmView,
    /// What `apply` would remove.
    pub removed: RemovedView,
    /// The threshold of the job.
    pub threshold: f64,
    /// What the threshold is for: jaccard, estimated jaccard or containment.
    pub measure: String,
    /// Intervals of similarity in 1.
    pub per_unit: u32,
    /// Pairs by similarity.
    pub similarities: Vec<SimilarityBin>,
    /// Clusters by size.
    pub cluster_sizes: Vec<ClusterSizes>,
    /// The largest cluster, the loosest one, and one drawn at random.
    pub clusters: Vec<DrawnCluster>,
    /// Why there are no texts; `None` if they were read.
    pub no_texts: Option<String>,
    /// Documents that stay although another one represents them; `None` if the job does not ask for it.
    pub spared: Option<Vec<Spared>>,
    /// Examples of those.
    pub spared_examples: Vec<SpareExample>,
    /// Documents that were not compared.
    pub rejected: Vec<Rejected>,
    /// Passages that repeat inside documents; `None` if the job does not search for them.
    pub passages: Option<RepeatedPassages>,
    /// Shingles of templates; `None` if all shingles count.
    pub frequent_shingles: Option<FrequentShingles>,
    /// What was found of what there is.
    pub recall: RecallView,
    /// What labels say about the pairs; `None` if no file has such.
    pub judged: Option<Judged>,
    /// What the run took.
    pub cost: Cost,
    /// The settings of the job.
    pub settings: Vec<Setting>,
    /// What has changed since an earlier output; `None` if none is named.
    pub before: Option<Before>,
}

/// The answer in five numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ReportNumbers {
    /// Documents that were compared.
    pub documents: u64,
    /// Pairs.
    pub pairs: u64,
    /// Clusters.
    pub clusters: u64,
    /// Documents that would be removed.
    pub removed: u64,
    /// Removals that lose more than 2 % of their shingles; `None` if the run did not count them.
    pub lossy_removals: Option<u64>,
}

/// What a reader should look at first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlarmView {
    /// Whether the job has bounds.
    pub has_bounds: bool,
    /// Bounds that are exceeded, a sentence each.
    pub exceeded: Vec<String>,
    /// Warnings of the run.
    pub warnings: Vec<String>,
}

/// What `apply` would remove.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemovedView {
    /// By reason.
    pub by_reason: Vec<RemovalsBy>,
    /// By group, the groups with the most removals first; `None` if the job has no groups.
    pub by_group: Option<Vec<RemovalsOfGroup>>,
    /// Groups that the list leaves out.
    pub more_groups: u64,
    /// Shingles of all documents, each counted once for each document that has it.
    pub shingles: u64,
    /// The same of the documents that would be removed.
    pub removed_shingles: u64,
    /// Bytes of the source.
    pub source_bytes: u64,
    /// Bytes that would go, if they are in proportion to the shingles; `None` if the source has other documents too.
    pub about_bytes: Option<u64>,
    /// Shingles that no kept document of the cluster has; `None` if the run did not count them.
    pub lost_shingles: Option<u64>,
}

/// Removals for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalsBy {
    /// `same_shingles`, `contained`, `lossy`, `not_counted` or `chain`.
    pub reason: String,
    /// Documents.
    pub documents: u64,
    /// Their shingles.
    pub shingles: u64,
}

/// Removals of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemovalsOfGroup {
    /// Its name; `None` for documents without one.
    pub group: Option<String>,
    /// Its documents.
    pub documents: u64,
    /// Those that would be removed.
    pub removed: u64,
}

/// The pairs in an interval of similarity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SimilarityBin {
    /// The least Jaccard similarity.
    pub from: f64,
    /// The greatest one, not included; 1 for pairs of similarity 1.
    pub to: f64,
    /// Pairs.
    pub pairs: u64,
}

/// The clusters in an interval of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClusterSizes {
    /// The smallest number of documents.
    pub from: u64,
    /// The largest one.
    pub to: u64,
    /// Clusters.
    pub clusters: u64,
    /// Their documents.
    pub documents: u64,
}

/// A cluster that is shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrawnCluster {
    /// Why: `largest`, `loosest` or `random`.
    pub why: String,
    /// Its id.
    pub cluster_id: String,
    /// Its documents.
    pub size: u64,
    /// Some of them, the representative first.
    pub members: Vec<MemberOf>,
    /// The pair that connects it the least; `None` if there are too many pairs to say, some may be in other outputs, or all have the
    /// same shingles.
    pub weakest_link: Option<Link>,
    /// Pairs without which it would be two clusters, those with the larger parts first.
    pub bridges: Vec<BridgeLink>,
    /// All such pairs; `None` if there are too many pairs to count them, or some may be in other outputs.
    pub all_bridges: Option<u64>,
    /// Pairs with their texts.
    pub texts: Vec<PairOfTexts>,
}

/// A document of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberOf {
    /// Its id.
    pub id: String,
    /// Whether it represents the cluster.
    pub representative: bool,
    /// Whether it is a reference document.
    pub reference: bool,
    /// The Jaccard similarity with the representative; `None` if they are not a pair.
    pub jaccard: Option<f64>,
    /// The least similarity on the best path to the representative, if the output has it.
    pub weakest_link: Option<f64>,
}

/// A pair.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Link {
    /// One document.
    pub id_a: String,
    /// The other.
    pub id_b: String,
    /// Their Jaccard similarity.
    pub jaccard: f64,
}

/// A pair that alone connects two parts of a cluster.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BridgeLink {
    /// The pair.
    #[serde(flatten)]
    pub link: Link,
    /// Documents of the part of `id_a`.
    pub side_a: u64,
    /// Documents of the part of `id_b`.
    pub side_b: u64,
}

/// Two texts side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairOfTexts {
    /// What the pair is, as a phrase.
    pub what: String,
    /// Their Jaccard similarity.
    pub jaccard: f64,
    /// The share of the shingles of the first that the second has.
    pub containment_a: f64,
    /// The share of the shingles of the second that the first has.
    pub containment_b: f64,
    /// The two.
    pub sides: [Side; 2],
}

/// Documents that are spared for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spared {
    /// `chain` or `not_contained`.
    pub reason: String,
    /// Documents.
    pub documents: u64,
    /// Shingles that their removal would lose; `None` if they are unknown.
    pub lost_shingles: Option<u64>,
}

/// A document that is spared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpareExample {
    /// Its id.
    pub id: String,
    /// The document that represents its cluster.
    pub representative: String,
    /// As in [`Spared`].
    pub reason: String,
    /// Their Jaccard similarity.
    pub jaccard: Option<f64>,
    /// The share of its shingles that the representative has.
    pub containment: Option<f64>,
    /// Shingles that its removal would lose.
    pub lost_shingles: Option<u64>,
}

/// Documents that were rejected for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// The reason.
    pub reason: String,
    /// What it means.
    pub meaning: String,
    /// Documents.
    pub documents: u64,
    /// Some of them.
    pub examples: Vec<Example>,
}

/// A rejected document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Example {
    #[serde(skip_serializing)]
    pub(super) reason: String,
    /// Its id, if it has one.
    pub id: Option<String>,
    /// Its file.
    pub source: String,
    /// Its number in the file, from 0.
    pub position: u64,
}

/// What was found of what there is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecallView {
    /// The ways in which the job may miss pairs, in sentences.
    pub missed: Vec<String>,
    /// The share of the pairs at the threshold that the job is expected to find.
    pub at_threshold: f64,
    /// The share of all pairs whose exact similarity reaches the threshold that it is expected to find, as far as the similarities of
    /// the found ones show; `None` without a pair.
    pub expected: Option<f64>,
    /// Why nothing can be measured; `None` if it can.
    pub refusal: Option<&'static str>,
    /// What an evaluation measured; `None` if there was none.
    pub measured: Option<Evaluation>,
}

/// What the run took.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// Seconds of all stages.
    pub seconds: f64,
    /// The memory budget in bytes.
    pub memory: u64,
    /// The stages in order.
    pub stages: Vec<StageCost>,
    /// The tables of the output.
    pub tables: Vec<TableCost>,
    /// The forecast of the run; `None` if the run was not forecast.
    pub forecast: Option<Forecast>,
    /// The most memory of the process, if the record of the run says it.
    pub peak_memory: Option<u64>,
}

/// A stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageCost {
    /// Its name.
    pub name: String,
    /// Seconds.
    pub seconds: f64,
    /// Rows that it wrote.
    pub rows: u64,
    /// Bytes that it wrote.
    pub bytes: u64,
    /// What was forecast for it; `None` without a forecast, or if that lacks the stage.
    pub forecast: Option<StageForecast>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableCost {
    /// Its name.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// A setting of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What has changed since an earlier output.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Before {
    /// The earlier output, as the user named it.
    pub output: String,
    /// Counts of both runs.
    pub counts: Vec<Change<u64>>,
    /// Rows that only one of the two has, by what they are.
    pub compared: Vec<ComparedOutputs>,
    /// Pairs of the earlier output by similarity, in the intervals of the report.
    pub similarities: Vec<SimilarityBin>,
    /// Settings that differ.
    pub settings: Vec<Change<String>>,
}

/// A number or a setting of both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change<T> {
    /// The name of the number.
    pub name: String,
    /// Its value in the earlier run.
    pub before: T,
    /// Its value in this one.
    pub now: T,
}

/// What only one of two outputs has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedOutputs {
    /// What is compared: documents, pairs, clusters or removals.
    #[serde(default)]
    pub what: String,
    /// Only in this output.
    pub new: u64,
    /// Only in the earlier one.
    pub gone: u64,
    /// In both, but different: pairs with another similarity, clusters with other documents.
    pub changed: Option<u64>,
}
