//! `[clusters]` and `[alarms]`: what a cluster is, which document represents it, and how many the others may be.

use serde::{Deserialize, Serialize};

use super::preference::Preference;

/// What a cluster is, and which of its documents represents it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clusters {
    /// What makes documents a cluster.
    #[serde(default)]
    pub method: ClusterMethod,
    /// What decides it, the first that tells two documents apart; by default, that it has the most shingles. In the end the smallest
    /// id decides.
    pub keep: Vec<Preference>,
}

/// What makes documents a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterMethod {
    /// That pairs connect them: its ends need not be alike.
    #[default]
    Components,
    /// That each is paired with the one that represents them.
    Representative,
}

/// What somebody should look at before copies are removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Alarms {
    /// The largest share of the documents that may go, in \[0, 1\]; none is any.
    pub removed_share: Option<f64>,
    /// The largest number of documents of a cluster; none is any.
    pub largest_cluster: Option<u64>,
    /// What the bounds hold for; none is all documents together.
    pub per: Option<Per>,
    /// Whether a run or `apply` that passes a bound ends with exit code 6.
    pub fail: bool,
}

/// What the bounds of alarms hold for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Each group by itself.
    Group,
}
