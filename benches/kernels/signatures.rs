//! Measures how signatures are made from sets, split into bands and compared.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use resemblance::job::{Bits, BucketHash};
use resemblance::kernel::linear::{self, Linear};
use resemblance::kernel::lsh_bands::{Buckets, lsh_bands};
use resemblance::kernel::minhash::{Permutations, minhash};
use resemblance::kernel::one_permutation::{self, Rounds};
use resemblance::kernel::signature::{Signature, SignatureValues, minhash_similarity, shorten};

use super::{group, hashes, limits};

/// The number of values in a signature.
const VALUES: usize = 128;
/// The number of signatures, which are used in turn.
const TURNS: usize = 1_000;

/// Measures the steps from sets to signatures, buckets and estimates.
pub fn signatures(c: &mut Criterion) {
    for count in [100, 1_000] {
        multiply_shift(c, count);
        linear(c, count);
        one_permutation(c, count);
    }
    bands(c);
    estimate(c);
}

/// Returns the throughput unit: shingles times permutations, which is the number of terms among which minima are found.
fn terms(shingles: usize) -> Throughput {
    Throughput::Elements((shingles * VALUES) as u64)
}

fn multiply_shift(c: &mut Criterion, count: usize) {
    let shingles = hashes(1, count);
    let mut group = group(c, &format!("minima/multiply-shift {count} shingles"), terms(count));
    let (permutations, mut signature) = (Permutations::new(VALUES, 42), Vec::new());
    group.bench_function("kernel", |b| {
        b.iter(|| {
            signature.clear();
            minhash(black_box(&shingles), &permutations, &mut signature);
            black_box(&signature);
        });
    });
    let narrow = |values: Vec<u64>| values.into_iter().map(|value| value as u32).collect::<Vec<_>>();
    let (values, a, mut out) = (narrow(shingles.clone()), narrow(hashes(2, VALUES)), [0; VALUES]);
    let b_values = narrow(hashes(3, VALUES));
    group.bench_function("limit: a product, a sum and a minimum", |b| {
        b.iter(|| {
            limits::minima(black_box(&values), &a, &b_values, &mut out);
            black_box(&out);
        });
    });
}

fn linear(c: &mut Criterion, count: usize) {
    let shingles = hashes(1, count);
    let mut group = group(c, &format!("minima/linear {count} shingles"), terms(count));
    for (name, modulus) in [("2^31-1", (1 << 31) - 1), ("2^32-1", (1 << 32) - 1), ("a prime", 4_294_967_291)]
    {
        let (functions, mut signature) = (Linear::new(VALUES, 42, modulus, modulus - 1).unwrap(), Vec::new());
        group.bench_function(format!("kernel modulo {name}"), |b| {
            b.iter(|| {
                signature.clear();
                linear::minhash(black_box(&shingles), &functions, &mut signature);
                black_box(&signature);
            });
        });
    }
    let narrow = |values: Vec<u64>| values.into_iter().map(|value| value >> 33).collect::<Vec<_>>();
    let (values, a, mut out) = (narrow(shingles.clone()), narrow(hashes(2, VALUES)), [0; VALUES]);
    let b_values = narrow(hashes(3, VALUES));
    group.bench_function("limit: a product, a sum, one folding and a minimum", |b| {
        b.iter(|| {
            limits::folded_minima(black_box(&values), &a, &b_values, &mut out);
            black_box(&out);
        });
    });
}

/// Measures one-permutation hashing. The throughput has the same unit as for hash functions that hash each shingle once per permutation.
fn one_permutation(c: &mut Criterion, count: usize) {
    let shingles = hashes(1, count);
    let mut group = group(c, &format!("minima/one-permutation {count} shingles"), terms(count));
    let (rounds, mut scratch, mut signature) = (Rounds::new(VALUES, 42), Vec::new(), Vec::new());
    group.bench_function("kernel", |b| {
        b.iter(|| {
            signature.clear();
            one_permutation::one_permutation(black_box(&shingles), &rounds, &mut scratch, &mut signature);
            black_box(&signature);
        });
    });
}

fn some_signatures(seed: u64) -> Vec<Vec<u32>> {
    let values = hashes(seed, TURNS * VALUES);
    values.chunks(VALUES).map(|values| values.iter().map(|value| *value as u32).collect()).collect()
}

fn bands(c: &mut Criterion) {
    let signatures = some_signatures(1);
    let ready: Vec<Vec<u8>> =
        signatures.iter().map(|values| values.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
    for (bands, rows) in [(16, 6), (32, 4)] {
        let buckets = Throughput::Elements((TURNS * bands) as u64);
        let mut group = group(c, &format!("lsh_bands/{bands} bands of {rows} rows"), buckets);
        let mut out = Vec::new();
        for (name, hash) in [("xxh3", BucketHash::Xxh3), ("crc32", BucketHash::Crc32)] {
            let by = Buckets { bands, rows, hash, table_size: None };
            group.bench_function(format!("kernel: {name}"), |b| {
                b.iter(|| {
                    for signature in &signatures {
                        out.clear();
                        lsh_bands(Signature::Of32(black_box(signature)), by, &mut out).unwrap();
                        black_box(&out);
                    }
                });
            });
        }
        group.bench_function("limit: xxh3 of bytes that are there", |b| {
            b.iter(|| {
                for bytes in &ready {
                    limits::hash_bands(&bytes[..4 * bands * rows], rows, &mut out);
                    black_box(&out);
                }
            });
        });
    }
}

fn estimate(c: &mut Criterion) {
    let mut signatures = some_signatures(1);
    // Every other value of a signature equals the value of the previous signature.
    for at in 1..TURNS {
        for value in (0..VALUES).step_by(2) {
            signatures[at][value] = signatures[at - 1][value];
        }
    }
    let pairs: Vec<&[_; 2]> = signatures.array_windows().collect();
    let values = Throughput::Elements((pairs.len() * VALUES) as u64);
    let mut group = group(c, "estimate/128 values", values);
    group.bench_function("kernel", |b| {
        b.iter(|| {
            pairs
                .iter()
                .map(|[a, b]| minhash_similarity(Signature::Of32(a), Signature::Of32(b)).unwrap())
                .sum::<f64>()
        });
    });
    let short: Vec<SignatureValues> =
        signatures.iter().map(|minima| SignatureValues::new(minima.clone(), Bits::Of16)).collect();
    group.bench_function("kernel, 16 bits", |b| {
        let estimate =
            |[a, b]: &[SignatureValues; 2]| minhash_similarity(a.signature(), b.signature()).unwrap();
        b.iter(|| short.array_windows().map(estimate).sum::<f64>());
    });
    group.bench_function("16 bits of minima of 32", |b| {
        let mut out = Vec::new();
        b.iter(|| {
            for minima in &signatures {
                out.clear();
                shorten(black_box(minima), &mut out);
                black_box(&out);
            }
        });
    });
    group.bench_function("limit: equal values, counted in vectors", |b| {
        b.iter(|| pairs.iter().map(|pair| limits::equal(&pair[0], &pair[1])).sum::<u32>());
    });
}
