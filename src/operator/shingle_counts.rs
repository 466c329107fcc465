//! Counts of shingles that are never too small: many shingles share a counter, and the memory is fixed in advance.
//!
//! This is a count-min sketch of one row (Cormode and Muthukrishnan, *An improved data stream summary: the count-min sketch and
//! its applications*, Journal of Algorithms 55, 2005). The counters of [`super::token_counts`] end at 255, and these at 2^32 - 1,
//! since a shingle may be frequent only if millions of documents have it.

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, BinaryBuilder, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_binary_array, as_list_array, as_uint64_array};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use crate::plan::{Batches, Description, Requirement, Shape, Task};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("at", DataType::UInt64, false),
        Field::new("counts", DataType::Binary, false),
        Field::new("documents", DataType::UInt64, false),
    ]))
});

/// The columns (at, counts, documents): counters of 4 bytes each, little endian, from counter `at` on, and in one row of each
/// partition the number of its sets that are not empty. Rows that overlap are added up.
pub(crate) fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// The sets of a batch whose last column is `shingles: List<UInt64>`: the number of the row, and the shingles; null and empty
/// sets are left out.
pub(super) fn sets(batch: &RecordBatch) -> Result<impl Iterator<Item = (usize, &[u64])>> {
    let Some(lists) = batch.columns().last() else { return internal_err!("documents have shingles") };
    let lists = as_list_array(lists)?;
    let (offsets, values) = (lists.value_offsets(), as_uint64_array(lists.values())?.values());
    let rows = (0..lists.len()).filter(|&row| lists.is_valid(row));
    // The offsets of Arrow lists are ascending and not negative.
    let sets = rows.map(|row| (row, &values[offsets[row] as usize..offsets[row + 1] as usize]));
    Ok(sets.filter(|(_, set)| !set.is_empty()))
}

/// Counters; their number is a power of two.
#[derive(Debug)]
pub(crate) struct FixedCounters {
    bits: u32,
    counts: Vec<u32>,
    documents: u64,
    _held: MemoryReservation,
}

impl FixedCounters {
    /// `2^bits` counters at 0, reserved in the memory pool as `consumer`; bits from 1 to 63.
    fn new(consumer: &str, bits: u32, context: &TaskContext) -> Result<Self> {
        let held = MemoryConsumer::new(consumer).register(context.memory_pool());
        held.try_grow(size_of::<u32>() << bits)?;
        Ok(Self { bits, counts: vec![0; 1 << bits], documents: 0, _held: held })
    }

    /// The place of the counter of a shingle in a group. The product spreads the numbers of short hashes too (Knuth, *The Art of
    /// Computer Programming* 3, section 6.4).
    fn at(&self, group: u64, shingle: u64) -> usize {
        let key = shingle ^ group.rotate_left(32);
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - self.bits)) as usize
    }

    /// The counter of a shingle in a group: at least the number of the group's documents that have it.
    pub(super) fn of(&self, group: u64, shingle: u64) -> u32 {
        self.counts[self.at(group, shingle)]
    }

    /// Counts the sets of (group_key: UInt64, .., shingles: `List<UInt64>`).
    fn count(&mut self, batch: &RecordBatch) -> Result<()> {
        let groups = as_uint64_array(batch.column(0))?.values();
        for (row, set) in sets(batch)? {
            self.documents += 1;
            for &shingle in set {
                let at = self.at(groups[row], shingle);
                self.counts[at] = self.counts[at].saturating_add(1);
            }
        }
        Ok(())
    }

    /// Reads the counters of a plan of one partition with the columns of [`schema`], and reserves them in the memory pool as
    /// `consumer`.
    pub(super) async fn read(
        consumer: &str,
        bits: u32,
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> Result<Self> {
        let mut counters = Self::new(consumer, bits, &context)?;
        let mut rows = plan.execute(0, context)?;
        while let Some(batch) = rows.next().await.transpose()? {
            counters.merge(&batch)?;
        }
        Ok(counters)
    }

    /// Adds the counters of a batch with the columns of [`schema`].
    fn merge(&mut self, batch: &RecordBatch) -> Result<()> {
        let (starts, rows) = (as_uint64_array(batch.column(0))?, as_binary_array(batch.column(1))?);
        for (&start, row) in starts.values().iter().zip(rows.iter().flatten()) {
            let (more, _) = row.as_chunks::<4>();
            let start = start as usize;
            let Some(counts) = self.counts.get_mut(start..start + more.len()) else {
                return internal_err!("there is no counter {start} among 2^{}", self.bits);
            };
            for (count, more) in counts.iter_mut().zip(more) {
                *count = count.saturating_add(u32::from_le_bytes(*more));
            }
        }
        Ok(())
    }

    /// Batches with the columns of [`schema`], without rows of zeros, except one that has the number of documents.
    fn batches(&self) -> Vec<Result<RecordBatch>> {
        let rows = self.counts.chunks(ROW).enumerate();
        let rows: Vec<_> = rows.filter(|(at, row)| *at == 0 || row.iter().any(|&count| count > 0)).collect();
        let batches = rows.chunks(ROWS).map(|rows| {
            let mut counts = BinaryBuilder::new();
            let mut bytes = Vec::with_capacity(size_of::<u32>() * ROW);
            for (_, row) in rows {
                bytes.clear();
                bytes.extend(row.iter().flat_map(|count| count.to_le_bytes()));
                counts.append_value(&bytes);
            }
            let documents = rows.iter().map(|(at, _)| if *at == 0 { self.documents } else { 0 });
            let columns: Vec<ArrayRef> = vec![
                Arc::new(UInt64Array::from_iter_values(rows.iter().map(|(at, _)| (at * ROW) as u64))),
                Arc::new(counts.finish()),
                Arc::new(UInt64Array::from_iter_values(documents)),
            ];
            Ok(RecordBatch::try_new(schema(), columns)?)
        });
        batches.collect()
    }
}

/// Counters in a row, and below, rows in a batch.
const ROW: usize = 1 << 14;
const ROWS: usize = 16;

/// (group_key: UInt64, .., shingles: `List<UInt64>`, without repeats) -> the columns of [`schema`], counted over a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CountShingles {
    /// The counters are `2^bits`.
    pub bits: u32,
}

impl fmt::Display for CountShingles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "2^{} counters", self.bits)
    }
}

impl Description for CountShingles {
    const NAME: &'static str = "CountShinglesExec";

    type Shared = ();

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        Shape::over(inputs, schema(), vec![Requirement::none()])
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        let mut input = task.rows_of(0)?;
        let context = task.context;
        let batches = futures::stream::once(async move {
            let mut counters = FixedCounters::new("CountShingles", self.bits, &context)?;
            while let Some(batch) = input.next().await.transpose()? {
                counters.count(&batch)?;
            }
            Ok::<_, DataFusionError>(futures::stream::iter(counters.batches()))
        });
        Ok(batches.try_flatten().boxed())
    }
}
