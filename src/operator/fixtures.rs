//! Rows for the unit tests of operators.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, ListArray, RecordBatch, UInt64Array};
use arrow::datatypes::{UInt32Type, UInt64Type};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::{TryStreamExt, stream};

use super::sketches::Scorer;
use crate::job::Score;
use crate::plan::Batches;

pub(crate) fn session(pool: usize) -> SessionContext {
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(pool)));
    SessionContext::new_with_config_rt(SessionConfig::new(), runtime.build_arc().unwrap())
}

/// A scorer of pairs with a Jaccard similarity of 0.8 or more.
pub(super) fn scorer() -> Scorer {
    let score = Score { threshold: 0.8, ..Score::default() };
    Scorer { score, bands: 1, rows: 1 }
}

/// Sketches (doc, shingles, signature).
pub(super) fn sketches(documents: impl IntoIterator<Item = (u64, Vec<u64>)>) -> RecordBatch {
    let (docs, sets): (Vec<u64>, Vec<Vec<u64>>) = documents.into_iter().unzip();
    let signatures = docs.iter().map(|&doc| Some(vec![Some(doc as u32), Some(7)]));
    let signatures = ListArray::from_iter_primitive::<UInt32Type, _, _>(signatures);
    let sets = sets.into_iter().map(|set| Some(set.into_iter().map(Some).collect::<Vec<_>>()));
    let sets = ListArray::from_iter_primitive::<UInt64Type, _, _>(sets);
    let columns: [(_, ArrayRef); 3] = [
        ("doc", Arc::new(UInt64Array::from(docs))),
        ("shingles", Arc::new(sets)),
        ("signature", Arc::new(signatures)),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

pub(crate) fn numbers(names: [&str; 2], rows: &[(u64, u64)]) -> RecordBatch {
    let (one, two): (Vec<u64>, Vec<u64>) = rows.iter().copied().unzip();
    let column = |numbers| -> ArrayRef { Arc::new(UInt64Array::from(numbers)) };
    RecordBatch::try_from_iter([(names[0], column(one)), (names[1], column(two))]).unwrap()
}

/// At least one batch as a stream.
pub(super) fn stream_of(batches: Vec<RecordBatch>) -> SendableRecordBatchStream {
    let schema = batches[0].schema();
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches.into_iter().map(Ok))))
}

/// Returns the documents of each scored pair, and checks that no pair is repeated.
pub(super) async fn scored(batches: Batches) -> Result<BTreeSet<(u64, u64)>> {
    let mut found = BTreeSet::new();
    for pair in batches.try_collect::<Vec<_>>().await?.iter().flat_map(pairs) {
        assert!(found.insert(pair), "{pair:?} came twice");
    }
    Ok(found)
}

/// The first two columns, which are numbers.
pub(crate) fn pairs(batch: &RecordBatch) -> Vec<(u64, u64)> {
    let column = |at: usize| batch.column(at).as_primitive::<UInt64Type>().values().to_vec();
    column(0).into_iter().zip(column(1)).collect()
}
