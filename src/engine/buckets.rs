//! The rows of buckets on their way through one machine: in memory while the pool has room, and else on disk.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
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

/// Rows, and bytes, of the batches that are read from a bucket.
const READ_ROWS: usize = 8_192;
const READ_BYTES: usize = 1 << 20;

/// Batches that become one.
#[derive(Default)]
pub(super) struct Gathered {
    batches: Vec<RecordBatch>,
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

impl Gathered {
    pub(super) fn push(&mut self, batch: RecordBatch) {
        self.rows += batch.num_rows();
        self.bytes += get_record_batch_memory_size(&batch);
        self.batches.push(batch);
    }

    pub(super) fn take(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let Self { batches, .. } = std::mem::take(self);
        Ok(concat_batches(schema, &batches)?)
    }
}

/// How often a bucket is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reads {
    /// Once, and then its rows are gone.
    Once,
    /// Any number of times. Then all rows are on disk once they have come: whoever reads them needs the memory.
    Again,
}

/// The rows of all buckets.
#[derive(Debug)]
pub(super) struct BucketStore {
    reads: Reads,
    spills: Arc<SpillManager>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    buckets: Vec<Bucket>,
    /// For what the buckets hold in memory.
    held: MemoryReservation,
}

impl BucketStore {
    /// `count` empty buckets for rows of `schema`.
    pub(super) fn new(
        count: usize,
        reads: Reads,
        schema: SchemaRef,
        spills: SpillMetrics,
        context: &TaskContext,
    ) -> Self {
        let spills = SpillManager::new(context.runtime_env(), spills, schema);
        let held = MemoryConsumer::new("Exchange").with_can_spill(true).register(context.memory_pool());
        let buckets = (0..count).map(|_| Bucket::default()).collect();
        Self { reads, spills: Arc::new(spills), inner: Mutex::new(Inner { buckets, held }) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds rows to their buckets. Where the pool has no room for them, all that is in memory goes to disk first.
    pub(super) fn add(&self, parts: impl Iterator<Item = Result<(usize, RecordBatch)>>) -> Result<()> {
        let schema = self.spills.schema();
        let parts = parts
            .map(|part| part.and_then(|(bucket, part)| Ok((bucket, copied(&part, schema)?))))
            .collect::<Result<Vec<_>>>()?;
        let bytes = parts.iter().map(|(_, part)| get_record_batch_memory_size(part)).sum();
        let mut inner = self.inner();
        let mut fits = inner.held.try_grow(bytes).is_ok();
        if !fits {
            inner.spill(&self.spills, self.reads)?;
            fits = inner.held.try_grow(bytes).is_ok();
        }
        for (bucket, part) in parts {
            let Some(bucket) = inner.buckets.get_mut(bucket) else {
                return internal_err!("there is no bucket {bucket}");
            };
            bucket.memory.push(part);
            if !fits {
                bucket.spill(&self.spills, self.reads)?;
            }
        }
        Ok(())
    }

    /// No more rows come: what is on disk can be read to its end.
    pub(super) fn close(&self) -> Result<()> {
        let mut inner = self.inner();
        match self.reads {
            Reads::Once => inner.buckets.iter_mut().for_each(|bucket| bucket.sink = None),
            Reads::Again => inner.spill(&self.spills, self.reads)?,
        }
        Ok(())
    }

    /// The rows of a bucket, which is empty then if it is read once.
    pub(super) fn read(&self, bucket: usize, schema: &SchemaRef) -> Result<SendableRecordBatchStream> {
        let mut inner = self.inner();
        let Some(there) = inner.buckets.get_mut(bucket) else {
            return internal_err!("there is no bucket {bucket}");
        };
        if self.reads == Reads::Again {
            return self.read_files(&there.files, schema);
        }
        let Bucket { disk, memory, .. } = std::mem::take(there);
        let bytes = memory.iter().map(get_record_batch_memory_size).sum();
        let held = inner.held.split(bytes);
        let rest = stream::iter(memory).map(move |batch| {
            // From here on it is the reader's.
            held.shrink(get_record_batch_memory_size(&batch).min(held.size()));
            Ok(batch)
        });
        let disk = disk.map_or_else(|| stream::empty().boxed(), StreamExt::boxed);
        let batches = gather(disk.chain(rest).boxed(), Arc::clone(schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches)))
    }

    /// The rows of some files, one after the other.
    fn read_files(
        &self,
        files: &[Arc<dyn SpillFile>],
        schema: &SchemaRef,
    ) -> Result<SendableRecordBatchStream> {
        let (spills, files) = (Arc::clone(&self.spills), files.to_vec());
        let opened = stream::iter(files).map(move |file| spills.read_spill_as_stream_unbuffered(file, None));
        let batches = gather(opened.try_flatten().boxed(), Arc::clone(schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches)))
    }
}

impl Inner {
    /// Writes to disk what is in memory.
    fn spill(&mut self, spills: &Arc<SpillManager>, reads: Reads) -> Result<()> {
        for bucket in &mut self.buckets {
            bucket.spill(spills, reads)?;
        }
        self.held.free();
        Ok(())
    }
}

/// The rows of a batch in memory of their own. Those that a batch is divided into share the memory of all of them: they would
/// be counted as often as there are parts, and none of it would be free before the last part is.
fn copied(part: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    // Two batches are copied into one.
    Ok(concat_batches(schema, [part, &part.slice(0, 0)])?)
}

/// The same rows in fewer batches.
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

/// The rows of a bucket: first those on disk, then those in memory.
#[derive(Default)]
struct Bucket {
    sink: Option<SpillPoolSink>,
    disk: Option<SendableRecordBatchStream>,
    /// Those that are on disk to be read more than once.
    files: Vec<Arc<dyn SpillFile>>,
    memory: Vec<RecordBatch>,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket")
            .field("spilled", &(self.disk.is_some() || !self.files.is_empty()))
            .field("batches", &self.memory.len())
            .finish_non_exhaustive()
    }
}

impl Bucket {
    /// Writes what is in memory to disk.
    fn spill(&mut self, spills: &Arc<SpillManager>, reads: Reads) -> Result<()> {
        if self.memory.is_empty() {
            return Ok(());
        }
        let batch = concat_batches(spills.schema(), &std::mem::take(&mut self.memory))?;
        if reads == Reads::Again {
            self.files.extend(spills.spill_record_batch_and_finish(&[batch], "a bucket")?);
            return Ok(());
        }
        if self.disk.is_none() {
            // One file: it is read once and then goes as a whole.
            let (sink, disk) = spsc_channel(usize::MAX, Arc::clone(spills));
            (self.sink, self.disk) = (Some(sink), Some(disk));
        }
        match &self.sink {
            Some(sink) => sink.push_batch(&batch),
            None => internal_err!("rows came to a bucket that is closed"),
        }
    }
}
