//! Measures how shingle sets are made from hashes and compared.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use resemblance::kernel::distinct::{DistinctBuffers, sort_distinct};
use resemblance::kernel::measure::{shared, shared_at_least};

use super::{group, hashes, limits};

/// The number of different inputs, which are used in turn. The branch predictor would learn a single input.
const TURNS: usize = 64;

/// Measures how sets are made, and how two sets are compared.
pub fn sets(c: &mut Criterion) {
    for count in [100, 1_000, 10_000] {
        distinct(c, count);
    }
    for count in [100, 1_000, 10_000] {
        merge(c, count);
    }
    gallop(c);
    early_exit(c);
}

fn distinct(c: &mut Criterion, count: usize) {
    let lists: Vec<Vec<u64>> = (0..TURNS as u64).map(|turn| hashes(turn, count)).collect();
    let elements = Throughput::Elements((TURNS * count) as u64);
    let mut group = group(c, &format!("sort_distinct/{count} hashes"), elements);
    let (mut values, mut scratch) = (Vec::new(), DistinctBuffers::default());
    group.bench_function("kernel", |b| {
        b.iter(|| {
            for list in &lists {
                values.clear();
                values.extend_from_slice(list);
                sort_distinct(&mut values, 0, &mut scratch);
                black_box(&values);
            }
        });
    });
    group.bench_function("plain: the standard sort", |b| {
        b.iter(|| {
            for list in &lists {
                values.clear();
                values.extend_from_slice(list);
                limits::sort_dedup(&mut values);
                black_box(&values);
            }
        });
    });
}

/// Returns [`TURNS`] pairs of sets. The two sets of a pair have `small` and `large` elements, and share `shared` elements.
fn pairs(small: usize, large: usize, shared: usize) -> Vec<(Vec<u64>, Vec<u64>)> {
    let pair = |turn: u64| {
        let both = hashes(3 * turn, shared);
        let with = |seed, count| {
            let mut set = [both.as_slice(), &hashes(seed, count - shared)].concat();
            set.sort_unstable();
            set
        };
        (with(3 * turn + 1, small), with(3 * turn + 2, large))
    };
    (0..TURNS as u64).map(pair).collect()
}

fn elements(pairs: &[(Vec<u64>, Vec<u64>)]) -> Throughput {
    Throughput::Elements(pairs.iter().map(|(a, b)| (a.len() + b.len()) as u64).sum())
}

fn all(b: &mut criterion::Bencher, pairs: &[(Vec<u64>, Vec<u64>)], of: impl Fn(&[u64], &[u64]) -> u64) {
    b.iter(|| pairs.iter().map(|(x, y)| of(black_box(x), black_box(y))).sum::<u64>());
}

fn merge(c: &mut Criterion, count: usize) {
    // The sets share 2 of 3 elements, so their similarity is 0.5.
    let pairs = pairs(count, count, 2 * count / 3);
    let mut group = group(c, &format!("jaccard/merge {count} with {count}"), elements(&pairs));
    group.bench_function("kernel", |b| all(b, &pairs, shared));
    group.bench_function("plain: the merge as it is taught", |b| all(b, &pairs, limits::merge));
    group.bench_function("limit: one pass over both", |b| {
        let sum = |set: &[u64]| set.iter().fold(0_u64, |sum, value| sum.wrapping_add(*value));
        all(b, &pairs, |x, y| sum(x).wrapping_add(sum(y)) & 1);
    });
}

fn gallop(c: &mut Criterion) {
    let pairs = pairs(100, 10_000, 50);
    let mut group = group(c, "jaccard/search 100 in 10000", elements(&pairs));
    group.bench_function("kernel", |b| all(b, &pairs, shared));
    group.bench_function("plain: a binary search for each", |b| all(b, &pairs, limits::binary_search));
    group.bench_function("plain: the merge as it is taught", |b| all(b, &pairs, limits::merge));
}

fn early_exit(c: &mut Criterion) {
    // The similarity is 1/9, and at least 0.8 is required.
    let pairs = pairs(1_000, 1_000, 200);
    let least = (2_000.0_f64 * 0.8 / 1.8).ceil() as usize;
    let mut group = group(c, "jaccard/turn away 1000 and 1000", elements(&pairs));
    group.bench_function("kernel", |b| all(b, &pairs, |x, y| shared_at_least(x, y, 0.8).unwrap_or(0)));
    group.bench_function("plain: the merge as it is taught, given up as early as can be", |b| {
        all(b, &pairs, |x, y| limits::merge_until_hopeless(x, y, least));
    });
}
