//! The counts of a run in its manifest.

use serde::{Deserialize, Serialize};

/// A count, or one that does not apply to every job.
trait Count {
    fn count(&self) -> Option<u64>;

    fn is_absent(&self) -> bool {
        self.count().is_none()
    }
}

impl Count for u64 {
    fn count(&self) -> Option<u64> {
        Some(*self)
    }
}

impl Count for Option<u64> {
    fn count(&self) -> Option<u64> {
        *self
    }
}

macro_rules! counts {
    ($($(#[doc = $help:literal])+ $name:ident: $number:ty,)+) => {
        /// Counts of a run. The manifest lacks counts that do not apply to the job.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Counts {
            $($(#[doc = $help])+ #[serde(skip_serializing_if = "Count::is_absent")] pub $name: $number,)+
        }

        impl Counts {
            /// The name of each count, its description, and the count if it applies.
            pub(crate) fn all(&self) -> Vec<(&'static str, &'static str, Option<u64>)> {
                vec![$((stringify!($name), concat!($($help),+).trim_ascii(), self.$name.count())),+]
            }
        }
    };
}

counts! {
    /// Pairs of shingle sets that were candidates; `None` if every two documents were compared.
    candidates: Option<u64>,
    /// Documents that clusters.method = "components" would remove in addition.
    chained_documents: Option<u64>,
    /// Documents that are in a cluster.
    clustered_documents: u64,
    /// Clusters of similar documents.
    clusters: u64,
    /// Documents of dense groups, which are paired with leaders instead of each other.
    dense_documents: Option<u64>,
    /// Pairs of different shingle sets within dense groups that were not written, estimated from a sample.
    dense_pairs_left_out: Option<u64>,
    /// Entries of the dictionary of shingles.
    dictionary: Option<u64>,
    /// Documents that were compared.
    documents: u64,
    /// Pairs of groups that have pairs of documents.
    group_pairs: Option<u64>,
    /// Documents in buckets larger than lsh.hot_bucket.
    hot_documents: Option<u64>,
    /// Files that were not read, because the values in their paths do not meet source.where.
    files_left_out: Option<u64>,
    /// Rows of the other files that do not meet source.where, and so are no documents.
    rows_left_out_by_where: Option<u64>,
    /// Rows that meet it and are not in the sample of source.limit.
    rows_left_out_by_limit: Option<u64>,
    /// Files of the second source that were not read.
    reference_files_left_out: Option<u64>,
    /// Rows of the second source that are no documents, by its condition and its limit.
    reference_rows_left_out: Option<u64>,
    /// Documents of the reference outputs or of the second source.
    reference_documents: Option<u64>,
    /// Documents of the second source that were rejected.
    reference_rejects: Option<u64>,
    /// Clusters of earlier runs whose id changed.
    cluster_id_changes: Option<u64>,
    /// Documents whose removal loses more than 2 % of their shingles, because their representative lacks them.
    lossy_removals: Option<u64>,
    /// Shingles of removed documents that no kept document of their cluster has.
    lost_shingles: Option<u64>,
    /// Pairs of similar documents.
    pairs: u64,
    /// Pairs within large groups of identical documents that were not written.
    pairs_left_out: u64,
    /// Documents that were read and rejected.
    rejects: u64,
    /// Documents that `apply` removes.
    removed_documents: u64,
    /// Reference documents that were replaced; of a merged output, by any of its runs.
    replaced_documents: Option<u64>,
    /// Documents of its sources that runs replaced, of an output that reuses a merged one.
    replaced_in_sources: Option<u64>,
    /// Candidates whose similarity reached the threshold.
    scores: u64,
    /// Documents that are no longer than a shingle and are therefore compared as a whole.
    single_shingle_documents: Option<u64>,
    /// Different shingle sets among the compared documents.
    shingle_sets: u64,
    /// Documents that stay although another one represents their cluster.
    spared: Option<u64>,
    /// Passages that occur more than once in the compared documents.
    passages: Option<u64>,
    /// The places of these passages.
    spans: Option<u64>,
    /// Shingles that do not count, because too many documents have them.
    frequent_shingles: Option<u64>,
    /// Documents that the reference outputs kept and that are duplicates of other documents now.
    superseded_reference_documents: Option<u64>,
    /// Reference documents that may match new ones.
    compared_reference_documents: Option<u64>,
}

impl Counts {
    /// Rows of the source that are no documents, in files that were read.
    pub fn rows_left_out(&self) -> u64 {
        self.rows_left_out_by_where.unwrap_or_default() + self.rows_left_out_by_limit.unwrap_or_default()
    }
}
