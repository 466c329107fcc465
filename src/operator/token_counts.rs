//! Approximate counts of tokens: many tokens share a counter, and the memory is fixed in advance.
//!
//! A counter is at least the number of documents with the token, up to 255. This is a count-min sketch of one row (Cormode and
//! Muthukrishnan, *An improved data stream summary: the count-min sketch and its applications*, Journal of Algorithms 55, 2005).
//! Counters decide the order of tokens, for which any order is correct, and a token whose counter is 1 is in one document.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryBuilder, RecordBatch, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::common::cast::{as_binary_array, as_uint64_array};
use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};

use serde::{Deserialize, Serialize};

use crate::plan::{Batches, Description, Requirement, Shape, Task};

/// The columns (at, counts): counters of one byte each, from counter `at` on. Rows that overlap are added up.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::UInt64, false),
        Field::new("counts", DataType::Binary, false),
    ]))
}

/// Counters; their number is a power of two.
#[derive(Debug)]
pub(crate) struct Counters {
    bits: u32,
    counts: Vec<u8>,
}

impl Counters {
    /// `2^bits` counters at 0; bits from 1 to 63.
    pub(super) fn new(bits: u32) -> Self {
        Self { bits, counts: vec![0; 1 << bits] }
    }

    fn at(&self, token: u64) -> usize {
        place(token, self.bits)
    }

    fn add(&mut self, token: u64, probes: u32) {
        for probe in 0..probes {
            let at = self.at(probed(token, probe));
            self.counts[at] = self.counts[at].saturating_add(1);
        }
    }

    /// The token's counter.
    pub(super) fn of(&self, token: u64) -> u8 {
        self.counts[self.at(token)]
    }

    /// Reads the counters of a plan of one partition with the columns of [`schema`].
    pub(super) async fn read(
        bits: u32,
        plan: Arc<dyn ExecutionPlan>,
        context: &Arc<TaskContext>,
    ) -> Result<Self> {
        let mut counts = Self::new(bits);
        let mut rows = plan.execute(0, Arc::clone(context))?;
        while let Some(batch) = rows.next().await.transpose()? {
            counts.merge(&batch)?;
        }
        Ok(counts)
    }

    /// Adds the counters of a batch with the columns of [`schema`].
    pub(super) fn merge(&mut self, batch: &RecordBatch) -> Result<()> {
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

    /// Batches with the columns of [`schema`], without rows of zeros.
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
            Ok(RecordBatch::try_new(schema(), columns)?)
        });
        batches.collect()
    }
}

/// What is looked up in the counters of several plans, and the memory that is reserved for it.
#[derive(Debug)]
pub(crate) struct HeldCounters<T> {
    pub(super) of_plans: Vec<T>,
    _held: MemoryReservation,
}

/// What is kept of counters.
pub(crate) trait OfCounters {
    /// Takes it from all counters of a plan.
    fn of(counts: Counters) -> Self;

    /// Bytes that it takes.
    fn bytes(&self) -> usize;
}

impl<T: OfCounters> HeldCounters<T> {
    /// Reads `2^bits` counters of each plan, and reserves them in the memory pool as `consumer`.
    pub(super) async fn read(
        consumer: &str,
        bits: u32,
        plans: Vec<Arc<dyn ExecutionPlan>>,
        context: Arc<TaskContext>,
    ) -> Result<Self> {
        let held = MemoryConsumer::new(consumer).register(context.memory_pool());
        let mut of_plans: Vec<T> = Vec::with_capacity(plans.len());
        for plan in plans {
            held.try_grow(1 << bits)?;
            of_plans.push(T::of(Counters::read(bits, plan, &context).await?));
            held.resize(of_plans.iter().map(T::bytes).sum());
        }
        Ok(Self { of_plans, _held: held })
    }
}

impl OfCounters for Counters {
    fn of(counts: Counters) -> Self {
        counts
    }

    fn bytes(&self) -> usize {
        self.counts.len()
    }
}

/// The tokens that were counted: one bit for each counter, so that the processor's cache holds them.
#[derive(Debug)]
pub(crate) struct CountedTokens {
    bits: u32,
    counted: Vec<u64>,
}

impl OfCounters for CountedTokens {
    fn of(counts: Counters) -> Self {
        let counted = counts.counts.chunks(u64::BITS as usize).map(|counts| {
            counts.iter().enumerate().fold(0, |word, (at, &count)| word | u64::from(count > 0) << at)
        });
        Self { bits: counts.bits, counted: counted.collect() }
    }

    fn bytes(&self) -> usize {
        self.counted.len() * size_of::<u64>()
    }
}

impl CountedTokens {
    /// Whether the token was counted, by `probes` counters of its own.
    pub(super) fn has(&self, token: u64, probes: u32) -> bool {
        (0..probes).all(|probe| {
            let at = place(probed(token, probe), self.bits);
            self.counted[at / u64::BITS as usize] >> (at % u64::BITS as usize) & 1 == 1
        })
    }
}

/// The place of a token's counter among `2^bits`. Tokens may be hashes or running numbers; the product spreads both (Knuth, *The
/// Art of Computer Programming* 3, section 6.4).
fn place(token: u64, bits: u32) -> usize {
    (token.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize
}

/// The key of a token at one of its counters. The first one is the token itself.
fn probed(token: u64, probe: u32) -> u64 {
    token.rotate_left(21 * probe)
}

/// Counters in a row, and below, rows in a batch.
const ROW: usize = 1 << 16;
const ROWS: usize = 16;

/// (tokens: `List<UInt64>`, without repeats) -> the columns of [`schema`], counted over a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenCounts {
    /// The counters are `2^bits`.
    pub bits: u32,
    /// Counters of each token, up to 3. More counters make it unlikely that a token counts as present by mistake: a Bloom filter
    /// (Bloom, *Space/time trade-offs in hash coding with allowable errors*, Communications of the ACM 13, 1970).
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
        Shape::over(inputs, schema(), vec![Requirement::none()])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let held = MemoryConsumer::new("TokenCounts").register(task.context.memory_pool());
        let mut input = task.rows_of(0)?;
        let batches = futures::stream::once(async move {
            held.try_grow(1 << self.bits)?;
            let mut counts = Counters::new(self.bits);
            while let Some(batch) = input.next().await.transpose()? {
                // Without null lists and values outside of the slice.
                for tokens in batch.column(0).as_list::<i32>().iter().flatten() {
                    tokens
                        .as_primitive::<UInt64Type>()
                        .values()
                        .iter()
                        .for_each(|&token| counts.add(token, self.probes));
                }
            }
            Ok::<_, datafusion::common::DataFusionError>(futures::stream::iter(counts.batches()))
        });
        Ok(batches.try_flatten().boxed())
    }
}
