//! `jaccard(a, b)`: the exact Jaccard similarity of two shingle sets, |a ∩ b| / |a ∪ b|.
//!
//! Broder 1997 calls it resemblance. The functions on slices take sets as sorted slices without repeats.

use std::borrow::Cow;

/// From this ratio of sizes on, the smaller set's elements are searched for in the larger one.
const GALLOP: usize = 32;
/// Steps of the merge between two checks whether `least` can still be reached.
const BLOCK: usize = 64;

/// Elements in both `a` and `b`, each sorted and without repeats.
pub fn shared(a: &[u64], b: &[u64]) -> u64 {
    // Nothing to reach: the merge goes through to the end.
    shared_or_less(a, b, 0).unwrap_or(0)
}

/// Elements in both sets, if their Jaccard similarity reaches `threshold`.
///
/// `Some(shared)` exactly when `shared as f64 / union as f64 >= threshold` in `f64`, so never for two empty sets. Most
/// pairs that cannot reach it are rejected by their sizes or after a part of the merge.
pub fn shared_at_least(a: &[u64], b: &[u64], threshold: f64) -> Option<u64> {
    shared_or_less(a, b, least_shared(a.len() as u64, b.len() as u64, threshold)?)
}

/// The Jaccard similarity of two sets of `len_a` and `len_b` elements that share `shared`. NaN for two empty sets.
pub fn jaccard_of(shared: u64, len_a: u64, len_b: u64) -> f64 {
    shared as f64 / (len_a + len_b - shared) as f64
}

/// The fewest shared elements that reach `threshold`, or `None` if even a smaller set that is a subset of the larger
/// one does not.
pub fn least_shared(len_a: u64, len_b: u64, threshold: f64) -> Option<u64> {
    let most = len_a.min(len_b);
    let reaches = |shared| jaccard_of(shared, len_a, len_b) >= threshold;
    if !reaches(most) {
        return None;
    }
    // s / (n - s) >= t  <=>  s >= n t / (1 + t), which is inexact by rounding. The rounded quotient grows with s, so
    // the exact bound is found from this guess.
    let guess = (len_a + len_b) as f64 * threshold / (1.0 + threshold);
    let mut least = (guess as u64).min(most);
    while !reaches(least) {
        least += 1;
    }
    while least > 0 && reaches(least - 1) {
        least -= 1;
    }
    Some(least)
}

/// The fewest elements of a set of `len` that another set of any size has to share for a similarity of `threshold`; at
/// most `len`, for thresholds up to 1. A containment of `threshold` of this set takes as many.
pub fn least_contained(len: u64, threshold: f64) -> u64 {
    // Of the sets that share these elements and no others, the most similar one has no further elements.
    let reaches = |shared| jaccard_of(shared, len, shared) >= threshold;
    let mut least = ((len as f64 * threshold) as u64).min(len);
    while least < len && !reaches(least) {
        least += 1;
    }
    while least > 0 && reaches(least - 1) {
        least -= 1;
    }
    least
}

/// Elements in both, or `None` if they are fewer than `least`.
pub(super) fn shared_or_less(a: &[u64], b: &[u64], least: u64) -> Option<u64> {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let found = if large.len() / GALLOP >= small.len() {
        Some(shared_by_search(small, large))
    } else {
        shared_by_merge(small, large, least)
    };
    found.filter(|&shared| shared >= least)
}

/// A merge without branches on the values, which are hashes and cannot be predicted. `None` as soon as `least` cannot be reached.
fn shared_by_merge(a: &[u64], b: &[u64], least: u64) -> Option<u64> {
    let (mut i, mut j, mut shared) = (0, 0, 0);
    // In a block neither side can run out, so there is nothing to check but the slices' bounds, once.
    while let (Some(x), Some(y)) = (a.get(i..i + BLOCK), b.get(j..j + BLOCK)) {
        let (mut p, mut q) = (0, 0);
        for _ in 0..BLOCK {
            let (x, y) = (x[p % BLOCK], y[q % BLOCK]);
            shared += u64::from(x == y);
            p += usize::from(x <= y);
            q += usize::from(y <= x);
        }
        i += p;
        j += q;
        if shared + ((a.len() - i).min(b.len() - j) as u64) < least {
            return None;
        }
    }
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        shared += u64::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    Some(shared)
}

/// Looks up each element of `small` in `large` by doubling steps from the last place and then by halves (Bentley and
/// Yao, *An almost optimal algorithm for unbounded searching*, 1976).
fn shared_by_search(small: &[u64], large: &[u64]) -> u64 {
    let (mut rest, mut shared) = (large, 0);
    for &x in small {
        let mut step = 1;
        while rest.get(step).is_some_and(|&y| y < x) {
            step *= 2;
        }
        let within = &rest[..rest.len().min(step + 1)];
        rest = &rest[within.partition_point(|&y| y < x)..];
        shared += u64::from(rest.first() == Some(&x));
    }
    shared
}

/// `values` as a set: borrowed if they are sorted and without repeats, which takes one pass to check, or else a sorted
/// copy.
pub fn as_set(values: &[u64]) -> Cow<'_, [u64]> {
    if values.is_sorted_by(|a, b| a < b) {
        return Cow::Borrowed(values);
    }
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    Cow::Owned(values)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Two sets that overlap, of sizes alike or far apart.
    fn two_sets() -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
        let set = |range: u64, most: usize| {
            proptest::collection::btree_set(0..range, 0..most)
                .prop_map(|set| set.into_iter().collect::<Vec<_>>())
        };
        prop_oneof![
            (set(12, 10), set(12, 10)),
            (set(600, 500), set(600, 500)),
            (set(5000, 6), set(5000, 2000)),
            (set(5000, 2000), set(5000, 6)),
            // Few differences: the merge runs to the end.
            (set(600, 500), proptest::collection::vec(0u64..600, 0..20)).prop_map(|(a, gone)| {
                let b = a.iter().copied().filter(|x| !gone.contains(x)).collect();
                (a, b)
            }),
        ]
    }

    fn by_definition(a: &[u64], b: &[u64]) -> (u64, u64) {
        let (a, b): (BTreeSet<_>, BTreeSet<_>) = (a.iter().collect(), b.iter().collect());
        (a.intersection(&b).count() as u64, a.union(&b).count() as u64)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1500))]

        #[test]
        fn shared_is_the_intersection((a, b) in two_sets()) {
            let (both, either) = by_definition(&a, &b);
            prop_assert_eq!(shared(&a, &b), both);
            if either > 0 {
                prop_assert_eq!(jaccard_of(both, a.len() as u64, b.len() as u64), both as f64 / either as f64);
            }
        }

        #[test]
        fn the_threshold_is_exact(
            (a, b) in two_sets(), k in 0u32..=60, m in 1u32..=60, ulps in -1i64..=1, own in any::<bool>(),
        ) {
            let (both, either) = by_definition(&a, &b);
            // A ratio of small numbers, or the pair's own similarity; and the next number on either side.
            let ratio = if own && either > 0 { both as f64 / either as f64 } else { f64::from(k) / f64::from(m) };
            let threshold = if ratio > 0.0 { f64::from_bits((ratio.to_bits() as i64 + ulps) as u64) } else { ratio };
            let expected = (both as f64 / either as f64 >= threshold).then_some(both);
            prop_assert_eq!(shared_at_least(&a, &b, threshold), expected);
        }

        #[test]
        fn the_least_shared_is_least(len_a in 0u64..1 << 40, len_b in 0u64..1 << 40, k in 0u32..=60, m in 1u32..=60) {
            let threshold = f64::from(k) / f64::from(m);
            match least_shared(len_a, len_b, threshold) {
                Some(least) => {
                    prop_assert!(jaccard_of(least, len_a, len_b) >= threshold);
                    prop_assert!(least == 0 || jaccard_of(least - 1, len_a, len_b) < threshold);
                }
                None => prop_assert!(jaccard_of(len_a.min(len_b), len_a, len_b) < threshold || len_a + len_b == 0),
            }
        }
    }

    #[test]
    fn four_of_five_reach_four_fifths() {
        assert_eq!(shared_at_least(&[1, 2, 3, 4, 5], &[1, 2, 3, 4], 0.8), Some(4));
        assert_eq!(shared_at_least(&[1, 2, 3, 4, 5], &[1, 2, 3], 0.8), None);
    }

    #[test]
    fn empty_sets_are_not_similar() {
        assert_eq!(shared_at_least(&[], &[], 0.0), None);
        assert_eq!(shared_at_least(&[], &[1], 0.0), Some(0));
        assert_eq!(shared_at_least(&[1], &[1], f64::NAN), None);
        assert!(jaccard_of(0, 0, 0).is_nan());
    }

    #[test]
    fn lists_are_read_as_sets() {
        assert!(matches!(as_set(&[1, 2, 9]), Cow::Borrowed(_)));
        assert_eq!(*as_set(&[2, 1, 2]), [1, 2]);
    }
}
