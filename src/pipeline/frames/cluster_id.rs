//! The ids of clusters.

use datafusion::prelude::DataFrame;

/// Which id a cluster gets, and which clusters are written.
#[derive(Debug, Clone)]
pub enum ClusterId {
    /// The smallest id of the cluster.
    Least,
    /// Of the documents (id) whose id is that of a cluster of a reference output, the smallest one that the cluster has; the smallest
    /// id where there is none. Only clusters that have a new document are written.
    Kept(DataFrame),
    /// The smallest id of a new document, since an id may be in both sources. Only clusters that have one are written.
    LeastNew,
}
