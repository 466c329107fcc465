//! Prefix filters: approximate counts of tokens, and the rarest tokens of each document.
//!
//! The counter of a token is at least the number of documents with the token, up to 255. Many tokens share a counter, so the memory is
//! fixed in advance. This is a count-min sketch with one row (Cormode and Muthukrishnan, *An improved data stream summary: the count-min
//! sketch and its applications*, Journal of Algorithms 55, 2005). Counters decide the order of tokens, and any order gives correct pairs. A
//! token with a counter of 1 is in one document.
//!
//! The prefix of a document consists of its rarest tokens, and every similar document contains one of them. The tokens of all documents are
//! sorted in the same order. If two sets x and y have o common tokens, one of these tokens is among the first `|x| - o + 1` of x and the
//! first `|y| - o + 1` of y (Chaudhuri, Ganti and Kaushik, *A primitive operator for similarity joins in data cleaning*, ICDE 2006). The
//! order is (counter, token), rarest first, so that few documents share a token of a prefix. A token that is in only one document has a
//! position in the order, but is omitted from the prefixes. A run against reference documents counts only new documents, and omits tokens
//! that no new document contains.
//!
//! If another set contains o of the tokens of x, one of these tokens is among the first |x| - o + 1 of x. This token can be at any position
//! in the other set. For containment, prefixes are therefore joined with all tokens that occur in some prefix.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryBuilder, RecordBatch, UInt32Builder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::cast::{as_binary_array, as_uint64_array};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use crate::kernel::measure::least_contained;
use crate::plan::{Batches, Description, Requirement, Shape, SharedValue, Task};

/// The columns (at, counts): one-byte counters, starting at counter `at`. The counters of overlapping rows are added.
pub(crate) fn counter_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::UInt64, false),
        Field::new("counts", DataType::Binary, false),
    ]))
}

/// The columns (token, doc, size, position): a token in a document's prefix. `size` is the number of the document's tokens, and `position`
/// is the number of its tokens that precede this token.
pub(crate) fn prefix_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("token", DataType::UInt64, false),
        Field::new("doc", DataType::UInt64, false),
        Field::new("size", DataType::UInt32, false),
        Field::new("position", DataType::UInt32, false),
    ]))
}

/// Counters in memory; their number is a power of two.
#[derive(Debug)]
pub(crate) struct Counters {
    bits: u32,
    counts: Vec<u8>,
    held: MemoryReservation,
}

impl Counters {
    /// Returns `2^bits` counters at 0, reserved in the memory pool as `consumer`. `bits` is from 1 to 63.
    fn try_new(bits: u32, consumer: &str, context: &TaskContext) -> Result<Self> {
        let held = MemoryConsumer::new(consumer).register(context.memory_pool());
        held.try_grow(1 << bits)?;
        Ok(Self { bits, counts: vec![0; 1 << bits], held })
    }

    fn add(&mut self, token: u64, probes: u32) {
        for probe in 0..probes {
            let count = &mut self.counts[counter_index(probe_key(token, probe), self.bits)];
            *count = count.saturating_add(1);
        }
    }

    fn count(&self, token: u64) -> u8 {
        self.counts[counter_index(token, self.bits)]
    }

    /// Reads the counters from each plan in `plans`, and converts them before it reads the next plan. Each plan has one partition with the
    /// columns of [`counter_schema`].
    pub(super) async fn read_all<T: From<Self>>(
        bits: u32,
        plans: Vec<Arc<dyn ExecutionPlan>>,
        consumer: &str,
        context: Arc<TaskContext>,
    ) -> Result<Vec<T>> {
        let mut all = Vec::with_capacity(plans.len());
        for plan in plans {
            let mut counters = Self::try_new(bits, consumer, &context)?;
            let mut rows = plan.execute(0, Arc::clone(&context))?;
            while let Some(batch) = rows.next().await.transpose()? {
                counters.merge(&batch)?;
            }
            all.push(T::from(counters));
        }
        Ok(all)
    }

    /// Adds the counters of a batch with the columns of [`counter_schema`].
    fn merge(&mut self, batch: &RecordBatch) -> Result<()> {
        let (starts, counts) = (as_uint64_array(batch.column(0))?, as_binary_array(batch.column(1))?);
        for (&start, more) in starts.values().iter().zip(counts.iter().flatten()) {
            let start = start as usize;
            let Some(counts) = self.counts.get_mut(start..start + more.len()) else {
                return internal_err!("there is no counter {start} among 2^{}", self.bits);
            };
            counts.iter_mut().zip(more).for_each(|(count, more)| *count = count.saturating_add(*more));
        }
        Ok(())
    }

    /// Returns batches with the columns of [`counter_schema`], without rows of zeros.
    fn batches(&self) -> Vec<Result<RecordBatch>> {
        let rows = self.counts.chunks(ROW).enumerate().filter(|(_, row)| row.iter().any(|&count| count > 0));
        let rows: Vec<_> = rows.map(|(at, row)| ((at * ROW) as u64, row)).collect();
        let batches = rows.chunks(ROWS).map(|rows| {
            let (mut starts, mut counts) = (UInt64Builder::new(), BinaryBuilder::new());
            for (start, row) in rows {
                starts.append_value(*start);
                counts.append_value(row);
            }
            let columns: Vec<ArrayRef> = vec![Arc::new(starts.finish()), Arc::new(counts.finish())];
            Ok(RecordBatch::try_new(counter_schema(), columns)?)
        });
        batches.collect()
    }
}

/// The tokens that were counted: one bit for each counter, so that they fit in the processor's cache.
#[derive(Debug)]
pub(crate) struct CountedTokens {
    bits: u32,
    counted: Vec<u64>,
    _held: MemoryReservation,
}

impl From<Counters> for CountedTokens {
    fn from(Counters { bits, counts, held }: Counters) -> Self {
        let counted = counts.chunks(u64::BITS as usize).map(|counts| {
            counts.iter().enumerate().fold(0, |word, (at, &count)| word | u64::from(count > 0) << at)
        });
        let counted: Vec<u64> = counted.collect();
        held.resize(counted.len() * size_of::<u64>());
        Self { bits, counted, _held: held }
    }
}

impl CountedTokens {
    /// Whether the token was counted in all of its `probes` counters.
    pub(super) fn has(&self, token: u64, probes: u32) -> bool {
        (0..probes).all(|probe| {
            let at = counter_index(probe_key(token, probe), self.bits);
            self.counted[at / u64::BITS as usize] >> (at % u64::BITS as usize) & 1 == 1
        })
    }
}

/// Returns the index of a token's counter among `2^bits` counters. Tokens can be hashes or consecutive numbers; the product spreads both
/// (Knuth, *The Art of Computer Programming* 3, section 6.4).
fn counter_index(token: u64, bits: u32) -> usize {
    (token.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
}

/// Returns the key that selects one of a token's counters. The first key of a token is the token itself.
fn probe_key(token: u64, probe: u32) -> u64 {
    token.rotate_left(21 * probe)
}

/// The number of counters in a row.
const ROW: usize = 1 << 16;
/// The number of rows in a batch.
const ROWS: usize = 16;

/// Counts the tokens in a partition: (tokens: `List<UInt64>`) -> the columns of [`counter_schema`]. No list contains a token twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenCounts {
    /// The number of counters is `2^bits`.
    pub bits: u32,
    /// The number of counters per token, up to 3. More counters make it less likely that a token counts as present by mistake, as in a
    /// Bloom filter (Bloom, *Space/time trade-offs in hash coding with allowable errors*, Communications of the ACM 13, 1970).
    pub probes: u32,
}

impl Description for TokenCounts {
    const NAME: &'static str = "TokenCountsExec";

    type Shared = ();

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.probes {
            1 => write!(f, "2^{} counters", self.bits),
            probes => write!(f, "2^{} counters, {probes} for each token", self.bits),
        }
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        Shape::over(inputs, counter_schema(), vec![Requirement::none()])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let mut input = task.rows_of(0)?;
        let batches = stream::once(async move {
            let mut counters = Counters::try_new(self.bits, "TokenCounts", &task.context)?;
            while let Some(batch) = input.next().await.transpose()? {
                // The iterator skips null lists and values outside of the slice.
                for tokens in batch.column(0).as_list::<i32>().iter().flatten() {
                    let tokens = tokens.as_primitive::<UInt64Type>().values();
                    tokens.iter().for_each(|&token| counters.add(token, self.probes));
                }
            }
            Ok::<_, DataFusionError>(stream::iter(counters.batches()))
        });
        Ok(batches.try_flatten().boxed())
    }
}

/// Finds prefixes. The inputs are counters (at, counts) and documents (doc: UInt64, tokens: `List<UInt64>`), and the output has the columns
/// of [`prefix_schema`]. With [`Tokens::OfPrefixes`], the second of three inputs contains the counters of the tokens in all prefixes. The
/// counters have one partition, which is read before the first document. The documents keep their partitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Prefixes {
    pub bits: u32,
    /// The minimum Jaccard similarity or the minimum containment. Both measures give the same prefixes.
    pub threshold: f64,
    pub tokens: Tokens,
    /// The minimum counter of a token: 2 if all documents are counted, 1 if only new documents are counted. Tokens with a lower counter are
    /// omitted, because no document to compare contains them.
    pub least: u8,
}

/// The tokens of a document to return.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Tokens {
    /// The tokens of its prefix.
    OfPrefix,
    /// All tokens of the document that, according to the counters, occur in the prefix of some document.
    OfPrefixes,
}

impl Description for Prefixes {
    const NAME: &'static str = "PrefixesExec";

    type Shared = SharedValue<Vec<Counters>>;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measure = match self.tokens {
            Tokens::OfPrefix => "jaccard",
            Tokens::OfPrefixes => "tokens of all prefixes, containment",
        };
        write!(f, "{measure} >= {}, 2^{} counters", self.threshold, self.bits)
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        Shape::beside_whole_inputs(inputs, prefix_schema())
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let counters = task.whole_inputs();
        let documents = task.rows_of(counters.len())?;
        let (bits, mut room) = (self.bits, Vec::new());
        let counters = Counters::read_all(bits, counters, "Prefixes", Arc::clone(&task.context));
        let prefixes = move |counters: &Vec<Counters>, batch| self.prefixes(&batch, counters, &mut room);
        Ok(task.map_with_shared(documents, counters, prefixes))
    }
}

impl Prefixes {
    /// Returns the number of tokens in the prefix of a set with `len` tokens.
    fn length(&self, len: usize) -> usize {
        len - least_contained(len as u64, self.threshold) as usize + usize::from(len > 0)
    }

    fn prefixes(
        &self,
        batch: &RecordBatch,
        counters: &[Counters],
        room: &mut Vec<(u8, u64)>,
    ) -> Result<RecordBatch> {
        let (mut tokens, mut docs) = (UInt64Builder::new(), UInt64Builder::new());
        let (mut sizes, mut positions) = (UInt32Builder::new(), UInt32Builder::new());
        let keys = as_uint64_array(batch.column(0))?;
        let [counts, in_prefixes @ ..] = counters else {
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
            for (position, &(count, token)) in (0..).zip(rarest(set, counts, length, room)) {
                let in_a_prefix = in_prefixes.iter().all(|counts| counts.count(token) > 0);
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
        Ok(RecordBatch::try_new(prefix_schema(), columns)?)
    }
}

/// Returns the first `length` tokens of `set` in the order of (counter, token), each with its counter.
fn rarest<'a>(
    set: &[u64],
    counts: &Counters,
    length: usize,
    room: &'a mut Vec<(u8, u64)>,
) -> &'a [(u8, u64)] {
    room.clear();
    room.extend(set.iter().map(|&token| (counts.count(token), token)));
    if length < room.len() {
        room.select_nth_unstable(length);
        room.truncate(length);
    }
    room.sort_unstable();
    room
}
