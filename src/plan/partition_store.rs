//! The store of partitions that spill: rows wait in numbered partitions, in memory while the pool has room and otherwise
//! on disk.
//!
//! Everything that writes rows to disk between two operators uses it:
//!
//! | user | partitions | read |
//! |---|---|---|
//! | the exchange of one machine (`engine::exchange`) | by the hash of a key | once, or again where segments are scored |
//! | a home that is too large ([`crate::operator::score`]) | sketches by segment, pairs by two segments | again |
//! | rows by bucket ([`crate::operator::by_bucket`]) | a sorted run each | once |
//!
//! Sorts and aggregations are the engine's own and spill by themselves.
//!
//! The rows of a divided batch stay together in memory: a partition has a slice of them. Were each slice copied, many partitions would
//! make many small blocks of memory, which take more than their rows and which an allocator cannot return when they are freed. All slices
//! go to disk together, so that the memory of the whole batch is free.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{ByteViewType, DataType, SchemaRef};
use datafusion::common::internal_err;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
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

/// Rows and bytes of the batches that are read from a partition.
const READ_ROWS: usize = 8_192;
const READ_BYTES: usize = 1 << 20;

/// Gathers batches into one.
#[derive(Default)]
pub(crate) struct Gathered {
    batches: Vec<RecordBatch>,
    pub(crate) rows: usize,
    pub(crate) bytes: usize,
}

impl Gathered {
    /// Adds a batch, whose texts are copied if they share much larger buffers, such as the pages of a file.
    ///
    /// # Errors
    /// When the texts cannot be copied.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> Result<()> {
        let batch = compact(batch)?;
        self.rows += batch.num_rows();
        self.bytes += get_record_batch_memory_size(&batch);
        self.batches.push(batch);
        Ok(())
    }

    /// All rows so far in one batch of `schema`, which leaves none.
    ///
    /// # Errors
    /// When a batch has another schema.
    pub(crate) fn take(&mut self, schema: &SchemaRef) -> Result<RecordBatch> {
        let Self { batches, .. } = std::mem::take(self);
        Ok(concat_batches(schema, &batches)?)
    }
}

/// How often a partition is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Once; reading removes the rows.
    Once,
    /// Any number of times. All rows are on disk once the store is complete, so that the readers have the memory.
    Again,
}

/// Rows in numbered partitions.
#[derive(Debug)]
pub(crate) struct PartitionStore {
    reads: Reads,
    spills: Arc<SpillManager>,
    threads: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    partitions: Vec<Partition>,
    /// The memory of all partitions.
    held: MemoryReservation,
}

impl PartitionStore {
    /// `count` empty partitions for rows of `schema`, reserved in the memory pool as `consumer`.
    pub(crate) fn new(
        consumer: &str,
        (count, reads): (usize, Reads),
        schema: SchemaRef,
        metrics: SpillMetrics,
        context: &TaskContext,
    ) -> Self {
        let spills = SpillManager::new(context.runtime_env(), metrics, schema);
        // A store of runs holds no memory. As a consumer that can spill it would lessen the share of the others.
        let held = MemoryConsumer::new(consumer).with_can_spill(count > 0).register(context.memory_pool());
        let partitions = (0..count).map(|_| Partition::default()).collect();
        let threads = context.session_config().target_partitions();
        Self { reads, spills: Arc::new(spills), threads, inner: Mutex::new(Inner { partitions, held }) }
    }

    /// Adds rows to partitions, by number. If the pool has no memory for them, all rows in memory go to disk first.
    ///
    /// # Errors
    /// When a partition does not exist, or the disk cannot be written.
    pub(crate) fn add(&self, parts: impl Iterator<Item = Result<(usize, RecordBatch)>>) -> Result<()> {
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let bytes = held_by(parts.iter().map(|(_, rows)| rows));
        let mut inner = self.inner.lock();
        let mut fits = inner.held.try_grow(bytes).is_ok();
        if !fits {
            inner.spill(&self.spills, self.reads)?;
            fits = inner.held.try_grow(bytes).is_ok();
        }
        for (number, rows) in parts {
            inner.partition(number)?.memory.push(rows);
        }
        if !fits {
            inner.spill(&self.spills, self.reads)?;
        }
        Ok(())
    }

    /// Adds each row of `batch` to the partition whose number `numbers` has for it.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub(crate) fn divide(&self, batch: &RecordBatch, numbers: impl Iterator<Item = usize>) -> Result<()> {
        let mut rows: Vec<(usize, u32)> = numbers.zip(0..).collect();
        rows.sort_unstable();
        let sorted = UInt32Array::from_iter_values(rows.iter().map(|&(_, row)| row));
        let sorted = take_record_batch(batch, &sorted)?;
        let mut start = 0;
        self.add(rows.chunk_by(|one, next| one.0 == next.0).map(|part| {
            let slice = sorted.slice(start, part.len());
            start += part.len();
            Ok((part[0].0, slice))
        }))
    }

    /// Writes `batches` to disk as a further partition, which is read once.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub(crate) fn spill_partition(&self, batches: &[RecordBatch]) -> Result<()> {
        let files = self.spills.spill_record_batch_and_finish(batches, "a sorted run")?.into_iter().collect();
        self.inner.lock().partitions.push(Partition { files, ..Partition::default() });
        Ok(())
    }

    /// Completes the store: no more rows come, and the files on disk can be read to their ends. Rows stay in memory if they fit there once
    /// more, while those of each partition are copied together, so that each can be freed alone.
    ///
    /// # Errors
    /// When the disk cannot be written.
    pub(crate) fn complete(&self) -> Result<()> {
        let mut inner = self.inner.lock();
        match self.reads {
            Reads::Once => {
                if inner.held.try_grow(inner.held.size()).is_err() {
                    inner.spill(&self.spills, self.reads)?;
                }
                inner.close(self.spills.schema(), self.threads)?;
            }
            Reads::Again => inner.spill(&self.spills, self.reads)?,
        }
        Ok(())
    }

    /// The number of partitions.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().partitions.len()
    }

    /// Whether a partition of a complete store that is read again has no rows.
    pub(crate) fn has_no_files(&self, number: usize) -> bool {
        self.inner.lock().partitions.get(number).is_none_or(|partition| partition.files.is_empty())
    }

    /// The rows of a partition.
    ///
    /// # Errors
    /// When it does not exist.
    pub(crate) fn read(&self, number: usize) -> Result<SendableRecordBatchStream> {
        let mut inner = self.inner.lock();
        let partition = inner.partition(number)?;
        let files = self.read_files(partition.files.clone());
        if self.reads == Reads::Again {
            return Ok(self.gather(files));
        }
        let Partition { disk, memory, .. } = std::mem::take(partition);
        let bytes = memory.iter().map(get_record_batch_memory_size).sum();
        let held = inner.held.split(bytes);
        let memory = stream::iter(memory).map(move |batch| {
            // From here on the reader accounts for it.
            held.shrink(get_record_batch_memory_size(&batch).min(held.size()));
            Ok(batch)
        });
        let disk = disk.map_or_else(|| stream::empty().boxed(), StreamExt::boxed);
        Ok(self.gather(files.chain(disk).chain(memory).boxed()))
    }

    /// The rows of files, one after the other.
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

    /// Writes the rows in memory to disk.
    fn spill(&mut self, spills: &Arc<SpillManager>, reads: Reads) -> Result<()> {
        for partition in &mut self.partitions {
            partition.spill(spills, reads)?;
        }
        self.held.free();
        Ok(())
    }

    /// Ends the files, and copies the rows in memory of each partition into a batch of its own, in so many threads.
    fn close(&mut self, schema: &SchemaRef, threads: usize) -> Result<()> {
        let of_thread = self.partitions.len().div_ceil(threads.max(1)).max(1);
        let bytes: Result<usize> = std::thread::scope(|scope| {
            let close = |partitions: &mut [Partition]| -> Result<usize> {
                partitions.iter_mut().map(|partition| partition.close(schema)).sum()
            };
            let parts = self.partitions.chunks_mut(of_thread);
            let running: Vec<_> = parts.map(|part| scope.spawn(move || close(part))).collect();
            let ended = running.into_iter().map(std::thread::ScopedJoinHandle::join);
            ended.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
        });
        self.held.resize(bytes?);
        Ok(())
    }
}

/// Bytes of an array in a slice of a batch, without its values.
const BYTES_OF_SLICE: usize = 192;

/// Bytes of memory that slices of the same batches hold together.
fn held_by<'a>(slices: impl Iterator<Item = &'a RecordBatch>) -> usize {
    let mut buffers = RecordBatchMemoryCounter::new();
    slices.map(|slice| buffers.count_batch(slice) + BYTES_OF_SLICE * slice.num_columns()).sum()
}

/// The same rows. No column of texts or binaries holds more than twice the bytes that it uses: one that was read from a file
/// shares its pages, however few of their rows are in the batch.
fn compact(batch: RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::Utf8View => used(column, column.as_string_view()),
        DataType::BinaryView => used(column, column.as_binary_view()),
        _ => Arc::clone(column),
    });
    let columns = columns.collect();
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &rows)?)
}

/// `column` itself, or a copy if it uses less than half of its buffers.
fn used<T: ByteViewType + ?Sized>(column: &ArrayRef, views: &GenericByteViewArray<T>) -> ArrayRef {
    let held: usize = views.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    if held > 2 * views.total_buffer_bytes_used() { Arc::new(views.gc()) } else { Arc::clone(column) }
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
                    Some(batch) => gathered.push(batch)?,
                    None if gathered.rows == 0 => return Ok(None),
                    None => break,
                }
            }
            Ok(Some((gathered.take(&schema)?, batches)))
        }
    })
}

/// The rows of a partition: first those on disk, then those in memory.
#[derive(Default)]
struct Partition {
    /// Files that stay when they are read.
    files: Vec<Arc<dyn SpillFile>>,
    /// A file that is removed while it is read: the end that is written and the end that is read.
    sink: Option<SpillPoolSink>,
    disk: Option<SendableRecordBatchStream>,
    memory: Vec<RecordBatch>,
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("spilled", &(self.disk.is_some() || !self.files.is_empty()))
            .field("batches", &self.memory.len())
            .finish_non_exhaustive()
    }
}

impl Partition {
    /// Ends the file, and copies the rows in memory into one batch. Says how many bytes that has.
    fn close(&mut self, schema: &SchemaRef) -> Result<usize> {
        self.sink = None;
        let Some(first) = self.memory.first() else { return Ok(0) };
        // Two batches are copied into one; a single batch would be shared.
        let none = first.slice(0, 0);
        let copied = concat_batches(schema, self.memory.iter().chain([&none]))?;
        let bytes = get_record_batch_memory_size(&copied);
        self.memory = vec![copied];
        Ok(bytes)
    }

    /// Writes the rows in memory to disk.
    fn spill(&mut self, spills: &Arc<SpillManager>, reads: Reads) -> Result<()> {
        if self.memory.is_empty() {
            return Ok(());
        }
        let batch = concat_batches(spills.schema(), &std::mem::take(&mut self.memory))?;
        if reads == Reads::Again {
            self.files.extend(spills.spill_record_batch_and_finish(&[batch], "a partition")?);
            return Ok(());
        }
        if self.disk.is_none() {
            // One file: it is read once and then removed as a whole.
            let (sink, disk) = spsc_channel(usize::MAX, Arc::clone(spills));
            (self.sink, self.disk) = (Some(sink), Some(disk));
        }
        match &self.sink {
            Some(sink) => sink.push_batch(&batch),
            None => internal_err!("rows came to a store that is complete"),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{StringViewArray, UInt64Array};
    use arrow::datatypes::{Field, Schema, UInt64Type};
    use datafusion::execution::memory_pool::FairSpillPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;

    const PARTITIONS: usize = 512;
    const ROWS: u64 = 1 << 16;

    /// Two columns of numbers, the first of them from `start` on.
    fn batch(start: u64) -> RecordBatch {
        let column = |name| Field::new(name, DataType::UInt64, false);
        let schema = Arc::new(Schema::new(vec![column("number"), column("other")]));
        let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(start..start + ROWS));
        RecordBatch::try_new(schema, vec![Arc::clone(&numbers), numbers]).unwrap()
    }

    /// A store of some batches, whose rows are in the partition of their number, and its pool.
    fn store(pool: usize, batches: u64) -> (PartitionStore, Arc<TaskContext>) {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(pool)));
        let session = SessionContext::new_with_config_rt(SessionConfig::new(), runtime.build_arc().unwrap());
        let context = session.task_ctx();
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let schema = batch(0).schema();
        let store = PartitionStore::new("Test", (PARTITIONS, Reads::Once), schema, metrics, &context);
        for start in (0..batches).map(|number| number * ROWS) {
            store
                .divide(&batch(start), (start..start + ROWS).map(|number| number as usize % PARTITIONS))
                .unwrap();
        }
        (store, context)
    }

    /// The buffers that the rows in memory have.
    fn buffers(store: &PartitionStore) -> usize {
        let inner = store.inner.lock();
        let batches = inner.partitions.iter().flat_map(|partition| &partition.memory);
        let buffers =
            batches.flat_map(RecordBatch::columns).map(|column| column.to_data().buffers()[0].data_ptr());
        buffers.collect::<std::collections::BTreeSet<_>>().len()
    }

    async fn numbers(store: &PartitionStore, partition: usize) -> Vec<u64> {
        let batches: Vec<_> = store.read(partition).unwrap().try_collect().await.unwrap();
        batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec())
            .collect()
    }

    #[tokio::test]
    async fn the_parts_of_a_batch_share_its_memory_until_all_rows_are_there() {
        let (store, context) = store(1 << 30, 8);
        let rows = 8 * ROWS as usize * 16;
        let reserved = || context.memory_pool().reserved();
        assert_eq!(
            buffers(&store),
            8 * 2,
            "a block for each column of each batch, however many partitions there are"
        );
        assert!((rows..2 * rows).contains(&reserved()), "{} of {rows}", reserved());
        store.complete().unwrap();
        assert_eq!(buffers(&store), PARTITIONS * 2, "a block for each column of each partition");
        assert!((rows..rows + rows / 8).contains(&reserved()), "{} of {rows}", reserved());
        for partition in 0..PARTITIONS {
            let wanted = (partition as u64..8 * ROWS).step_by(PARTITIONS);
            assert_eq!(numbers(&store, partition).await, wanted.collect::<Vec<_>>());
        }
        assert_eq!(reserved(), 0);
    }

    #[tokio::test]
    async fn rows_that_do_not_fit_twice_are_not_left_in_memory() {
        let (store, context) = store(4 << 20, 8);
        assert!(context.memory_pool().reserved() > 0);
        store.complete().unwrap();
        assert_eq!((buffers(&store), context.memory_pool().reserved()), (0, 0));
        for partition in 0..PARTITIONS {
            let mut found = numbers(&store, partition).await;
            found.sort_unstable();
            let wanted = (partition as u64..8 * ROWS).step_by(PARTITIONS);
            assert_eq!(found, wanted.collect::<Vec<_>>());
        }
    }

    #[test]
    fn gathered_texts_do_not_hold_what_they_were_read_from() {
        let schema = Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8View, true)]));
        let text = |row: usize| format!("a text that is not short, number {row}");
        let page = StringViewArray::from_iter_values((0..10_000).map(text));
        let page = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(page)]).unwrap();
        let mut gathered = Gathered::default();
        for start in (0..10_000).step_by(1_000) {
            gathered.push(page.slice(start, 3)).unwrap();
        }
        assert!(gathered.bytes < 10_000, "{}", gathered.bytes);
        let all = gathered.take(&schema).unwrap();
        let texts: Vec<_> = all.column(0).as_string_view().iter().flatten().map(str::to_owned).collect();
        let wanted = (0..10_000).step_by(1_000).flat_map(|start| (start..start + 3).map(text));
        assert_eq!(texts, wanted.collect::<Vec<_>>());
        // What uses most of its buffers is not copied.
        let same = compact(page.clone()).unwrap();
        assert!(Arc::ptr_eq(same.column(0), page.column(0)));
    }
}
