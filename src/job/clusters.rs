//! `[clusters]` and `[alarms]`: what a cluster is, which document represents it, and how many others there may be.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::preference::Preference;

/// The cluster method, and the document that represents a cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Clusters {
    /// The cluster method.
    #[serde(default)]
    pub method: ClusterMethod,
    /// The order in which documents represent clusters: the first preference by which two documents differ decides, and
    /// at last the smallest id. [`Self::order`] adds the preferences that it leaves out.
    pub keep: Vec<Preference>,
    /// Similarities, ascending and each at least the threshold of pairs, for which the table `cluster_levels` has clusters; none
    /// without that table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thresholds: Vec<f64>,
    /// The least share of its shingles, in (0, 1\], that the representative of a removed document has, which it also has to be
    /// paired with; other documents stay. `None`: all but the representative are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contained: Option<f64>,
}

impl Clusters {
    /// The order in effect. If `keep` does not name reference documents, they come first, and if it names no column,
    /// the documents with the most shingles come first among the others.
    pub fn order(&self) -> Vec<Preference> {
        let mut order = self.keep.clone();
        if !order.contains(&Preference::Reference) {
            order.insert(0, Preference::Reference);
        }
        if order.iter().all(|preference| *preference == Preference::Reference) {
            order.push(Preference::longest());
        }
        order
    }
}

/// What makes documents a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterMethod {
    /// Each is paired with the one that represents them.
    #[default]
    #[value(help = "Each document is paired with the one that represents it")]
    Representative,
    /// Pairs connect them, so that two documents of a cluster need not be similar.
    #[value(help = "Pairs connect documents")]
    Components,
}

impl ClusterMethod {
    /// Whether every document of a component is in one cluster, for chains of pairs of any length.
    pub(crate) fn keeps_chains(self) -> bool {
        matches!(self, ClusterMethod::Components)
    }

    /// A description of its clusters.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            ClusterMethod::Components => "components: documents that pairs connect",
            ClusterMethod::Representative => {
                "representative: each document is paired with its representative"
            }
        }
    }
}

/// `[alarms]`: bounds that a person should check before duplicates are removed. Nothing here changes a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Alarms {
    /// The largest share of the documents that may be removed, in \[0, 1\]: all of a cluster but the one that represents it.
    /// Default: any.
    pub removed_share: Option<f64>,
    /// The largest number of documents of a cluster. Default: any.
    pub largest_cluster: Option<u64>,
    /// `group`: the bounds hold for each group by itself. Default: for all documents together.
    pub per: Option<Per>,
    /// Whether a run or `apply` that exceeds a bound ends with exit code 6 instead of a warning: `apply` before it writes anything.
    pub fail: bool,
}

/// What the bounds of alarms hold for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Each group by itself.
    Group,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_documents_come_first_unless_keep_says_when() {
        for (keep, order) in [
            (&[][..], &["reference", "length() desc"][..]),
            (&["reference"], &["reference", "length() desc"]),
            (&["year desc"], &["reference", "year desc"]),
            (&["length", "reference"], &["length asc", "reference"]),
        ] {
            let parsed = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
            let clusters = Clusters { keep: parsed(keep), ..Clusters::default() };
            assert_eq!(clusters.order(), parsed(order), "{keep:?}");
        }
    }
}
