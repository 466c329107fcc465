//! The tokens of each document that a similar document must share one of: the rarest few.
//!
//! Put the tokens of every document in one order that all share. Two sets of which o tokens are common have one in
//! common among the first |x| - o + 1 of the one and the first |y| - o + 1 of the other (Chaudhuri, Ganti and Kaushik,
//! *A primitive operator for similarity joins in data cleaning*, ICDE 2006). The rarest come first, so that few
//! documents share one: here in the order of (counter, token), with the counters of [`super::token_counts`]. A token
//! of one document meets no other, so it takes its place in the order and goes nowhere.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Builder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use super::token_counts::Counts;
use crate::kernel::jaccard::least_contained;
use crate::plan::{Batches, Description, Requirement, Shape, Task};
use serde::{Deserialize, Serialize};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("token", DataType::UInt64, false),
        Field::new("doc", DataType::UInt64, false),
        Field::new("size", DataType::UInt32, false),
        Field::new("position", DataType::UInt32, false),
    ]))
});

/// The columns (token, doc, size, position): a token of a document's prefix, the number of the document's tokens, and
/// of those the ones that come before this one.
pub(crate) fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// Counters (at, counts) and documents (doc: UInt64, tokens: `List<UInt64>`) -> the columns of [`schema`].
///
/// The counters are one partition and are read whole before the first document; the documents keep their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prefixes {
    /// The counters are `2^bits`.
    pub bits: u32,
    /// The least Jaccard similarity.
    pub threshold: f64,
}

/// The counters that the tasks of a process share.
type Shared = OnceCell<Result<Arc<Held>, Arc<DataFusionError>>>;

/// Counters, and the memory that is reserved for them.
#[derive(Debug)]
pub(crate) struct Held {
    counts: Counts,
    _held: MemoryReservation,
}

impl Prefixes {
    async fn counts(&self, plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Arc<Held>> {
        let held = MemoryConsumer::new("Prefixes").register(context.memory_pool());
        held.try_grow(1 << self.bits)?;
        let mut counts = Counts::new(self.bits);
        let mut rows = plan.execute(0, context)?;
        while let Some(batch) = rows.next().await.transpose()? {
            counts.merge(&batch)?;
        }
        Ok(Arc::new(Held { counts, _held: held }))
    }
}

impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "jaccard >= {}, 2^{} counters", self.threshold, self.bits)
    }
}

impl Description for Prefixes {
    const NAME: &'static str = "PrefixesExec";

    type Shared = Shared;

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        Shape::over(inputs, schema(), vec![Requirement::single_partition(), Requirement::none()])
    }

    fn start(self: Arc<Self>, task: Task<'_, Shared>) -> Result<Batches> {
        let [counters, _] = task.inputs else { return internal_err!("prefixes have two inputs") };
        let (counters, documents) = (Arc::clone(counters), task.rows_of(1)?);
        let (shared, context) = (Arc::clone(task.shared), task.context);
        let batches = futures::stream::once(async move {
            let read = async || self.counts(counters, context).await.map_err(Arc::new);
            let held = shared.get_or_init(read).await.clone().map_err(DataFusionError::Shared)?;
            let mut room = Vec::new();
            let prefixes =
                documents.map(move |batch| prefixes_of(&batch?, &held.counts, self.threshold, &mut room));
            Ok::<_, DataFusionError>(prefixes)
        });
        Ok(batches.try_flatten().boxed())
    }
}

fn prefixes_of(
    batch: &RecordBatch,
    counts: &Counts,
    threshold: f64,
    room: &mut Vec<(u8, u64)>,
) -> Result<RecordBatch> {
    let (mut tokens, mut docs) = (UInt64Builder::new(), UInt64Builder::new());
    let (mut sizes, mut positions) = (UInt32Builder::new(), UInt32Builder::new());
    let keys = as_uint64_array(batch.column(0))?;
    for (&doc, set) in keys.values().iter().zip(batch.column(1).as_list::<i32>().iter()) {
        let Some(set) = set else { continue };
        let set = set.as_primitive::<UInt64Type>().values();
        // Lists of Arrow have fewer than 2^31 elements.
        let size = set.len() as u32;
        for (position, &(count, token)) in (0..).zip(prefix(set, counts, threshold, room)) {
            if count > 1 {
                tokens.append_value(token);
                docs.append_value(doc);
                sizes.append_value(size);
                positions.append_value(position);
            }
        }
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(tokens.finish()),
        Arc::new(docs.finish()),
        Arc::new(sizes.finish()),
        Arc::new(positions.finish()),
    ];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

/// The first tokens of `set` in the order of (counter, token), as many as are needed, each with its counter.
fn prefix<'a>(set: &[u64], counts: &Counts, threshold: f64, room: &'a mut Vec<(u8, u64)>) -> &'a [(u8, u64)] {
    room.clear();
    room.extend(set.iter().map(|&token| (counts.of(token), token)));
    let length =
        set.len() - least_contained(set.len() as u64, threshold) as usize + usize::from(!set.is_empty());
    if length < room.len() {
        room.select_nth_unstable(length);
        room.truncate(length);
    }
    room.sort_unstable();
    room
}
