//! Rows that are together by bucket, read bucket by bucket, and the pairs that are made of each.

use arrow::array::{RecordBatch, UInt64Array};
use datafusion::common::Result;
use datafusion::common::cast::as_uint64_array;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use futures::{StreamExt, stream};

use super::pair_builder::PairBuilder;
use crate::plan::Batches;

/// Pairs that are looked at before other tasks are let in.
pub(super) const PAIRS_AT_ONCE: usize = 1 << 20;

/// The documents of the bucket that is being read, and how far its pairs have been written.
pub(super) trait Bucket: Send + 'static {
    /// The columns of a batch that say what its members are.
    type Columns: Send;

    /// The columns of a batch.
    ///
    /// # Errors
    /// When they have other types.
    fn columns(batch: &RecordBatch) -> Result<Self::Columns>;

    /// Forgets the members. Those that follow are of another bucket, or more of the `same` one.
    fn restart(&mut self, same: bool);

    /// Adds the member of a row.
    fn push(&mut self, columns: &Self::Columns, row: usize);

    /// Whether so many members are there that they are written and do not wait for the others of the bucket.
    fn overflows(&mut self) -> bool {
        false
    }

    /// Decides who is paired with whom, when all members are there.
    fn close(&mut self);

    /// Whether all pairs are written.
    fn is_written(&self) -> bool;

    /// Writes pairs until there is no more room, or for a while.
    fn write(&mut self, pairs: &mut PairBuilder);

    /// Bytes of the members.
    fn memory(&self) -> usize;
}

/// The pairs of the buckets of `input`: its first column says which bucket a row is of. What the members take is reserved
/// under the name of `consumer`.
pub(super) fn pairs_of_buckets<B: Bucket>(
    input: SendableRecordBatchStream,
    bucket: B,
    consumer: &str,
    context: &TaskContext,
) -> Batches {
    let reader = Reader {
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

struct Reader<B: Bucket> {
    input: SendableRecordBatchStream,
    /// The buckets of the batch that is being read, and the columns of their members.
    rows: Option<(UInt64Array, B::Columns)>,
    row: usize,
    /// Which bucket was read last.
    id: Option<u64>,
    bucket: B,
    held: MemoryReservation,
    batch_size: usize,
}

impl<B: Bucket> Reader<B> {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut pairs = PairBuilder::new(self.batch_size);
        loop {
            // The pairs of a bucket are written when its last row has been read, and in as many batches as they need.
            self.bucket.write(&mut pairs);
            if pairs.is_full() || self.bucket.is_written() && !self.read_bucket().await? {
                return pairs.finish();
            }
            tokio::task::consume_budget().await;
        }
    }

    /// Reads on to the end of a bucket; false at the end of the input.
    async fn read_bucket(&mut self) -> Result<bool> {
        let mut started = false;
        loop {
            if let Some((buckets, columns)) = &self.rows {
                while self.row < buckets.len() {
                    let id = buckets.value(self.row);
                    let same = self.id == Some(id);
                    if !started {
                        self.bucket.restart(same);
                        self.id = Some(id);
                        started = true;
                    } else if !same {
                        self.bucket.close();
                        return Ok(true);
                    }
                    self.bucket.push(columns, self.row);
                    self.row += 1;
                    if self.bucket.overflows() {
                        return Ok(true);
                    }
                }
                self.held.try_resize(self.bucket.memory())?;
            }
            let batch = self.input.next().await.transpose()?;
            let rows = |batch: &RecordBatch| -> Result<_> {
                Ok((as_uint64_array(batch.column(0))?.clone(), B::columns(batch)?))
            };
            self.rows = batch.as_ref().map(rows).transpose()?;
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
