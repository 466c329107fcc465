//! Single stages, compared with naive versions of what they do.

use arrow::array::UInt64Array;
use arrow::datatypes::UInt64Type;
use resemblance::engine::session;
use resemblance::frames;
use resemblance::job::{Bits, BucketHash, EngineSettings, curve};
use resemblance::kernel::signature::SignatureValues;
use resemblance::kernel::{lsh_bands, minhash};

use crate::support::*;

/// A 64-bit key collision cannot be waited for, so the stage is given one.
#[test]
fn two_ids_with_one_key_are_told_from_one_id_that_comes_twice() {
    let engine = EngineSettings { threads: 2, ..EngineSettings::local(1 << 30) };
    let context = session::session(&engine).unwrap();
    let strings = |values: &[&str]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    let batch = RecordBatch::try_from_iter([
        ("source", strings(&["b", "a", "a", "a", "a"])),
        ("position", Arc::new(UInt64Array::from(vec![0, 9, 10, 2, 3])) as ArrayRef),
        ("id", strings(&["x", "x", "y", "z", "x"])),
        ("text", strings(&["one two three"; 5])),
        ("doc", Arc::new(UInt64Array::from(vec![1, 1, 1, 2, 1])) as ArrayRef),
        ("reason", Arc::new(StringArray::from(vec![None, None, None, None, Some("empty_text")])) as ArrayRef),
    ])
    .unwrap();
    let shingle = job(Path::new("in"), Path::new("out"), &[]).shingle;
    let found = frames::documents::duplicates(context.read_batch(batch).unwrap(), &shingle).unwrap();
    let mut rows = BTreeSet::new();
    for batch in block_on(found.collect()).unwrap() {
        let text = |i: usize| batch.column(i).as_string::<i32>();
        let positions = batch.column(1).as_primitive::<UInt64Type>();
        rows.extend(
            (0..batch.num_rows())
                .map(|r| (text(0).value(r).to_owned(), positions.value(r), text(2).value(r).to_owned())),
        );
    }
    // The first that can be compared is row 9 of `a`; row 3 is rejected for a reason of its own.
    let expected = [("a", 10, "key_collision"), ("b", 0, "duplicate_id")];
    assert_eq!(
        rows,
        expected.map(|(source, row, reason)| (source.to_owned(), row, reason.to_owned())).into()
    );
}

/// The share of pairs of known similarity that become candidates, against the curve: within five deviations.
#[test]
fn recall_follows_the_curve() {
    const PAIRS: usize = 2_000;
    let mut random = Random(99);
    let permutations = minhash::Permutations::new(128, 42);
    for (bands, rows, bits) in [
        (16, 6, Bits::Of16),
        (32, 4, Bits::Of16),
        (42, 3, Bits::Of16),
        (9, 13, Bits::Of16),
        (16, 6, Bits::Of32),
    ] {
        for (shared, only) in [(90, 55), (120, 40), (160, 20), (180, 10)] {
            let similarity = shared as f64 / (shared + 2 * only) as f64;
            let mut met = 0;
            for _ in 0..PAIRS {
                let mut draw = |n: usize| (0..n).map(|_| random.next()).collect::<Vec<u64>>();
                let both = draw(shared);
                let buckets = [draw(only), draw(only)].map(|own| {
                    let set: Vec<u64> = own.into_iter().chain(both.iter().copied()).collect();
                    let (mut signature, mut buckets) = (Vec::new(), Vec::new());
                    minhash::minhash(&set, &permutations, &mut signature);
                    let (hash, table_size) = (BucketHash::Xxh3, None);
                    let by = lsh_bands::Buckets { bands, rows, hash, table_size };
                    let signature = SignatureValues::new(signature, bits);
                    lsh_bands::lsh_bands(signature.signature(), by, &mut buckets).unwrap();
                    buckets
                });
                met += usize::from(buckets[0].iter().zip(&buckets[1]).any(|(a, b)| a == b));
            }
            let expected = curve::probability(similarity, bands, rows);
            let deviation = (expected * (1.0 - expected) / PAIRS as f64).sqrt().max(1.0 / PAIRS as f64);
            let measured = met as f64 / PAIRS as f64;
            assert!(
                (measured - expected).abs() <= 5.0 * deviation,
                "{bands} x {rows} {bits:?} at {similarity}: {measured}, not {expected}"
            );
        }
    }
}
