//! The prefix of each document: its rarest tokens; every similar document must have one of them.
//!
//! Sort the tokens of all documents in the same order. Two sets x and y with o common tokens have one in common among the first
//! |x| - o + 1 of x and the first |y| - o + 1 of y (Chaudhuri, Ganti and Kaushik, *A primitive operator for similarity joins in
//! data cleaning*, ICDE 2006). The order is (counter, token) with the counters of [`super::token_counts`], rarest first, so that
//! few documents share a token of a prefix. A token of a single document keeps its place in the order and is left out.
//! In a run against reference documents only new documents are counted, and tokens that no new document has are left
//! out.
//!
//! If another set contains o of the tokens of x, one of them is among the first |x| - o + 1 of x, but the other set may have it
//! anywhere. So for containment, prefixes are joined with all tokens that are in some prefix.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Builder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::token_counts::{Counters, HeldCounters};
use crate::kernel::jaccard::least_contained;
use crate::plan::{Batches, Description, Requirement, Shape, SharedValue, Task};

/// The columns (token, doc, size, position): a token of a document's prefix, the number of the document's tokens, and
/// the number of those before this one.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("token", DataType::UInt64, false),
        Field::new("doc", DataType::UInt64, false),
        Field::new("size", DataType::UInt32, false),
        Field::new("position", DataType::UInt32, false),
    ]))
}

/// Counters (at, counts) and documents (doc: UInt64, tokens: `List<UInt64>`) -> the columns of [`schema`]. For
/// [`Tokens::OfPrefixes`] the counters of all prefixes' tokens are the second input.
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
    /// Tokens with a lower counter are left out, since no document to compare has them: 2 if all documents are counted,
    /// 1 if only new ones are.
    pub least: u8,
}

/// Which tokens of a document are given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tokens {
    /// The tokens of its prefix.
    OfPrefix,
    /// All that are in the prefix of some document, by the counters.
    OfPrefixes,
}

impl Prefixes {
    /// Tokens in the prefix of a set of `len`.
    fn length(&self, len: usize) -> usize {
        len - least_contained(len as u64, self.threshold) as usize + usize::from(len > 0)
    }
}

impl Description for Prefixes {
    const NAME: &'static str = "PrefixesExec";

    type Shared = SharedValue<HeldCounters<Counters>>;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measure = match self.tokens {
            Tokens::OfPrefix => "jaccard",
            Tokens::OfPrefixes => "tokens of all prefixes, containment",
        };
        write!(f, "{measure} >= {}, 2^{} counters", self.threshold, self.bits)
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        // The documents come last: the output has their partitions.
        let counters = match self.tokens {
            Tokens::OfPrefix => 1,
            Tokens::OfPrefixes => 2,
        };
        let mut requirements: Vec<_> = (0..counters).map(|_| Requirement::single_partition()).collect();
        requirements.push(Requirement::none());
        Shape::over(inputs, schema(), requirements)
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let Some((_, counters)) = task.inputs.split_last() else {
            return internal_err!("prefixes have no inputs");
        };
        let documents = task.rows_of(counters.len())?;
        let (counters, shared) = (counters.to_vec(), Arc::clone(task.shared));
        let batches = futures::stream::once(async move {
            let held = shared.get(HeldCounters::read("Prefixes", self.bits, counters, task.context)).await?;
            let mut room = Vec::new();
            let prefixes = documents.map(move |batch| self.tokens_of(&batch?, &held, &mut room));
            Ok::<_, DataFusionError>(prefixes)
        });
        Ok(batches.try_flatten().boxed())
    }
}

impl Prefixes {
    fn tokens_of(
        &self,
        batch: &RecordBatch,
        held: &HeldCounters<Counters>,
        room: &mut Vec<(u8, u64)>,
    ) -> Result<RecordBatch> {
        let (mut tokens, mut docs) = (UInt64Builder::new(), UInt64Builder::new());
        let (mut sizes, mut positions) = (UInt32Builder::new(), UInt32Builder::new());
        let keys = as_uint64_array(batch.column(0))?;
        let [counts, of_prefixes @ ..] = &held.of_plans[..] else {
            return internal_err!("prefixes have no counters");
        };
        for (&doc, set) in keys.values().iter().zip(batch.column(1).as_list::<i32>().iter()) {
            let Some(set) = set else { continue };
            let set = set.as_primitive::<UInt64Type>().values();
            // Arrow lists have fewer than 2^31 elements.
            let size = set.len() as u32;
            let length = match self.tokens {
                Tokens::OfPrefix => self.length(set.len()),
                Tokens::OfPrefixes => set.len(),
            };
            for (position, &(count, token)) in (0..).zip(first(set, counts, length, room)) {
                let in_a_prefix = of_prefixes.iter().all(|counts| counts.of(token) > 0);
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
fn first<'a>(set: &[u64], counts: &Counters, length: usize, room: &'a mut Vec<(u8, u64)>) -> &'a [(u8, u64)] {
    room.clear();
    room.extend(set.iter().map(|&token| (counts.of(token), token)));
    if length < room.len() {
        room.select_nth_unstable(length);
        room.truncate(length);
    }
    room.sort_unstable();
    room
}
