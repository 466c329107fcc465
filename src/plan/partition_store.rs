//! Stores rows in numbered partitions: in memory while the memory pool has room, and otherwise on disk.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::spill::spill_pool::{SpillPoolSink, spsc_channel};
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

/// The number of rows at which a batch that is read from a partition is complete.
const READ_ROWS: usize = 8_192;
/// The number of bytes at which a batch that is read from a partition is complete.
const READ_BYTES: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Gathered {
    batches: Vec<RecordBatch>,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Gathered {
    pub(crate) fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes += get_record_batch_memory_size(&batch);
        self.batches.push(batch);
    }

    pub(crate) fn take(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let Self { batches, .. } = std::mem::take(self);
        Ok(concat_batches(schema, &batches)?)
    }
}

/// How often a partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartitionReads {
    /// Once; reading removes the rows.
    Once,
    /// Any number of times. When the store is complete, all rows are on disk, so that readers can use the memory.
    Again,
}

pub(crate) struct PartitionStore {
    reads: PartitionReads,
    spills: Arc<SpillManager>,
    inner: Mutex<Inner>,
}

struct Inner {
    partitions: Vec<Partition>,
    held: MemoryReservation,
}

impl PartitionStore {
    /// Creates a store with `count` empty partitions for rows with `schema`. `consumer` is the name of its memory reservation.
    pub(crate) fn new(
        consumer: &str,
        (count, reads): (usize, PartitionReads),
        schema: SchemaRef,
        metrics: SpillMetrics,
        context: &TaskContext,
    ) -> Self {
        let spills = SpillManager::new(context.runtime_env(), metrics, schema);
        // A store of sorted runs keeps no rows in memory. If it counted as a consumer that can spill, it would reduce the shares of other
        // consumers.
        let held = MemoryConsumer::new(consumer).with_can_spill(count > 0).register(context.memory_pool());
        let partitions = (0..count).map(|_| Partition::default()).collect();
        Self { reads, spills: Arc::new(spills), inner: Mutex::new(Inner { partitions, held }) }
    }

    /// Adds rows to the partitions with the given numbers. If the pool has no memory for the new rows, all rows in memory are first written
    /// to disk.
    pub(crate) fn add(&self, parts: impl Iterator<Item = Result<(usize, RecordBatch)>>) -> Result<()> {
        let schema = self.spills.schema();
        let parts = parts
            .map(|part| part.and_then(|(number, rows)| Ok((number, copied(&rows, schema)?))))
            .collect::<Result<Vec<_>>>()?;
        let bytes = parts.iter().map(|(_, rows)| get_record_batch_memory_size(rows)).sum();
        let mut inner = self.inner.lock();
        let mut fits = inner.held.try_grow(bytes).is_ok();
        if !fits {
            inner.spill(&self.spills, self.reads)?;
            fits = inner.held.try_grow(bytes).is_ok();
        }
        for (number, rows) in parts {
            let partition = inner.partition(number)?;
            partition.memory.push(rows);
            if !fits {
                partition.spill(&self.spills, self.reads)?;
            }
        }
        Ok(())
    }

    /// Adds each row of `batch` to a partition. `numbers` contains the number of the partition for each row.
    pub(crate) fn divide(&self, batch: &RecordBatch, numbers: impl Iterator<Item = usize>) -> Result<()> {
        let mut rows: Vec<(usize, u32)> = numbers.zip(0..).collect();
        rows.sort_unstable();
        self.add(rows.chunk_by(|one, next| one.0 == next.0).map(|part| {
            let rows = UInt32Array::from_iter_values(part.iter().map(|&(_, row)| row));
            Ok((part[0].0, take_record_batch(batch, &rows)?))
        }))
    }

    /// Writes `batches` to disk as a new partition, which is read once.
    pub(crate) fn spill_partition(&self, batches: &[RecordBatch]) -> Result<()> {
        let files = self.spills.spill_record_batch_and_finish(batches, "a sorted run")?.into_iter().collect();
        self.inner.lock().partitions.push(Partition { files, ..Partition::default() });
        Ok(())
    }

    /// Completes the store. After that, no more rows may be added, and files on disk can be read to the end.
    pub(crate) fn complete(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        match self.reads {
            PartitionReads::Once => inner.partitions.iter_mut().for_each(|partition| partition.sink = None),
            PartitionReads::Again => inner.spill(&self.spills, self.reads)?,
        }
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.lock().partitions.len()
    }

    /// Returns whether a partition has no rows. The store must be complete and must have been created with [`PartitionReads::Again`].
    pub(crate) fn has_no_files(&self, number: usize) -> bool {
        self.inner.lock().partitions.get(number).is_none_or(|partition| partition.files.is_empty())
    }

    pub(crate) fn read(&self, number: usize) -> Result<SendableRecordBatchStream> {
        let mut inner = self.inner.lock();
        let partition = inner.partition(number)?;
        let files = self.read_files(partition.files.clone());
        if self.reads == PartitionReads::Again {
            return Ok(self.gather(files));
        }
        let Partition { disk, memory, .. } = std::mem::take(partition);
        let bytes = memory.iter().map(get_record_batch_memory_size).sum();
        let held = inner.held.split(bytes);
        let memory = stream::iter(memory).map(move |batch| {
            // From here on, the reader accounts for the memory of the batch.
            held.shrink(get_record_batch_memory_size(&batch).min(held.size()));
            Ok(batch)
        });
        let disk = disk.map_or_else(|| stream::empty().boxed(), StreamExt::boxed);
        Ok(self.gather(files.chain(disk).chain(memory).boxed()))
    }

    /// Returns the rows of files, one file after the other.
    fn read_files(&self, files: Vec<Arc<dyn SpillFile>>) -> BoxStream<'static, Result<RecordBatch>> {
        let spills = Arc::clone(&self.spills);
        let opened = stream::iter(files).map(move |file| spills.read_spill_as_stream_unbuffered(file, None));
        opened.try_flatten().boxed()
    }

    fn gather(&self, batches: BoxStream<'static, Result<RecordBatch>>) -> SendableRecordBatchStream {
        let schema = Arc::clone(self.spills.schema());
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), gather(batches, schema)))
    }
}

impl Inner {
    fn partition(&mut self, number: usize) -> Result<&mut Partition> {
        match self.partitions.get_mut(number) {
            Some(partition) => Ok(partition),
            None => internal_err!("there is no partition {number}"),
        }
    }

    fn spill(&mut self, spills: &Arc<SpillManager>, reads: PartitionReads) -> Result<()> {
        for partition in &mut self.partitions {
            partition.spill(spills, reads)?;
        }
        self.held.free();
        Ok(())
    }
}

/// Copies a batch. Without the copy, the parts of a divided batch would share the memory of the whole batch. This memory would be counted
/// for each part, and freed only with the last part.
fn copied(part: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    // `concat_batches` copies two batches, but shares a single batch.
    Ok(concat_batches(schema, [part, &part.slice(0, 0)])?)
}

/// Returns the same rows in fewer batches.
fn gather(
    batches: BoxStream<'static, Result<RecordBatch>>,
    schema: SchemaRef,
) -> impl Stream<Item = Result<RecordBatch>> {
    stream::try_unfold(batches, move |mut batches| {
        let schema = Arc::clone(&schema);
        async move {
            let mut gathered = Gathered::default();
            while gathered.rows < READ_ROWS && gathered.bytes < READ_BYTES {
                match batches.next().await.transpose()? {
                    Some(batch) => gathered.push(batch),
                    None if gathered.rows == 0 => return Ok(None),
                    None => break,
                }
            }
            Ok(Some((gathered.take(&schema)?, batches)))
        }
    })
}

/// The rows of a partition: first the rows on disk, then the rows in memory.
#[derive(Default)]
struct Partition {
    /// Files that are kept after they are read.
    files: Vec<Arc<dyn SpillFile>>,
    /// The writer of a file that is removed while it is read. `disk` is the reader of the same file.
    sink: Option<SpillPoolSink>,
    disk: Option<SendableRecordBatchStream>,
    memory: Vec<RecordBatch>,
}

impl Partition {
    fn spill(&mut self, spills: &Arc<SpillManager>, reads: PartitionReads) -> Result<()> {
        if self.memory.is_empty() {
            return Ok(());
        }
        let batch = concat_batches(spills.schema(), &std::mem::take(&mut self.memory))?;
        if reads == PartitionReads::Again {
            self.files.extend(spills.spill_record_batch_and_finish(&[batch], "a partition")?);
            return Ok(());
        }
        if self.disk.is_none() {
            // All batches go into one file, which is read once and then removed.
            let (sink, disk) = spsc_channel(usize::MAX, Arc::clone(spills));
            (self.sink, self.disk) = (Some(sink), Some(disk));
        }
        match &self.sink {
            Some(sink) => sink.push_batch(&batch),
            None => internal_err!("rows came to a store that is complete"),
        }
    }
}
