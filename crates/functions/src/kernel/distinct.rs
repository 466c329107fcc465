//! Sorts hashes and drops repeats: a shingle set is a sorted list without repeats.

/// The maximum number of values that [`scatter_sort`] sorts. Up to this number, the copy is cheap and the buckets fit in the cache.
const SCATTER_UP_TO: usize = 1 << 20;
/// The minimum number of values that [`scatter_sort`] sorts. Fewer values are sorted directly.
const SCATTER_FROM: usize = 64;
/// The maximum average number of values in a bucket.
const BUCKET: usize = 2;
/// The number of values above which a bucket is sorted separately. A bucket gets so many only if values repeat or are not hashes.
const LONG_BUCKET: usize = 32;

/// Sorts `values[from..]` ascending and drops its repeats. The values before `from` do not change. `scratch` is reused between calls.
pub fn sort_distinct(values: &mut Vec<u64>, from: usize, scratch: &mut DistinctBuffers) {
    let tail = &mut values[from..];
    if (SCATTER_FROM..=SCATTER_UP_TO).contains(&tail.len()) {
        scatter_sort(tail, scratch);
    } else {
        tail.sort_unstable();
    }
    let kept = dedup_sorted(tail);
    values.truncate(from + kept);
}

/// The buffers of [`sort_distinct`].
#[derive(Debug, Default)]
pub struct DistinctBuffers {
    copy: Vec<u64>,
    ends: Vec<u32>,
}

/// Sorts by one pass of bucket sort on the leading bits, followed by insertion sort. Hashes fill the buckets evenly, so this is a third to
/// a half faster than the standard sort. Overfull buckets are sorted by the standard sort.
fn scatter_sort(values: &mut [u64], scratch: &mut DistinctBuffers) {
    let used = values.iter().fold(0, |all, value| all | value);
    let bits = (values.len() / BUCKET).ilog2() + 1;
    let shift = (u64::BITS - used.leading_zeros()).saturating_sub(bits);
    let DistinctBuffers { copy, ends } = scratch;

    ends.clear();
    ends.resize((1 << bits) + 1, 0);
    for value in values.iter() {
        ends[(value >> shift) as usize + 1] += 1;
    }
    // After this loop, `ends` contains the start of each bucket. The scatter below advances each start to the end of the bucket.
    for bucket in 1..ends.len() {
        ends[bucket] += ends[bucket - 1];
    }
    copy.clear();
    copy.extend_from_slice(values);
    for &value in copy.iter() {
        let at = &mut ends[(value >> shift) as usize];
        values[*at as usize] = value;
        *at += 1;
    }
    let mut start = 0;
    for &end in &ends[..1 << bits] {
        let end = end as usize;
        if end - start > LONG_BUCKET {
            values[start..end].sort_unstable();
        }
        start = end;
    }
    insertion_sort(values);
}

/// Sorts values that are almost sorted: each value is fewer than [`LONG_BUCKET`] positions away from its final position.
fn insertion_sort(values: &mut [u64]) {
    for at in 1..values.len() {
        let value = values[at];
        let mut to = at;
        while to > 0 && values[to - 1] > value {
            values[to] = values[to - 1];
            to -= 1;
        }
        values[to] = value;
    }
}

/// Moves the distinct values of a sorted slice to its front and returns their number. The loop has no branches, because some texts would
/// make them unpredictable.
fn dedup_sorted(values: &mut [u64]) -> usize {
    let Some(&first) = values.first() else { return 0 };
    let (mut kept, mut last) = (1, first);
    for at in 1..values.len() {
        let value = values[at];
        values[kept] = value;
        kept += usize::from(value != last);
        last = value;
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_set(
            before in proptest::collection::vec(any::<u64>(), 0..3),
            tail in prop_oneof![
                proptest::collection::vec(any::<u64>(), 0..2000),
                proptest::collection::vec(any::<u32>().prop_map(u64::from), 0..2000),
                proptest::collection::vec(0u64..9, 0..2000),
                proptest::collection::vec(prop_oneof![Just(u64::MAX), 0u64..9], 0..2000),
            ],
        ) {
            let mut values = before.clone();
            values.extend(&tail);
            sort_distinct(&mut values, before.len(), &mut DistinctBuffers::default());
            let mut expected = before;
            expected.extend(tail.into_iter().collect::<BTreeSet<_>>());
            prop_assert_eq!(values, expected);
        }
    }

    #[test]
    fn more_than_the_scatter_takes() {
        let mut values: Vec<u64> = (0..3 * SCATTER_UP_TO as u64 / 2).rev().map(|v| v / 2).collect();
        sort_distinct(&mut values, 0, &mut DistinctBuffers::default());
        assert_eq!(values, (0..3 * SCATTER_UP_TO as u64 / 4).collect::<Vec<_>>());
    }
}
