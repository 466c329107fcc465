//! The loops over text, hashes and signatures, each with a hand-written limit to compare with.
//!
//! In every group `kernel` is the library's function, and the others are loops over the same input that do only what
//! cannot be left out, or do the same by the plainest means; [`limits`] has them. Time above a kernel's limit is
//! the price of what it does beyond.
//!
//! `cargo bench --bench kernels -- minima` measures the groups whose name has `minima` in it.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot start ends there")]

mod buckets;
mod limits;
mod sets;
mod signatures;
mod texts;

use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

/// A group: one input, several ways.
fn group<'a>(
    c: &'a mut Criterion,
    name: &str,
    throughput: Throughput,
) -> BenchmarkGroup<'a, criterion::measurement::WallTime> {
    let mut group = c.benchmark_group(name);
    group.throughput(throughput);
    group
}

/// Numbers that look random: splitmix64 (Steele, Lea and Flood 2014).
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
