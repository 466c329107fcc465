//! The ids of clusters.

use datafusion::prelude::DataFrame;

/// The rule for the id of a cluster, and for which clusters are written.
#[derive(Debug, Clone)]
pub enum ClusterId {
    /// The smallest id of the cluster.
    Least,
    /// The smallest id of a founder in the cluster, or the smallest id if it has no founder. Only clusters with a new document are
    /// written.
    Kept(Box<Founders>),
    /// The smallest id of a new document, since an id may be in both sources. Only clusters with a new document are
    /// written.
    LeastNew,
}

/// The documents whose ids are those of clusters of earlier runs.
#[derive(Debug, Clone)]
pub struct Founders {
    /// The founders (id) that still have the text with which they were in these clusters.
    pub present: DataFrame,
    /// The clusters that lost their founder; `None` if no document was ever replaced.
    pub replaced: Option<Replaced>,
}

/// Clusters of earlier runs whose founder has another text now.
///
/// Such a founder gives the id of its old cluster only to a cluster that has another document of the old one.
#[derive(Debug, Clone)]
pub struct Replaced {
    /// The founders (id).
    pub founders: DataFrame,
    /// The other documents of their clusters (id, founder).
    pub others: DataFrame,
}
