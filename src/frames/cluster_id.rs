//! The ids of clusters.

use datafusion::prelude::DataFrame;

/// The rule for the id of a cluster, and for which clusters are written.
#[derive(Debug, Clone)]
pub enum ClusterId {
    /// The smallest id of the cluster.
    Least,
    /// Of the `founders` (id), whose ids are those of clusters of reference outputs, the smallest one in the cluster;
    /// the smallest id if it has no founder. Only clusters with a new document are written.
    Kept(DataFrame),
    /// The smallest id of a new document, since an id may be in both sources. Only clusters with a new document are
    /// written.
    LeastNew,
}
