//! Bands and rows for a threshold.
//!
//! All rules are deterministic; each defines which of several equally good choices it takes.

use super::super::curve;
use super::super::{BandRule, Choice, Method};
use crate::error::{Error, Result};

/// Bands b and rows r.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bands {
    /// Bands, b.
    pub bands: usize,
    /// Rows in a band, r.
    pub rows: usize,
}

impl Bands {
    /// The probability that a pair of exactly this similarity becomes a candidate.
    pub(crate) fn recall(self, similarity: f64) -> f64 {
        curve::probability(similarity, self.bands, self.rows)
    }

    fn threshold(self) -> f64 {
        curve::threshold(self.bands, self.rows)
    }
}

/// The bands and rows of `choice` for `threshold`; `None` if they are given. A `method` that needs no buckets misses
/// nothing, so a recall that cannot be reached is then not an error.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if no b and r reach the recall.
pub(crate) fn by(
    choice: Choice,
    permutations: usize,
    threshold: f64,
    method: Method,
) -> Result<Option<Bands>> {
    Ok(Some(match choice {
        Choice::Given => return Ok(None),
        Choice::Rule(BandRule::Nearest) => nearest(permutations, threshold),
        Choice::Rule(BandRule::Balanced) => balanced(permutations, threshold),
        Choice::Rule(BandRule::Recall) => recall(permutations, threshold),
        Choice::Rule(BandRule::Precision) => precision(permutations, threshold),
        Choice::TargetRecall(target) => match target_recall(permutations, threshold, target) {
            Err(_) if !method.uses_buckets() => loosest(permutations),
            found => found?,
        },
    }))
}

/// Of all b * r = `permutations`, the (1/b)^(1/r) nearest to `threshold`; of two equally near, the one with more bands,
/// which finds more.
pub(crate) fn nearest(permutations: usize, threshold: f64) -> Bands {
    closest(divisors(permutations), threshold).unwrap_or(Bands { bands: 1, rows: permutations })
}

/// Of all b * r = `permutations`, the (1/b)^(1/r) that is nearest to `threshold` and not over it, so that pairs at the
/// threshold are more likely found than not. If all are over it, the nearest of all.
pub(crate) fn recall(permutations: usize, threshold: f64) -> Bands {
    closest(divisors(permutations).filter(|c| c.threshold() <= threshold), threshold)
        .unwrap_or_else(|| nearest(permutations, threshold))
}

/// Of all b * r = `permutations`, the (1/b)^(1/r) that is nearest to `threshold` and not under it, so that fewer pairs
/// under the threshold become candidates. There always is one: b = 1 has its at 1.
pub(crate) fn precision(permutations: usize, threshold: f64) -> Bands {
    closest(divisors(permutations).filter(|c| c.threshold() >= threshold), threshold)
        .unwrap_or_else(|| nearest(permutations, threshold))
}

/// Of all b * r <= `permutations`, the least sum of half the area of false positives and half the area of false
/// negatives; of equal sums, the most rows, then the fewest bands.
///
/// The rule of Zhu, Nargesian, Pu, Miller, *LSH Ensemble* (VLDB 2016), section 5.4, with equal weights. Looks at about
/// n ln n choices: milliseconds for hundreds of permutations, seconds for tens of thousands.
pub(crate) fn balanced(permutations: usize, threshold: f64) -> Bands {
    let mut best = (f64::INFINITY, Bands { bands: 1, rows: permutations });
    for rows in (1..=permutations).rev() {
        for bands in 1..=permutations / rows {
            let loss = 0.5 * curve::false_positive_area(threshold, bands, rows)
                + 0.5 * curve::false_negative_area(threshold, bands, rows);
            if loss < best.0 {
                best = (loss, Bands { bands, rows });
            }
        }
    }
    best.1
}

/// The largest r, then the fewest b, with b * r <= `permutations`, that find a pair at `threshold` with a probability
/// of at least `target`, in (0, 1). The largest r makes the steepest curve and so the fewest false candidates.
///
/// # Errors
/// [`Kind::Job`](crate::error::Kind::Job) if no b and r reach the target, with the recall that can be reached.
pub(crate) fn target_recall(permutations: usize, threshold: f64, target: f64) -> Result<Bands> {
    for rows in (1..=permutations).rev() {
        let most = Bands { bands: permutations / rows, rows };
        if most.recall(threshold) >= target {
            let reaches = |bands: &usize| Bands { bands: *bands, rows }.recall(threshold) >= target;
            let bands = (1..=most.bands).find(reaches).unwrap_or(most.bands);
            return Ok(Bands { bands, rows });
        }
    }
    let best = loosest(permutations).recall(threshold);
    Err(Error::job(format!(
        "{target} is too high for the threshold {threshold} and {permutations} permutations, which allow {best:.4} at \
         most: lower it, or raise minhash.permutations"
    )))
}

/// The choice that finds the most at every threshold: one row in each of `permutations` bands.
pub(crate) fn loosest(permutations: usize) -> Bands {
    Bands { bands: permutations, rows: 1 }
}

/// All b * r = n, the most bands first.
fn divisors(n: usize) -> impl Iterator<Item = Bands> {
    (1..=n).filter(move |rows| n.is_multiple_of(*rows)).map(move |rows| Bands { bands: n / rows, rows })
}

/// The first of those whose (1/b)^(1/r) is nearest to `threshold`.
fn closest(choices: impl Iterator<Item = Bands>, threshold: f64) -> Option<Bands> {
    let distance = |c: &Bands| (c.threshold() - threshold).abs();
    choices.min_by(|a, b| distance(a).total_cmp(&distance(b)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bands(bands: usize, rows: usize) -> Bands {
        Bands { bands, rows }
    }

    #[test]
    fn choices_for_128_permutations() {
        // Each found by trying every b and r with the plain formulas; areas by a midpoint sum of 4,000 steps.
        for (t, near, under, over, least_area, target) in [
            (0.3, bands(32, 4), bands(64, 2), bands(32, 4), bands(37, 3), bands(49, 2)),
            (0.5, bands(32, 4), bands(32, 4), bands(16, 8), bands(25, 5), bands(35, 3)),
            (0.7, bands(16, 8), bands(32, 4), bands(16, 8), bands(14, 9), bands(17, 4)),
            (0.8, bands(8, 16), bands(16, 8), bands(8, 16), bands(9, 13), bands(16, 6)),
            (0.9, bands(8, 16), bands(8, 16), bands(4, 32), bands(5, 25), bands(11, 10)),
        ] {
            assert_eq!(nearest(128, t), near, "nearest {t}");
            assert_eq!(recall(128, t), under, "recall {t}");
            assert_eq!(precision(128, t), over, "precision {t}");
            assert_eq!(balanced(128, t), least_area, "balanced {t}");
            assert_eq!(target_recall(128, t, 0.99).unwrap(), target, "target_recall {t}");
        }
    }

    #[test]
    fn edges() {
        assert_eq!(recall(10, 0.05), bands(10, 1), "all over the threshold: the nearest of all");
        assert_eq!(recall(2, 0.5), bands(2, 1), "exactly at the threshold");
        assert_eq!(precision(2, 0.5), bands(2, 1), "exactly at the threshold");
        assert_eq!(nearest(7, 1.0), bands(1, 7));
        assert_eq!(target_recall(128, 1.0, 0.99).unwrap(), bands(1, 128), "identical sets agree everywhere");
        assert_eq!(nearest(1, 0.5), bands(1, 1));
        assert_eq!(balanced(1, 0.5), bands(1, 1));
    }

    #[test]
    fn a_target_out_of_reach_says_what_can_be_reached() {
        let error = target_recall(128, 0.02, 0.99).unwrap_err().to_string();
        assert!(error.contains("0.9247") && error.contains("minhash.permutations"), "{error}");
    }

    proptest! {
        #[test]
        fn choices_keep_to_the_permutations(n in 1usize..300, t in 0.01..=1.0f64, target in 0.01..0.999f64) {
            for found in [nearest(n, t), recall(n, t), precision(n, t)] {
                prop_assert_eq!(found.bands * found.rows, n);
            }
            prop_assert!(precision(n, t).threshold() >= t);
            prop_assert!(recall(n, t).threshold() <= precision(n, t).threshold());
            match target_recall(n, t, target) {
                Ok(found) => {
                    prop_assert!(found.bands * found.rows <= n);
                    prop_assert!(found.recall(t) >= target);
                    // Neither fewer bands nor more rows would do.
                    if found.bands > 1 {
                        prop_assert!(bands(found.bands - 1, found.rows).recall(t) < target);
                    }
                    let more = found.rows + 1;
                    prop_assert!(more > n || bands(n / more, more).recall(t) < target);
                }
                Err(_) => prop_assert!(loosest(n).recall(t) < target),
            }
        }
    }
}
