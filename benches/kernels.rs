//! The loops over text and hashes, each beside the least work that its result could take.

use criterion::{Criterion, criterion_group, criterion_main};

fn minima(c: &mut Criterion) {
    let shingles: Vec<u64> = (0..1000_u64).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let permutations = resemblance::udf::minhash::Permutations::new(128, 42);
    let mut signature = Vec::new();
    c.bench_function("minima", |b| {
        b.iter(|| {
            signature.clear();
            resemblance::udf::minhash::minhash(&shingles, &permutations, &mut signature);
        });
    });
}

fn bins(c: &mut Criterion) {
    let rounds = resemblance::udf::one_permutation::Rounds::new(128, 42);
    let (mut scratch, mut signature) = (Vec::new(), Vec::new());
    for size in [100, 1000_u64] {
        let shingles: Vec<u64> = (0..size).map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        c.bench_function(&format!("bins of {size}"), |b| {
            b.iter(|| {
                signature.clear();
                resemblance::udf::one_permutation::one_permutation(
                    &shingles,
                    &rounds,
                    &mut scratch,
                    &mut signature,
                );
            });
        });
    }
}

criterion_group!(kernels, minima, bins);
criterion_main!(kernels);
