//! The tokens of each document that a similar document must share one of: the rarest few.
//!
//! Put the tokens of every document in one order that all share. Two sets of which o tokens are common have one in
//! common among the first |x| - o + 1 of the one and the first |y| - o + 1 of the other (Chaudhuri, Ganti and Kaushik,
//! *A primitive operator for similarity joins in data cleaning*, ICDE 2006). The rarest come first, so that few
//! documents share one: here in the order of (counter, token), with the counters of [`super::token_counts`]. A token
//! of one document meets no other, so it takes its place in the order and goes nowhere. In a run against known documents only
//! the new ones are counted: then tokens that no new document has come first, and go nowhere.
//!
//! If another set holds o of the x tokens of a set, one of those is among the first x - o + 1 of that set, but the other set may
//! have it anywhere. So for containment, prefixes meet all tokens of all documents that are in some prefix.

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
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::token_counts::Counts;
use crate::kernel::jaccard::least_contained;
use crate::plan::{Batches, Description, Requirement, Shape, Task};

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

/// Counters (at, counts) and documents (doc: UInt64, tokens: `List<UInt64>`) -> the columns of [`schema`]. For
/// [`Tokens::OfPrefixes`] the counters of the tokens of all prefixes come between them.
///
/// The counters are one partition and are read whole before the first document; the documents keep their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prefixes {
    /// The counters are `2^bits`.
    pub bits: u32,
    /// The least Jaccard similarity, or the least containment: both have the same prefixes.
    pub threshold: f64,
    /// Which tokens of a document are given.
    pub tokens: Tokens,
    /// Tokens with a lesser counter are not given: no other document has them that could be paired with this one. It is 2 where
    /// all documents are counted, and 1 where new documents are counted and the known ones are not.
    pub least: u8,
}

/// Which tokens of a document are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tokens {
    /// Those of its prefix.
    OfPrefix,
    /// All that are in the prefix of some document, as far as counters tell.
    OfPrefixes,
}

/// The counters that the tasks of a process share.
type Shared = OnceCell<Result<Arc<Held>, Arc<DataFusionError>>>;

/// Counters, and the memory that is reserved for them.
#[derive(Debug)]
pub(crate) struct Held {
    counts: Counts,
    /// Those of the tokens of all prefixes, where they are asked for.
    of_prefixes: Option<Counts>,
    _held: MemoryReservation,
}

impl Prefixes {
    async fn held(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        of_prefixes: Option<Arc<dyn ExecutionPlan>>,
        context: Arc<TaskContext>,
    ) -> Result<Arc<Held>> {
        let held = MemoryConsumer::new("Prefixes").register(context.memory_pool());
        held.try_grow((1 + usize::from(of_prefixes.is_some())) << self.bits)?;
        let counts = Counts::read(self.bits, plan, &context).await?;
        let of_prefixes = match of_prefixes {
            Some(plan) => Some(Counts::read(self.bits, plan, &context).await?),
            None => None,
        };
        Ok(Arc::new(Held { counts, of_prefixes, _held: held }))
    }

    /// Tokens in the prefix of a set of `len`.
    fn length(&self, len: usize) -> usize {
        len - least_contained(len as u64, self.threshold) as usize + usize::from(len > 0)
    }
}

impl fmt::Display for Prefixes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measure = match self.tokens {
            Tokens::OfPrefix => "jaccard",
            Tokens::OfPrefixes => "tokens of all prefixes, containment",
        };
        write!(f, "{measure} >= {}, 2^{} counters", self.threshold, self.bits)
    }
}

impl Description for Prefixes {
    const NAME: &'static str = "PrefixesExec";

    type Shared = Shared;

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        // The documents come last: their partitions are those of the plan.
        let counters = match self.tokens {
            Tokens::OfPrefix => 1,
            Tokens::OfPrefixes => 2,
        };
        let mut requirements: Vec<_> = (0..counters).map(|_| Requirement::single_partition()).collect();
        requirements.push(Requirement::none());
        Shape::over(inputs, schema(), requirements)
    }

    fn start(self: Arc<Self>, task: Task<'_, Shared>) -> Result<Batches> {
        let (counters, of_prefixes) = match (task.inputs, self.tokens) {
            ([counters, _], Tokens::OfPrefix) => (Arc::clone(counters), None),
            ([counters, of_prefixes, _], Tokens::OfPrefixes) => {
                (Arc::clone(counters), Some(Arc::clone(of_prefixes)))
            }
            (inputs, _) => return internal_err!("prefixes have not {} inputs", inputs.len()),
        };
        let documents = task.rows_of(task.inputs.len() - 1)?;
        let (shared, context) = (Arc::clone(task.shared), task.context);
        let batches = futures::stream::once(async move {
            let read = async || self.held(counters, of_prefixes, context).await.map_err(Arc::new);
            let held = shared.get_or_init(read).await.clone().map_err(DataFusionError::Shared)?;
            let mut room = Vec::new();
            let prefixes = documents.map(move |batch| self.tokens_of(&batch?, &held, &mut room));
            Ok::<_, DataFusionError>(prefixes)
        });
        Ok(batches.try_flatten().boxed())
    }
}

impl Prefixes {
    fn tokens_of(&self, batch: &RecordBatch, held: &Held, room: &mut Vec<(u8, u64)>) -> Result<RecordBatch> {
        let (mut tokens, mut docs) = (UInt64Builder::new(), UInt64Builder::new());
        let (mut sizes, mut positions) = (UInt32Builder::new(), UInt32Builder::new());
        let keys = as_uint64_array(batch.column(0))?;
        for (&doc, set) in keys.values().iter().zip(batch.column(1).as_list::<i32>().iter()) {
            let Some(set) = set else { continue };
            let set = set.as_primitive::<UInt64Type>().values();
            // Lists of Arrow have fewer than 2^31 elements.
            let size = set.len() as u32;
            let length = match self.tokens {
                Tokens::OfPrefix => self.length(set.len()),
                Tokens::OfPrefixes => set.len(),
            };
            for (position, &(count, token)) in (0..).zip(first(set, &held.counts, length, room)) {
                let in_a_prefix = held.of_prefixes.as_ref().is_none_or(|counts| counts.of(token) > 0);
                if count >= self.least && in_a_prefix {
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
}

/// The first `length` tokens of `set` in the order of (counter, token), each with its counter.
fn first<'a>(set: &[u64], counts: &Counts, length: usize, room: &'a mut Vec<(u8, u64)>) -> &'a [(u8, u64)] {
    room.clear();
    room.extend(set.iter().map(|&token| (counts.of(token), token)));
    if length < room.len() {
        room.select_nth_unstable(length);
        room.truncate(length);
    }
    room.sort_unstable();
    room
}
