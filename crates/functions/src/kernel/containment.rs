//! `containment(a, b)`: the share of `a` that is in `b` (Broder 1997, section 2).

use super::jaccard::{least_contained, shared_or_less};

/// The share, in [0, 1], of the elements of a set of `len` that are `shared` with another set. NaN for an empty set.
pub fn containment_of(shared: u64, len: u64) -> f64 {
    shared as f64 / len as f64
}

/// The number of elements in both sets, each sorted and without repeats, if their containment reaches `threshold`: the
/// share of the smaller set that is in the larger one. `Some(shared)` exactly when `shared as f64 / smaller as f64 >=
/// threshold` in `f64`, so never for an empty set.
pub fn shared_at_least(a: &[u64], b: &[u64], threshold: f64) -> Option<u64> {
    let smaller = a.len().min(b.len()) as u64;
    let least = least_contained(smaller, threshold);
    // Nothing is a share of an empty set, or more than the whole.
    let can_reach = containment_of(least, smaller) >= threshold;
    can_reach.then(|| shared_or_less(a, b, least)).flatten()
}

/// The elements of `of` that are not in `set`, both sorted and without repeats.
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

    #[test]
    fn nothing_reaches_more_than_the_whole() {
        assert_eq!(shared_at_least(&[1, 2], &[1, 2, 3], 1.0), Some(2));
        assert_eq!(shared_at_least(&[1, 2], &[1, 2, 3], 1.0_f64.next_up()), None);
        assert_eq!(shared_at_least(&[], &[1], 0.0), None);
    }

    proptest! {
        #[test]
        fn what_is_missing_is_the_difference(
            a in proptest::collection::btree_set(0u64..40, 0..30),
            b in proptest::collection::btree_set(0u64..40, 0..30),
        ) {
            let list = |set: &BTreeSet<u64>| set.iter().copied().collect::<Vec<_>>();
            let expected: Vec<u64> = a.difference(&b).copied().collect();
            prop_assert_eq!(missing(&list(&a), &list(&b)), expected);
        }

        #[test]
        fn the_threshold_is_exact(
            a in proptest::collection::btree_set(0u64..40, 0..30),
            b in proptest::collection::btree_set(0u64..40, 0..30),
            (k, m, ulps) in (0u32..=30, 1u32..=30, -1i64..=1),
            own in any::<bool>(),
        ) {
            let shared = a.intersection(&b).count() as u64;
            let smaller = a.len().min(b.len()) as u64;
            // A ratio of small numbers, or the pair's own share; and the next number on either side.
            let ratio = match own && smaller > 0 {
                true => shared as f64 / smaller as f64,
                false => f64::from(k) / f64::from(m),
            };
            let threshold = if ratio > 0.0 { f64::from_bits((ratio.to_bits() as i64 + ulps) as u64) } else { ratio };
            let expected = (smaller > 0 && shared as f64 / smaller as f64 >= threshold).then_some(shared);
            let list = |set: &BTreeSet<u64>| set.iter().copied().collect::<Vec<_>>();
            prop_assert_eq!(shared_at_least(&list(&a), &list(&b), threshold), expected);
        }

        #[test]
        fn the_least_contained_is_least(len in 1u64..1 << 40, k in 0u32..=60, over in 0u32..=60) {
            let threshold = f64::from(k) / f64::from((k + over).max(1));
            let least = least_contained(len, threshold);
            prop_assert!(containment_of(least, len) >= threshold);
            prop_assert!(least == 0 || containment_of(least - 1, len) < threshold);
        }
    }
}
