//! The similarity of two documents from their shingle counts, as in the table `pairs`.

use crate::kernel::containment::containment_of;
use crate::kernel::jaccard::jaccard_of;

/// The similarity of two documents `a` and `b`; each share is in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Similarity {
    /// The Jaccard similarity of the two shingle sets.
    pub jaccard: f64,
    /// The share of a's shingles that are in b.
    pub containment_a: f64,
    /// The share of b's shingles that are in a.
    pub containment_b: f64,
}

impl Similarity {
    /// The similarity of two sets of `a` and `b` shingles, `shared` of them in both. Two empty sets are equal, and an empty set
    /// is a subset of every other.
    pub fn new(shared: u64, a: u64, b: u64) -> Self {
        Self {
            jaccard: if a + b == 0 { 1.0 } else { jaccard_of(shared, a, b) },
            containment_a: if a == 0 { 1.0 } else { containment_of(shared, a) },
            containment_b: if b == 0 { 1.0 } else { containment_of(shared, b) },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_sets_are_equal_and_subsets_of_every_other() {
        let of = |shared, a, b| {
            let Similarity { jaccard, containment_a, containment_b } = Similarity::new(shared, a, b);
            (jaccard, containment_a, containment_b)
        };
        assert_eq!(of(2, 4, 3), (0.4, 0.5, 2.0 / 3.0));
        assert_eq!(of(0, 0, 3), (0.0, 1.0, 0.0));
        assert_eq!(of(0, 0, 0), (1.0, 1.0, 1.0));
    }
}
