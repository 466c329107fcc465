//! The counts of a run in its manifest.

use serde::{Deserialize, Serialize};

/// Counts of a run. A count that does not apply to the job is `None`, and is not in the manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    /// Pairs of shingle sets that were candidates; `None` if every two documents were compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidates: Option<u64>,
    /// Documents that clusters.method = "components" would remove in addition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chained_documents: Option<u64>,
    /// Documents that are in a cluster.
    pub clustered_documents: u64,
    /// Clusters of similar documents.
    pub clusters: u64,
    /// Documents of dense groups, which are paired with leaders instead of each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense_documents: Option<u64>,
    /// Pairs of different shingle sets within dense groups that were not written, estimated from a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dense_pairs_left_out: Option<u64>,
    /// Entries of the dictionary of shingles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dictionary: Option<u64>,
    /// Documents that were compared.
    pub documents: u64,
    /// Pairs of groups that have pairs of documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_pairs: Option<u64>,
    /// Documents in buckets larger than lsh.hot_bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_documents: Option<u64>,
    /// Files that were not read, because the values in their paths do not meet source.where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_left_out: Option<u64>,
    /// Rows of the other files that do not meet source.where, and so are no documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_left_out_by_where: Option<u64>,
    /// Rows that meet it and are not in the sample of source.limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_left_out_by_limit: Option<u64>,
    /// Files of the second source that were not read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_files_left_out: Option<u64>,
    /// Rows of the second source that are no documents, by its condition and its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_rows_left_out: Option<u64>,
    /// Documents of the reference outputs or of the second source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_documents: Option<u64>,
    /// Documents of the second source that were rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_rejects: Option<u64>,
    /// Clusters of earlier runs whose id changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_id_changes: Option<u64>,
    /// Documents whose removal loses more than 2 % of their shingles, because their representative lacks them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lossy_removals: Option<u64>,
    /// Shingles of removed documents that no kept document of their cluster has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_shingles: Option<u64>,
    /// Pairs of similar documents.
    pub pairs: u64,
    /// Pairs within large groups of identical documents that were not written.
    pub pairs_left_out: u64,
    /// Documents that were read and rejected.
    pub rejects: u64,
    /// Documents that `apply` removes.
    pub removed_documents: u64,
    /// Reference documents that were replaced; of a merged output, by any of its runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_documents: Option<u64>,
    /// Documents of its sources that runs replaced, of an output that reuses a merged one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaced_in_sources: Option<u64>,
    /// Candidates whose similarity reached the threshold.
    pub scores: u64,
    /// Documents that are no longer than a shingle and are therefore compared as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_shingle_documents: Option<u64>,
    /// Different shingle sets among the compared documents.
    pub shingle_sets: u64,
    /// Documents that stay although another one represents their cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spared: Option<u64>,
    /// Passages that occur more than once in the compared documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passages: Option<u64>,
    /// The places of these passages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spans: Option<u64>,
    /// Shingles that do not count, because too many documents have them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequent_shingles: Option<u64>,
    /// Documents that the reference outputs kept and that are duplicates of other documents now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_reference_documents: Option<u64>,
    /// Reference documents that may match new ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared_reference_documents: Option<u64>,
}

impl Counts {
    /// Rows of the source that are no documents, in files that were read.
    pub fn rows_left_out(&self) -> u64 {
        self.rows_left_out_by_where.unwrap_or_default() + self.rows_left_out_by_limit.unwrap_or_default()
    }
}
