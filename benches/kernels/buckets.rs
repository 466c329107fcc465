//! Rows of buckets: from the buckets of documents to the pairs that share one.

use std::hint::black_box;

use criterion::{BatchSize, Criterion, Throughput};
use resemblance::operator::bucket_groups::{self, BucketRow};

use super::{group, hashes, limits};

/// Documents and bands: fifteen million rows, as of a million documents.
const DOCUMENTS: usize = 1_000_000;
const BANDS: usize = 15;

/// One document in ten shares a bucket with another.
fn rows() -> Vec<BucketRow> {
    let docs = hashes(1, DOCUMENTS);
    let buckets = hashes(2, DOCUMENTS * BANDS);
    let bucket = |at: usize| buckets[if at.is_multiple_of(10) { (at + 1) % buckets.len() } else { at }];
    (0..buckets.len()).map(|at| (bucket(at), docs[at / BANDS])).collect()
}

/// The rows brought together by bucket: by the library, by the standard library's sort, and read once, which is the least
/// that there is to do.
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
