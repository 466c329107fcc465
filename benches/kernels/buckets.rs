//! Measures how rows (bucket, document) are grouped by bucket.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use resemblance::operator::bucket_groups::{self, BucketRow};

use super::{group, hashes, limits};

/// The numbers of documents and bands. They give fifteen million rows.
const DOCUMENTS: usize = 1_000_000;
const BANDS: usize = 15;

/// Returns the rows. Every tenth row has the same bucket as the next row.
fn rows() -> Vec<BucketRow> {
    let docs = hashes(1, DOCUMENTS);
    let buckets = hashes(2, DOCUMENTS * BANDS);
    let bucket = |at: usize| buckets[if at.is_multiple_of(10) { (at + 1) % buckets.len() } else { at }];
    (0..buckets.len()).map(|at| (bucket(at), docs[at / BANDS])).collect()
}

/// Measures grouping by the library, sorting by the standard library, and a single copy of all rows. The copy is the limit.
pub(super) fn buckets(c: &mut Criterion) {
    let rows = rows();
    let mut group = group(c, "buckets", Throughput::Elements(rows.len() as u64));
    group.sample_size(10);
    group.bench_function("kernel", |b| {
        b.iter_batched(|| rows.clone(), |rows| black_box(bucket_groups::group(rows)), BatchSize::LargeInput);
    });
    group.bench_function("plain: the sort of the standard library", |b| {
        let sort = |mut rows: Vec<BucketRow>| {
            rows.sort_unstable();
            rows
        };
        b.iter_batched(|| rows.clone(), |rows| black_box(sort(rows)), BatchSize::LargeInput);
    });
    group.bench_function("limit: read and written once", |b| {
        b.iter_batched(|| rows.clone(), |rows| black_box(limits::copied(&rows)), BatchSize::LargeInput);
    });
    group.finish();
}
