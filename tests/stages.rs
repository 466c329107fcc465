//! Single stages, compared with naive versions of what they do.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, ListArray, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, UInt32Type, UInt64Type};
use datafusion::datasource::MemTable;
use datafusion::prelude::{DataFrame, SessionContext, cast, col, lit};
use proptest::prelude::*;
use resemblance::engine::session;
use resemblance::frames;
use resemblance::job::{Bits, BucketHash, Engine, Score, curve};
use resemblance::kernel::signature::SignatureValues;
use resemblance::kernel::{lsh_bands, minhash};
use resemblance::pipeline::stage;

use crate::support::{Random, block_on, job};

fn context() -> SessionContext {
    session::session(&Engine { threads: 2, ..Engine::local(1 << 30) }).unwrap()
}

fn collect(frame: DataFrame) -> Vec<RecordBatch> {
    block_on(frame.collect()).unwrap()
}

/// Rows of a frame whose columns are all UInt64.
fn rows(frame: DataFrame) -> Vec<Vec<u64>> {
    let mut rows = Vec::new();
    for batch in collect(frame) {
        let columns: Vec<_> = batch.columns().iter().map(|c| c.as_primitive::<UInt64Type>()).collect();
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|c| c.value(row)).collect::<Vec<_>>()),
        );
    }
    rows
}

/// A frame of UInt64 columns, its rows spread over `partitions`.
fn frame(context: &SessionContext, names: &[&str], rows: &[Vec<u64>], partitions: usize) -> DataFrame {
    let fields: Vec<_> = names.iter().map(|n| Field::new(*n, DataType::UInt64, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batches = (0..partitions).map(|partition| {
        let mine: Vec<_> = rows.iter().skip(partition).step_by(partitions).collect();
        let column =
            |i: usize| Arc::new(UInt64Array::from_iter_values(mine.iter().map(|r| r[i]))) as Arc<dyn Array>;
        vec![RecordBatch::try_new(Arc::clone(&schema), (0..names.len()).map(column).collect()).unwrap()]
    });
    context.read_table(Arc::new(MemTable::try_new(Arc::clone(&schema), batches.collect()).unwrap())).unwrap()
}

/// (doc, buckets) as the stage before the candidates writes it.
fn keys(context: &SessionContext, buckets: &[Vec<u64>]) -> DataFrame {
    let docs = UInt64Array::from_iter_values((0..buckets.len() as u64).map(|d| d * 7 + 3));
    let lists = ListArray::from_iter_primitive::<UInt64Type, _, _>(
        buckets.iter().map(|list| Some(list.iter().copied().map(Some))),
    );
    let batch = RecordBatch::try_from_iter([
        ("doc", Arc::new(docs) as Arc<dyn Array>),
        ("buckets", Arc::new(lists) as Arc<dyn Array>),
    ])
    .unwrap();
    context.read_batch(batch).unwrap()
}

/// (doc, shingle_count, shingles, signature) of these sets, spread over partitions.
fn sketches(context: &SessionContext, sets: &[BTreeSet<u64>], partitions: usize) -> DataFrame {
    let batches = (0..partitions).map(|partition| {
        let mine = || sets.iter().enumerate().skip(partition).step_by(partitions);
        let shingles = ListArray::from_iter_primitive::<UInt64Type, _, _>(
            mine().map(|(_, set)| Some(set.iter().copied().map(Some))),
        );
        let signatures =
            ListArray::from_iter_primitive::<UInt32Type, _, _>(mine().map(|_| Some([Some(1), Some(2)])));
        let numbers = |numbers: Vec<u64>| Arc::new(UInt64Array::from(numbers)) as Arc<dyn Array>;
        let columns: Vec<(&str, Arc<dyn Array>)> = vec![
            ("doc", numbers(mine().map(|(i, _)| i as u64).collect())),
            ("shingle_count", numbers(mine().map(|(_, set)| set.len() as u64).collect())),
            ("shingles", Arc::new(shingles)),
            ("signature", Arc::new(signatures)),
        ];
        vec![RecordBatch::try_from_iter(columns).unwrap()]
    });
    let batches: Vec<_> = batches.collect();
    context.read_table(Arc::new(MemTable::try_new(batches[0][0].schema(), batches).unwrap())).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Every two documents in one bucket, once, and copies not at all.
    #[test]
    fn candidates_are_a_naive_bucket_join(
        buckets in prop::collection::vec(prop::collection::vec(0_u64..30, 1..6), 1..40),
        copies in prop::collection::vec(any::<bool>(), 40),
        batch in 1_usize..50,
    ) {
        // A bucket tells its band, so a document has no bucket twice.
        let buckets: Vec<Vec<u64>> =
            buckets.into_iter().map(|b| b.into_iter().collect::<BTreeSet<_>>().into_iter().collect()).collect();
        let doc = |i: usize| i as u64 * 7 + 3;
        let copied: BTreeSet<u64> =
            (1..buckets.len()).filter(|&i| copies[i] && i % 3 == 0).map(doc).collect();
        let mut expected = BTreeSet::new();
        for (i, a) in buckets.iter().enumerate() {
            for (j, b) in buckets.iter().enumerate().skip(i + 1) {
                let meet = a.iter().any(|bucket| b.contains(bucket));
                if meet && !copied.contains(&doc(i)) && !copied.contains(&doc(j)) {
                    expected.insert(vec![doc(i), doc(j)]);
                }
            }
        }
        let context = context();
        let state = context.state();
        let config = state.config().clone().with_batch_size(batch);
        let state = datafusion::execution::SessionStateBuilder::new_from_existing(state).with_config(config).build();
        let context = SessionContext::new_with_state(state);
        let groups: Vec<Vec<u64>> = copied.iter().map(|&copy| vec![0, copy, 2]).collect();
        let groups = frame(&context, &["rep", "doc", "size"], &groups, 1);
        let found = rows(stage::search::candidates(keys(&context, &buckets), groups, 40, None).unwrap());
        prop_assert_eq!(found.len(), expected.len(), "a pair comes twice");
        prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }

    /// The documents of a bucket that is too large come out one by one, once, and the pairs of the others are made.
    #[test]
    fn hot_buckets_yield_their_documents(
        buckets in prop::collection::vec(prop::collection::btree_set(0_u64..30, 1..6), 1..40),
        hot in 2_u64..6,
    ) {
        let doc = |i: usize| i as u64 * 7 + 3;
        let mut expected = BTreeSet::new();
        for bucket in 0..30 {
            let docs: Vec<u64> = (0..buckets.len()).filter(|&i| buckets[i].contains(&bucket)).map(doc).collect();
            if docs.len() as u64 > hot {
                expected.extend(docs.iter().map(|&doc| (doc, None)));
            } else {
                for (i, &a) in docs.iter().enumerate() {
                    expected.extend(docs[i + 1..].iter().map(|&b| (a, Some(b))));
                }
            }
        }
        let context = context();
        let groups = frame(&context, &["rep", "doc", "size"], &[], 1);
        let lists: Vec<Vec<u64>> = buckets.iter().map(|b| b.iter().copied().collect()).collect();
        let found = collect(stage::search::candidates(keys(&context, &lists), groups, hot, None).unwrap());
        let mut all = Vec::new();
        for batch in found {
            let (a, b) = (batch.column(0).as_primitive::<UInt64Type>(), batch.column(1).as_primitive::<UInt64Type>());
            all.extend(a.iter().flatten().zip(b));
        }
        prop_assert_eq!(all.len(), expected.len(), "a row comes twice");
        prop_assert_eq!(all.into_iter().collect::<BTreeSet<_>>(), expected);
    }

    /// Every two sets that reach the threshold, among others; thresholds are chosen so that many just reach it.
    #[test]
    fn prefixes_miss_no_pair(
        sets in prop::collection::vec(prop::collection::btree_set(0_u64..24, 1..14), 2..40),
        (part, whole) in (1_u64..12, 1_u64..12).prop_map(|(a, b)| (a.min(b), a.max(b))),
        partitions in 1_usize..4,
    ) {
        let threshold = part as f64 / whole as f64;
        let score = Score { threshold, ..Score::default() };
        let mut expected = BTreeSet::new();
        for (i, a) in sets.iter().enumerate() {
            for (j, b) in sets.iter().enumerate().skip(i + 1) {
                let shared = a.intersection(b).count();
                if shared as f64 / (a.len() + b.len() - shared) as f64 >= threshold {
                    expected.insert(vec![i as u64, j as u64]);
                }
            }
        }
        let context = context();
        let docs = sketches(&context, &sets, partitions);
        let elements = sets.iter().map(|set| set.len() as u64).sum();
        let join = frames::prefix::Join::new(&score, 2, elements, false);
        let frequencies = frames::prefix::frequencies(docs.clone(), &join).unwrap();
        let found = rows(frames::prefix::candidates(docs, frequencies, &join, None, None).unwrap());
        let distinct: BTreeSet<_> = found.iter().cloned().collect();
        prop_assert_eq!(found.len(), distinct.len(), "a pair comes twice");
        prop_assert!(expected.is_subset(&distinct), "missed {:?}", expected.difference(&distinct));
        prop_assert!(distinct.iter().all(|pair| pair[0] < pair[1]));
    }

    /// Copies are documents that have the same in every column but the first: the hashes of the set, the group and the side.
    #[test]
    fn copies_are_the_documents_with_equal_keys(
        hashes in prop::collection::vec((0_u64..4, 0_u64..4, 0_u64..2, 0_u64..2), 1..40),
        columns in 3_usize..6,
        partitions in 1_usize..4,
    ) {
        let context = context();
        let keys = hashes.iter().enumerate().map(|(i, (h0, h1, group, side))| {
            [1_000 - i as u64, *h0, *h1, *group, *side][..columns].to_vec()
        });
        let keys: Vec<Vec<u64>> = keys.collect();
        let mut sets: BTreeMap<&[u64], Vec<u64>> = BTreeMap::new();
        for key in &keys {
            sets.entry(&key[1..]).or_default().push(key[0]);
        }
        let mut expected = BTreeSet::new();
        for (key, docs) in sets.iter().filter(|(_, docs)| docs.len() > 1) {
            let (rep, known) = (docs.iter().min().unwrap(), key.get(3).copied().unwrap_or(0));
            expected.extend(docs.iter().map(|&doc| vec![*rep, doc, docs.len() as u64, known]));
        }
        let names = ["doc", "set_hash_0", "set_hash_1", "group_key", "reference"];
        let mut keys = frame(&context, &names[..columns], &keys, partitions);
        if columns == names.len() {
            keys = keys.with_column("reference", col("reference").eq(lit(1_u64))).unwrap();
        }
        let copies = frames::copies::copies(keys).unwrap();
        let copies = copies.with_column("reference", cast(col("reference"), DataType::UInt64)).unwrap();
        let found = rows(copies);
        prop_assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
    }
}

/// A 64-bit key collision cannot be waited for, so the stage is given one.
#[test]
fn two_ids_with_one_key_are_told_from_one_id_that_comes_twice() {
    let context = context();
    let strings = |values: &[&str]| Arc::new(StringArray::from(values.to_vec())) as Arc<dyn Array>;
    let batch = RecordBatch::try_from_iter([
        ("source", strings(&["b", "a", "a", "a", "a"])),
        ("position", Arc::new(UInt64Array::from(vec![0, 9, 10, 2, 3])) as Arc<dyn Array>),
        ("id", strings(&["x", "x", "y", "z", "x"])),
        ("text", strings(&["one two three"; 5])),
        ("doc", Arc::new(UInt64Array::from(vec![1, 1, 1, 2, 1])) as Arc<dyn Array>),
        (
            "reason",
            Arc::new(StringArray::from(vec![None, None, None, None, Some("empty_text")])) as Arc<dyn Array>,
        ),
    ])
    .unwrap();
    let shingle = job(Path::new("in"), Path::new("out"), &[]).shingle;
    let found = frames::duplicates::duplicates(context.read_batch(batch).unwrap(), &shingle).unwrap();
    let mut rows = BTreeSet::new();
    for batch in collect(found) {
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
fn the_curve_is_what_happens() {
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
