//! A reader of rows that are grouped by bucket, which writes the pairs of each bucket.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array, UInt64Array, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::common::cast::{as_boolean_array, as_uint32_array, as_uint64_array};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use futures::{StreamExt, stream};

use crate::plan::Batches;

/// Pairs that are examined before other tasks may run.
pub(super) const PAIRS_AT_ONCE: usize = 1 << 20;

/// A document in a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketMember {
    pub(super) doc: u64,
    /// Shingles of the document; 0 if the rule does not use them.
    pub(super) size: u32,
    /// Shingles of the document that come before the bucket's own in the order that all documents share.
    pub(super) position: u32,
    /// A state of [`super::dense_pairs`].
    pub(super) state: u32,
    /// Whether it is a reference document.
    pub(super) is_reference: bool,
}

/// The columns (bucket, doc[, size, position[, state]][, reference]) of a batch.
struct MemberColumns {
    buckets: UInt64Array,
    docs: UInt64Array,
    sizes: Option<[UInt32Array; 2]>,
    states: Option<UInt32Array>,
    is_reference: Option<BooleanArray>,
}

impl MemberColumns {
    fn of(batch: &RecordBatch) -> Result<Self> {
        let number = |at: usize| -> Result<UInt32Array> { Ok(as_uint32_array(batch.column(at))?.clone()) };
        let numbers = batch.columns().iter().filter(|column| column.data_type() == &DataType::UInt32).count();
        let is_reference = batch.columns().last().filter(|column| column.data_type() == &DataType::Boolean);
        Ok(Self {
            buckets: as_uint64_array(batch.column(0))?.clone(),
            docs: as_uint64_array(batch.column(1))?.clone(),
            sizes: if numbers >= 2 { Some([number(2)?, number(3)?]) } else { None },
            states: if numbers == 3 { Some(number(4)?) } else { None },
            is_reference: is_reference
                .map(|is_reference| as_boolean_array(is_reference).cloned())
                .transpose()?,
        })
    }

    fn member(&self, row: usize) -> BucketMember {
        let (size, position) = match &self.sizes {
            Some([sizes, positions]) => (sizes.value(row), positions.value(row)),
            None => (0, 0),
        };
        let state = self.states.as_ref().map_or(0, |states| states.value(row));
        let is_reference = self.is_reference.as_ref().is_some_and(|is_reference| is_reference.value(row));
        BucketMember { doc: self.docs.value(row), size, position, state, is_reference }
    }
}

/// The documents of the bucket that is being read, and how many of its pairs are written.
pub(super) trait Bucket: Send + 'static {
    /// Removes the members. The next ones are of another bucket, or more of the `same` one.
    fn restart(&mut self, same: bool);

    /// Adds a member.
    fn push(&mut self, member: BucketMember);

    /// Whether there are so many members that they are written before the rest of the bucket is read.
    fn overflows(&mut self) -> bool {
        false
    }

    /// Decides which members are paired, when all of them are there.
    fn close(&mut self);

    /// Whether all pairs are written.
    fn is_written(&self) -> bool;

    /// Writes pairs until the batch is full, or for a while.
    fn write(&mut self, pairs: &mut PairBuilder);

    /// Bytes of the members.
    fn memory(&self) -> usize;
}

/// The pairs of the buckets of `input`, whose rows come bucket by bucket. The members are reserved in the memory pool
/// as `consumer`.
pub(super) fn pairs_of_buckets<B: Bucket>(
    input: SendableRecordBatchStream,
    bucket: B,
    consumer: &str,
    context: &TaskContext,
) -> Batches {
    let reader = BucketReader {
        input,
        rows: None,
        row: 0,
        id: None,
        bucket,
        held: MemoryConsumer::new(consumer).register(context.memory_pool()),
        batch_size: context.session_config().batch_size(),
    };
    let batches = stream::try_unfold(reader, async |mut reader| {
        Ok(reader.next_batch().await?.map(|batch| (batch, reader)))
    });
    batches.boxed()
}

struct BucketReader<B> {
    input: SendableRecordBatchStream,
    /// The batch that is being read.
    rows: Option<MemberColumns>,
    row: usize,
    /// The last bucket.
    id: Option<u64>,
    bucket: B,
    held: MemoryReservation,
    batch_size: usize,
}

impl<B: Bucket> BucketReader<B> {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut pairs = PairBuilder::new(self.batch_size);
        loop {
            // The pairs of a bucket are written after its last row, in as many batches as they need.
            self.bucket.write(&mut pairs);
            if pairs.is_full() || self.bucket.is_written() && !self.read_bucket().await? {
                return pairs.finish();
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Reads to the end of a bucket; false at the end of the input.
    async fn read_bucket(&mut self) -> Result<bool> {
        let mut started = false;
        loop {
            if let Some(rows) = &self.rows {
                while self.row < rows.buckets.len() {
                    let id = rows.buckets.value(self.row);
                    let same = self.id == Some(id);
                    if !started {
                        self.bucket.restart(same);
                        self.id = Some(id);
                        started = true;
                    } else if !same {
                        self.bucket.close();
                        return Ok(true);
                    }
                    self.bucket.push(rows.member(self.row));
                    self.row += 1;
                    if self.bucket.overflows() {
                        return Ok(true);
                    }
                }
                self.held.try_resize(self.bucket.memory())?;
            }
            let batch = self.input.next().await.transpose()?;
            self.rows = batch.as_ref().map(MemberColumns::of).transpose()?;
            self.row = 0;
            if self.rows.is_none() {
                if started {
                    self.bucket.close();
                }
                return Ok(started);
            }
        }
    }
}

/// The columns (a, b): two documents of a bucket, a < b. A pair comes once for each common bucket. In a row without b,
/// the document a is in a hot or dense bucket: see [`super::bucket_pairs`].
pub(super) fn pair_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::UInt64, false),
        Field::new("b", DataType::UInt64, true),
    ]))
}

/// Builds a batch of pairs.
pub(super) struct PairBuilder {
    a: UInt64Builder,
    b: UInt64Builder,
    room: usize,
}

impl PairBuilder {
    pub(super) fn new(room: usize) -> Self {
        Self { a: UInt64Builder::with_capacity(room), b: UInt64Builder::with_capacity(room), room }
    }

    pub(super) fn is_full(&self) -> bool {
        self.a.values_slice().len() >= self.room
    }

    pub(super) fn push(&mut self, x: u64, y: u64) {
        if x != y {
            self.a.append_value(x.min(y));
            self.b.append_value(x.max(y));
        }
    }

    /// Adds a document without a second one.
    pub(super) fn push_alone(&mut self, doc: u64) {
        self.a.append_value(doc);
        self.b.append_null();
    }

    pub(super) fn finish(mut self) -> Result<Option<RecordBatch>> {
        if self.a.values_slice().is_empty() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = vec![Arc::new(self.a.finish()), Arc::new(self.b.finish())];
        Ok(Some(RecordBatch::try_new(pair_schema(), columns)?))
    }
}
