//! Measures the loops over texts, hashes and signatures, and compares them with hand-written loops.
//!
//! In every group, `kernel` is the function of the library. The other benchmarks are loops over the same input, most of them in [`limits`].
//! A `limit` does only the work that no implementation can avoid. A `plain` loop does the same work as the kernel in the simplest way.
//!
//! `cargo bench --bench kernels -- minima` measures only groups with `minima` in their names.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot start ends there")]

mod buckets;
mod limits;
mod sets;
mod signatures;
mod texts;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

/// Creates a group of benchmarks over the same input.
fn group<'a>(
    c: &'a mut Criterion,
    name: &str,
    throughput: Throughput,
) -> BenchmarkGroup<'a, criterion::measurement::WallTime> {
    let mut group = c.benchmark_group(name);
    group.throughput(throughput);
    group
}

/// Returns `count` pseudorandom numbers from splitmix64 (Steele, Lea and Flood 2014).
fn hashes(seed: u64, count: usize) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    (0..count).map(|_| next()).collect()
}

criterion_group!(kernels, texts::texts, sets::sets, signatures::signatures, buckets::buckets);
criterion_main!(kernels);
