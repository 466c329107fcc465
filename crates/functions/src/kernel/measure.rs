//! The measures of similarity: their names, and how they are computed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::containment::{self, containment_of};
use super::jaccard::{self, jaccard_of, least_contained, least_shared};

/// How two shingle sets are measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// By what they share of all shingles of both: the Jaccard similarity.
    #[default]
    Jaccard,
    /// By the share of the smaller set that the larger one holds: 1 for a passage and the document that it is from.
    Containment,
}

impl Measure {
    /// The Jaccard similarity that two sets have at least if their similarity reaches `threshold`; `None` if it can be any, so that
    /// neither bands nor sizes bound it.
    pub fn least_jaccard(self, threshold: f64) -> Option<f64> {
        match self {
            Measure::Jaccard => Some(threshold),
            Measure::Containment => None,
        }
    }

    /// Whether a small set may be similar to a much larger one.
    pub fn takes_any_size(self) -> bool {
        self.least_jaccard(1.0).is_none()
    }

    /// The noun for what is measured, in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Measure::Jaccard => "similarity",
            Measure::Containment => "containment",
        }
    }

    /// Elements in both sets, each sorted and without repeats, if their similarity reaches `threshold`.
    pub fn shared_at_least(self, a: &[u64], b: &[u64], threshold: f64) -> Option<u64> {
        match self {
            Measure::Jaccard => jaccard::shared_at_least(a, b, threshold),
            Measure::Containment => containment::shared_at_least(a, b, threshold),
        }
    }

    /// The similarity of two sets of these sizes with `shared` elements in common.
    pub fn similarity(self, shared: u64, sizes: [u64; 2]) -> f64 {
        match self {
            Measure::Jaccard => jaccard_of(shared, sizes[0], sizes[1]),
            Measure::Containment => containment_of(shared, sizes[0].min(sizes[1])),
        }
    }

    /// The similarity of two sets by their Jaccard similarity and the share of each that is in the other, as tables have them.
    pub fn similarity_from_shares(self, jaccard: f64, containments: [f64; 2]) -> f64 {
        match self {
            Measure::Jaccard => jaccard,
            // The share of the smaller of the two sets.
            Measure::Containment => containments[0].max(containments[1]),
        }
    }

    /// How many of its `size` elements a set shares at least with any set of one of the `sizes`, in ascending order, if their
    /// similarity reaches `threshold`; `None` if it is too small or too large for that.
    pub fn least_shared(self, size: u64, sizes: &[u64], threshold: f64) -> Option<u64> {
        match self {
            Measure::Jaccard => {
                // The sets of the next sizes below and above are the most similar ones.
                let larger = sizes.partition_point(|&other| other < size);
                let next = [larger.checked_sub(1), Some(larger)].into_iter().flatten();
                let mut next = next.filter_map(|at| sizes.get(at));
                let fits = next.any(|&other| least_shared(other, size, threshold).is_some());
                fits.then(|| least_contained(size, threshold))
            }
            Measure::Containment => {
                sizes.first().map(|&smallest| least_contained(smallest.min(size), threshold))
            }
        }
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Measure::Jaccard => "jaccard",
            Measure::Containment => "containment",
        })
    }
}
