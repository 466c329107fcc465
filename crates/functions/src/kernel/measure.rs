//! Similarities between shingle sets: the Jaccard similarity and the containment. Broder (*On the resemblance and containment of
//! documents*, SEQUENCES 1997, section 2) calls the Jaccard similarity of two sets resemblance. A set is a sorted slice without repeats.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The measure for the similarity of two shingle sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// The Jaccard similarity: the number of common shingles, divided by the number of shingles in at least one of the sets.
    #[default]
    Jaccard,
    /// The containment: the number of common shingles, divided by the size of the smaller set. It is 1 if one text is a passage of the
    /// other.
    Containment,
}

impl Measure {
    /// All measures.
    pub const ALL: [Measure; 2] = [Measure::Jaccard, Measure::Containment];

    /// Returns a lower bound for the Jaccard similarity of two sets whose similarity by this measure is at least `threshold`. Returns `None`
    /// for the containment, which implies no minimum, so neither bands nor set sizes can rule out a pair.
    ///
    /// The bound must not exceed the smallest possible Jaccard similarity, so round it down: a pair below the bound is lost. For example,
    /// the bound of the Dice coefficient is t / (2 - t). In `f64`, 0.8 / (2.0 - 0.8) is greater than 2.0 / 3.0.
    pub fn least_jaccard(self, threshold: f64) -> Option<f64> {
        match self {
            Measure::Jaccard => Some(threshold),
            Measure::Containment => None,
        }
    }

    /// Returns whether a small set can be similar to a much larger set.
    pub fn takes_any_size(self) -> bool {
        self.least_jaccard(1.0).is_none()
    }

    /// Returns the name of the measure on pages.
    pub fn title(self) -> &'static str {
        match self {
            Measure::Jaccard => "Jaccard similarity",
            Measure::Containment => "contained share",
        }
    }

    /// Returns the noun for the measure in messages.
    pub fn noun(self) -> &'static str {
        match self {
            Measure::Jaccard => "similarity",
            Measure::Containment => "containment",
        }
    }

    /// Returns the number of common elements of two sets, if their similarity reaches `threshold`.
    pub fn shared_at_least(self, a: &[u64], b: &[u64], threshold: f64) -> Option<u64> {
        match self {
            Measure::Jaccard => shared_at_least(a, b, threshold),
            Measure::Containment => shared_if_contained(a, b, threshold),
        }
    }

    /// Returns the similarity of two sets with these sizes and `shared` common elements.
    pub fn similarity(self, shared: u64, sizes: [u64; 2]) -> f64 {
        match self {
            Measure::Jaccard => jaccard_of(shared, sizes[0], sizes[1]),
            Measure::Containment => containment_of(shared, sizes[0].min(sizes[1])),
        }
    }

    /// Returns the similarity of two sets, given their Jaccard similarity and both containments, which the output tables contain.
    pub fn similarity_from_shares(self, jaccard: f64, containments: [f64; 2]) -> f64 {
        match self {
            Measure::Jaccard => jaccard,
            // The containment of the smaller set is the larger number.
            Measure::Containment => containments[0].max(containments[1]),
        }
    }

    /// Returns the minimum number of elements that a set of `size` elements shares with any similar set. The sorted `sizes` are the
    /// possible sizes of the other set. Returns `None` if no set of these sizes can be similar.
    pub fn least_shared(self, size: u64, sizes: &[u64], threshold: f64) -> Option<u64> {
        match self {
            Measure::Jaccard => {
                // Among `sizes`, the nearest size below or above `size` allows the highest similarity.
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

/// The minimum ratio of the larger size to the smaller size at which a search replaces the merge.
const GALLOP: usize = 32;
/// The number of parts of two sets that are merged at the same time.
const PARTS: usize = 4;
/// The number of merge steps of each part between two checks whether `least` is still reachable.
const BLOCK: usize = 16;

/// Returns the number of common elements.
pub fn shared(a: &[u64], b: &[u64]) -> u64 {
    // With a bound of 0, the result is never `None`.
    shared_or_less(a, b, 0).unwrap_or(0)
}

/// Returns the number of common elements, if the Jaccard similarity reaches `threshold`. The condition is
/// `shared as f64 / union as f64 >= threshold` in `f64`. Two empty sets therefore give `None`. Most pairs below the threshold are rejected
/// by their sizes or early in the merge.
pub fn shared_at_least(a: &[u64], b: &[u64], threshold: f64) -> Option<u64> {
    shared_or_less(a, b, least_shared(a.len() as u64, b.len() as u64, threshold)?)
}

/// Returns the Jaccard similarity of two sets with `len_a` and `len_b` elements and `shared` common elements. NaN for two empty sets.
pub fn jaccard_of(shared: u64, len_a: u64, len_b: u64) -> f64 {
    shared as f64 / (len_a + len_b - shared) as f64
}

/// Returns the minimum number of common elements at which sets of these sizes have a Jaccard similarity of at least `threshold`. Returns
/// `None` if the similarity stays below `threshold` even when one set contains the other.
pub fn least_shared(len_a: u64, len_b: u64, threshold: f64) -> Option<u64> {
    let most = len_a.min(len_b);
    let reaches = |shared| jaccard_of(shared, len_a, len_b) >= threshold;
    if !reaches(most) {
        return None;
    }
    // s / (n - s) >= t is equivalent to s >= n t / (1 + t), but rounding makes the second bound inexact. The rounded quotient never
    // decreases as s grows, so the loops step from this guess to the exact bound.
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

/// Returns the minimum number of elements that two sets have in common if one has `len` elements and their Jaccard similarity is at least
/// `threshold`. The result is at most `len`. A containment of `threshold` requires the same minimum.
pub fn least_contained(len: u64, threshold: f64) -> u64 {
    // Of all sets that contain these common elements, the set without other elements is the most similar.
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

/// Returns the number of common elements; `None` if there are fewer than `least`.
pub(super) fn shared_or_less(a: &[u64], b: &[u64], least: u64) -> Option<u64> {
    let (small, large) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let found = if large.len() / GALLOP >= small.len() {
        Some(shared_by_search(small, large))
    } else {
        shared_by_merge(small, large, least)
    };
    found.filter(|&shared| shared >= least)
}

/// Counts common elements by a merge without branches on the values, because hashes are unpredictable. Returns `None` as soon as fewer than
/// `least` common elements remain possible. Each step waits for the previous step of its part, so the processor merges several parts in the
/// same time as one.
fn shared_by_merge(a: &[u64], b: &[u64], least: u64) -> Option<u64> {
    let (mut parts, mut shared) = (divided(a, b), 0);
    loop {
        let most: usize = parts.iter().map(|(x, y)| x.len().min(y.len())).sum();
        if shared + (most as u64) < least {
            return None;
        }
        // Neither side of a part ends within a block, so the bounds of the slices are checked once per block.
        let blocks = parts.map(|(x, y)| x.first_chunk::<BLOCK>().zip(y.first_chunk::<BLOCK>()));
        let [Some(first), Some(second), Some(third), Some(fourth)] = blocks else { break };
        let mut blocks = [first, second, third, fourth].map(|(x, y)| (x, y, 0, 0));
        for _ in 0..BLOCK {
            for (a, b, p, q) in &mut blocks {
                let (x, y) = (a[*p % BLOCK], b[*q % BLOCK]);
                shared += u64::from(x == y);
                *p += usize::from(x <= y);
                *q += usize::from(y <= x);
            }
        }
        for ((a, b), (.., p, q)) in parts.iter_mut().zip(blocks) {
            (*a, *b) = (&a[p..], &b[q..]);
        }
    }
    for (a, b) in parts {
        let (mut i, mut j) = (0, 0);
        while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
            shared += u64::from(x == y);
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
    }
    Some(shared)
}

/// Divides two sets at the same elements. Elements of different parts are different.
fn divided<'a>(mut a: &'a [u64], mut b: &'a [u64]) -> [(&'a [u64], &'a [u64]); PARTS] {
    std::array::from_fn(|part| {
        let (x, later_a) = a.split_at(a.len() / (PARTS - part));
        let end = later_a.first().map_or(b.len(), |first| b.partition_point(|y| y < first));
        let (y, later_b) = b.split_at(end);
        (a, b) = (later_a, later_b);
        (x, y)
    })
}

/// Looks up each element of `small` in `large`. Steps from the previous position double in length, and bisection follows (Bentley and Yao,
/// *An almost optimal algorithm for unbounded searching*, 1976).
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

/// Returns `values` as a set: borrowed if they are sorted and distinct, otherwise a sorted copy.
pub fn as_set(values: &[u64]) -> Cow<'_, [u64]> {
    if values.is_sorted_by(|a, b| a < b) {
        return Cow::Borrowed(values);
    }
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    Cow::Owned(values)
}

/// Returns the share, in [0, 1], of `shared` elements in a set of `len`. NaN for an empty set.
pub fn containment_of(shared: u64, len: u64) -> f64 {
    shared as f64 / len as f64
}

/// Returns the number of common elements, if the containment of the smaller set in the larger set is at least `threshold`. The result is
/// `Some(shared)` if and only if `shared as f64 / smaller as f64 >= threshold` in `f64`. An empty set therefore gives `None`.
pub fn shared_if_contained(a: &[u64], b: &[u64], threshold: f64) -> Option<u64> {
    let smaller = a.len().min(b.len()) as u64;
    let least = least_contained(smaller, threshold);
    // An empty set has a containment of NaN, so this is false. It is also false for thresholds above 1.
    let can_reach = containment_of(least, smaller) >= threshold;
    can_reach.then(|| shared_or_less(a, b, least)).flatten()
}

/// Returns the elements in `of` that are not in `set`.
pub fn missing(of: &[u64], set: &[u64]) -> Vec<u64> {
    let mut rest = set.iter().copied().peekable();
    let is_missing = |element: &u64| {
        while rest.next_if(|other| other < element).is_some() {}
        rest.peek() != Some(element)
    };
    of.iter().copied().filter(is_missing).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn set(range: u64, most: usize) -> impl Strategy<Value = Vec<u64>> {
        proptest::collection::btree_set(0..range, 0..most).prop_map(|set| set.into_iter().collect())
    }

    /// Generates two overlapping sets with similar or very different sizes.
    fn two_sets() -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
        prop_oneof![
            (set(12, 10), set(12, 10)),
            (set(600, 500), set(600, 500)),
            (set(5000, 6), set(5000, 2000)),
            (set(5000, 2000), set(5000, 6)),
            // The sets differ in few elements, so the merge runs to the end.
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

    /// Returns a ratio of small numbers or the similarity of a pair, moved by `ulps` to another `f64`.
    fn threshold(shared: u64, all: u64, (k, m, ulps, own): (u32, u32, i64, bool)) -> f64 {
        let ratio = if own && all > 0 { shared as f64 / all as f64 } else { f64::from(k) / f64::from(m) };
        if ratio > 0.0 { f64::from_bits((ratio.to_bits() as i64 + ulps) as u64) } else { ratio }
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
        fn the_threshold_is_exact((a, b) in two_sets(), of in (0u32..=60, 1u32..=60, -1i64..=1, any::<bool>())) {
            let (both, either) = by_definition(&a, &b);
            let threshold = threshold(both, either, of);
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

        #[test]
        fn what_is_missing_is_the_difference(a in set(40, 30), b in set(40, 30)) {
            let expected: Vec<u64> = a.iter().copied().filter(|element| !b.contains(element)).collect();
            prop_assert_eq!(missing(&a, &b), expected);
        }

        #[test]
        fn the_containment_threshold_is_exact(
            a in set(40, 30), b in set(40, 30), of in (0u32..=30, 1u32..=30, -1i64..=1, any::<bool>()),
        ) {
            let (both, smaller) = (by_definition(&a, &b).0, a.len().min(b.len()) as u64);
            let threshold = threshold(both, smaller, of);
            let expected = (smaller > 0 && both as f64 / smaller as f64 >= threshold).then_some(both);
            prop_assert_eq!(shared_if_contained(&a, &b, threshold), expected);
        }

        #[test]
        fn the_least_contained_is_least(len in 1u64..1 << 40, k in 0u32..=60, over in 0u32..=60) {
            let threshold = f64::from(k) / f64::from((k + over).max(1));
            let least = least_contained(len, threshold);
            prop_assert!(containment_of(least, len) >= threshold);
            prop_assert!(least == 0 || containment_of(least - 1, len) < threshold);
        }
    }

    #[test]
    fn similar_sets_have_the_least_jaccard() {
        let sizes = || (0..=30).flat_map(|a| (0..=30).map(move |b| (a, b)));
        for (measure, k) in Measure::ALL.into_iter().flat_map(|measure| (1..=100).map(move |k| (measure, k)))
        {
            let threshold = f64::from(k) / 100.0;
            let least = measure.least_jaccard(threshold).unwrap_or(0.0);
            for (shared, a, b) in sizes().flat_map(|(a, b)| (0..=a.min(b)).map(move |shared| (shared, a, b)))
            {
                let is_lost =
                    measure.similarity(shared, [a, b]) >= threshold && jaccard_of(shared, a, b) < least;
                assert!(!is_lost, "{measure} {threshold} {shared} {a} {b}");
            }
        }
    }

    #[test]
    fn empty_sets_and_thresholds_over_one_have_no_pairs() {
        assert_eq!(shared_at_least(&[], &[], 0.0), None);
        assert_eq!(shared_at_least(&[], &[1], 0.0), Some(0));
        assert_eq!(shared_at_least(&[1], &[1], f64::NAN), None);
        assert!(jaccard_of(0, 0, 0).is_nan());
        assert_eq!(shared_if_contained(&[1, 2], &[1, 2, 3], 1.0), Some(2));
        assert_eq!(shared_if_contained(&[1, 2], &[1, 2, 3], 1.0_f64.next_up()), None);
        assert_eq!(shared_if_contained(&[], &[1], 0.0), None);
    }

    #[test]
    fn lists_are_read_as_sets() {
        assert!(matches!(as_set(&[1, 2, 9]), Cow::Borrowed(_)));
        assert_eq!(*as_set(&[2, 1, 2]), [1, 2]);
    }
}
