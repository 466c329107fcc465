//! The measures of similarity. A new one gets a variant in [`Measure`](crate::job::Measure), and how it is computed here.

use super::{containment, jaccard};
use crate::job::Measure;

impl Measure {
    /// Elements in both sets, each sorted and without repeats, if their similarity reaches `threshold`.
    pub(crate) fn shared_at_least(self, a: &[u64], b: &[u64], threshold: f64) -> Option<u64> {
        match self {
            Measure::Jaccard => jaccard::shared_at_least(a, b, threshold),
            Measure::Containment => containment::shared_at_least(a, b, threshold),
        }
    }
}
