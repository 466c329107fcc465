//! Filters for documents and shingles, with state that all partitions share.

use std::collections::HashSet;
use std::fmt;
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, ListArray, RecordBatch, UInt64Array};
use arrow::buffer::{BooleanBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Schema, SchemaRef, UInt64Type};
use datafusion::common::cast::{as_list_array, as_uint64_array};
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use serde::{Deserialize, Serialize};

use super::bucket_groups::spread;
use super::prefixes::{CountedTokens, Counters};
use super::sketches::KeyHasher;
use super::with_flag;
use crate::kernel::measure::least_contained;
use crate::plan::{Batches, Description, Shape, SharedValue, Task, only_input};

/// Marks reference documents that may match new documents. The inputs are counters (at, counts) for each rule, in the order of the rules,
/// and documents (.., tokens: `List<UInt64>`). The output contains all documents with all columns and a last column `may_match: Boolean`.
///
/// The counters count the tokens of new documents (see [`super::prefixes`]), and each reference document looks up its own tokens. Tokens
/// share counters, so some documents may be marked by chance, but no matching document is missed. Each counter input has one partition,
/// which is read completely before the first document. The documents keep their partitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct MayMatch {
    /// The number of counters of each rule is `2^bits`.
    pub bits: u32,
    /// The number of counters per token: see [`super::prefixes::TokenCounts::probes`].
    pub probes: u32,
    /// The rules. There is at least one rule.
    pub rules: Vec<MatchRule>,
}

/// A rule that marks a document if enough of its tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum MatchRule {
    /// At least one token is counted.
    Any,
    /// At least this share of the tokens is counted. A set whose Jaccard similarity to another set is t has at least the share t of its
    /// tokens in common with that set.
    Share(f64),
}

impl MayMatch {
    fn mark(&self, batch: &RecordBatch, counted: &[CountedTokens]) -> Result<RecordBatch> {
        let Some(tokens) = batch.columns().last() else { return internal_err!("documents have tokens") };
        let tokens = tokens.as_list::<i32>();
        let (ends, values) = (tokens.offsets(), tokens.values().as_primitive::<UInt64Type>().values());
        let may_match = BooleanBuffer::collect_bool(tokens.len(), |row| {
            let end = if tokens.is_valid(row) { ends[row + 1] } else { ends[row] };
            let set = &values[ends[row] as usize..end as usize];
            let mut rules = self.rules.iter().zip(counted);
            rules.any(|(rule, counted)| rule.matches(set, counted, self.probes))
        });
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(BooleanArray::new(may_match, None)));
        Ok(RecordBatch::try_new(may_match_schema(&batch.schema()), columns)?)
    }
}

pub(super) fn may_match_schema(documents: &Schema) -> SchemaRef {
    with_flag(documents, "may_match")
}

impl MatchRule {
    fn matches(self, tokens: &[u64], counted: &CountedTokens, probes: u32) -> bool {
        let mut counted = tokens.iter().filter(|&&token| counted.has(token, probes));
        match self {
            MatchRule::Any => counted.next().is_some(),
            MatchRule::Share(share) => {
                let least = least_contained(tokens.len() as u64, share);
                // An empty set matches every empty set.
                least == 0 || counted.nth(least as usize - 1).is_some()
            }
        }
    }
}

impl Description for MayMatch {
    const NAME: &'static str = "MayMatchExec";

    type Shared = SharedValue<Vec<CountedTokens>>;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in &self.rules {
            match rule {
                MatchRule::Any => write!(f, "one token, ")?,
                MatchRule::Share(share) => write!(f, "{share} of the tokens, ")?,
            }
        }
        write!(f, "2^{} counters", self.bits)
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        match inputs {
            [counters @ .., documents] if counters.len() == self.rules.len() => {
                Shape::beside_whole_inputs(inputs, may_match_schema(&documents.schema()))
            }
            _ => internal_err!("{} rules have not {} inputs", self.rules.len(), inputs.len()),
        }
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let counters = task.whole_inputs();
        let documents = task.rows_of(counters.len())?;
        let (bits, context) = (self.bits, Arc::clone(&task.context));
        let counted = Counters::read_all(bits, counters, "MayMatch", context);
        let mark = move |counted: &Vec<CountedTokens>, batch| self.mark(&batch, counted);
        Ok(task.map_with_shared(documents, counted, mark))
    }
}

/// Passes on rows (key: UInt64, ..) whose key may occur in another row. Most lines and runs of words occur once and need not be shuffled to
/// be counted. The engine for one machine replaces this node by a filter (`engine::exchange`). If tasks share no memory, all rows pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MayRepeat;

impl Description for MayRepeat {
    const NAME: &'static str = "MayRepeatExec";

    type Shared = ();

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let rows = only_input(Self::NAME, inputs)?;
        Ok(Shape::in_partitions_of(rows, rows.schema()))
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        Ok(task.rows_of(0)?.boxed())
    }
}

/// Removes frequent shingles from sets. The inputs are frequent shingles (shingle: UInt64) and documents (.., shingles: `List<UInt64>`).
/// The output contains the same documents with the remaining shingles. A set that contains only frequent shingles becomes empty. The
/// frequent shingles have one partition, which is read before the first document. The documents keep their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WithoutFrequent;

#[derive(Debug)]
pub(crate) struct Frequent {
    shingles: HashSet<u64, BuildHasherDefault<KeyHasher>>,
    held: MemoryReservation,
}

/// The bytes per entry. The hash table at most doubles while it grows.
const BYTES_OF_ENTRY: usize = 36;

impl Frequent {
    async fn read(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Self> {
        let held = MemoryConsumer::new("WithoutFrequent").register(context.memory_pool());
        let mut frequent = Self { shingles: HashSet::default(), held };
        let mut rows = plan.execute(0, context)?;
        while let Some(batch) = rows.next().await.transpose()? {
            frequent.held.try_grow(BYTES_OF_ENTRY * batch.num_rows())?;
            let shingles = as_uint64_array(batch.column(0))?.values();
            frequent.shingles.extend(shingles.iter().map(|&shingle| spread(shingle)));
        }
        Ok(frequent)
    }

    fn remove_from(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        let Some(lists) = columns.pop() else { return internal_err!("documents have shingles") };
        let lists = as_list_array(&lists)?;
        let (offsets, values) = (lists.value_offsets(), as_uint64_array(lists.values())?.values());
        let (mut lengths, mut rest) =
            (Vec::with_capacity(lists.len()), Vec::<u64>::with_capacity(values.len()));
        for row in 0..lists.len() {
            let before = rest.len();
            if lists.is_valid(row) {
                // The offsets of Arrow lists are ascending and not negative.
                let set = &values[offsets[row] as usize..offsets[row + 1] as usize];
                rest.extend(set.iter().filter(|shingle| !self.shingles.contains(&spread(**shingle))));
            }
            lengths.push(rest.len() - before);
        }
        let DataType::List(item) = lists.data_type() else { return internal_err!("shingles are a list") };
        let (lengths, rest) = (OffsetBuffer::from_lengths(lengths), UInt64Array::from(rest));
        let lists = ListArray::try_new(Arc::clone(item), lengths, Arc::new(rest), lists.nulls().cloned())?;
        columns.push(Arc::new(lists));
        Ok(RecordBatch::try_new(batch.schema(), columns)?)
    }
}

impl Description for WithoutFrequent {
    const NAME: &'static str = "WithoutFrequentExec";

    type Shared = SharedValue<Frequent>;

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let [_, documents] = inputs else {
            return internal_err!("frequent shingles are removed from documents");
        };
        Ok(Shape::beside_whole_inputs(inputs, documents.schema())?.row_by_row())
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let [frequent, _] = task.inputs else {
            return internal_err!("frequent shingles are removed from documents");
        };
        let frequent = Frequent::read(Arc::clone(frequent), Arc::clone(&task.context));
        let documents = task.rows_of(1)?;
        Ok(task.map_with_shared(documents, frequent, |frequent, batch| frequent.remove_from(&batch)))
    }
}
