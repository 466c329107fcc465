//! The rows of a partition, brought together by bucket: in memory, or as sorted runs on disk that are merged.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

/// (bucket, document).
pub type Row = (u64, u64);

/// Rows of the batches that come out.
const BATCH_ROWS: usize = 8_192;

/// Rows that the reservation grows by.
const GROWTH: usize = 1 << 16;

/// Parts that rows are scattered to, as a power of two: few enough that each has a line in the cache while they are.
const SCATTER_BITS: u32 = 11;

/// So few rows are sorted as they are.
const FEW: usize = 1 << 12;

/// Parts of fewer rows than the one, or more than the other, are sorted as they are.
const FEW_OF_A_PART: usize = 1 << 6;
const MANY_OF_A_PART: usize = 1 << 15;

/// Rows (bucket: UInt64, doc: UInt64) in any order -> the same rows, those of a bucket next to each other.
pub(super) async fn by_bucket(
    mut input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = input.schema();
    let held = MemoryConsumer::new("ByBucket").with_can_spill(true).register(context.memory_pool());
    let mut rows: Vec<Row> = Vec::new();
    let mut runs = Runs::new(Arc::clone(&schema), &context);
    while let Some(batch) = input.next().await.transpose()? {
        let (buckets, docs) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        if rows.len() + batch.num_rows() > rows.capacity() && !grow(&mut rows, batch.num_rows(), &held) {
            runs.write(std::mem::take(&mut rows))?;
            held.free();
            if !grow(&mut rows, batch.num_rows(), &held) {
                // What a batch takes is the least that there must be room for.
                rows.reserve(batch.num_rows());
                held.resize(bytes(rows.capacity()));
            }
        }
        rows.extend(buckets.values().iter().copied().zip(docs.values().iter().copied()));
    }
    if runs.files.is_empty() {
        return Ok(batches(group(rows), schema, held));
    }
    runs.write(rows)?;
    held.free();
    runs.merge(held)
}

/// Bytes that so many rows take while they are brought together: once as they came, and once as they go.
fn bytes(rows: usize) -> usize {
    2 * rows * size_of::<Row>()
}

/// Makes room for `more` rows, by half of what there is or so; false where the pool has none.
fn grow(rows: &mut Vec<Row>, more: usize, held: &MemoryReservation) -> bool {
    let wanted = rows.len() + more.max(rows.len() / 2).max(GROWTH);
    if held.try_resize(bytes(wanted)).is_err() {
        return false;
    }
    rows.reserve_exact(wanted - rows.len());
    true
}

/// The same rows, those of a bucket next to each other, in an order that is the same for the same rows.
///
/// Rows are scattered to parts that fit into the processor's cache, and again inside of each part, until few are left to
/// sort: a radix sort from the top. That is one pass over memory; a sort by comparison makes a pass for each time that it
/// halves the rows.
pub fn group(rows: Vec<Row>) -> Vec<Row> {
    if rows.len() <= FEW {
        let mut rows = rows;
        rows.sort_unstable();
        return rows;
    }
    let part = |bucket: u64| (spread(bucket) >> (64 - SCATTER_BITS)) as usize;
    let mut ends = vec![0_usize; 1 << SCATTER_BITS];
    for &(bucket, _) in &rows {
        ends[part(bucket)] += 1;
    }
    let mut next = 0;
    for end in &mut ends {
        next += std::mem::replace(end, next);
    }
    let mut grouped = vec![(0, 0); rows.len()];
    for row in rows {
        let at = &mut ends[part(row.0)];
        grouped[*at] = row;
        *at += 1;
    }
    let (mut start, mut scratch) = (0, Scratch::default());
    for end in ends {
        sort_part(&mut grouped[start..end], &mut scratch);
        start = end;
    }
    grouped
}

/// All bits of a bucket, at the top: some may be alike in all buckets, and the product has them mixed.
fn spread(bucket: u64) -> u64 {
    bucket.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Room for [`sort_part`].
#[derive(Default)]
struct Scratch {
    copy: Vec<Row>,
    ends: Vec<u32>,
}

/// Puts the rows of a part in order: scattered once more, by the next bits, to some rows each, of which most are alone with
/// their bucket, and those sorted.
fn sort_part(rows: &mut [Row], scratch: &mut Scratch) {
    // Of a part of many rows most are of a few buckets, and it does not fit into the cache twice.
    if !(FEW_OF_A_PART..=MANY_OF_A_PART).contains(&rows.len()) {
        rows.sort_unstable();
        return;
    }
    let bits = rows.len().ilog2() - 1;
    let place = |bucket: u64| ((spread(bucket) << SCATTER_BITS) >> (64 - bits)) as usize;
    let Scratch { copy, ends } = scratch;
    ends.clear();
    ends.resize(1 << bits, 0);
    for &(bucket, _) in rows.iter() {
        ends[place(bucket)] += 1;
    }
    let mut next = 0;
    for end in ends.iter_mut() {
        next += std::mem::replace(end, next);
    }
    copy.clear();
    copy.extend_from_slice(rows);
    for &row in copy.iter() {
        let at = &mut ends[place(row.0)];
        rows[*at as usize] = row;
        *at += 1;
    }
    let mut start = 0;
    for &end in ends.iter() {
        let end = end as usize;
        if end - start > 1 {
            rows[start..end].sort_unstable();
        }
        start = end;
    }
}

fn batch_of(rows: &[Row], schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |value: fn(&Row) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<Vec<_>>().into_iter().collect::<UInt64Array>())
    };
    Ok(RecordBatch::try_new(Arc::clone(schema), vec![column(|row| row.0), column(|row| row.1)])?)
}

fn batches(rows: Vec<Row>, schema: SchemaRef, held: MemoryReservation) -> SendableRecordBatchStream {
    held.shrink(held.size() - held.size().min(bytes(rows.len()) / 2));
    let of = Arc::clone(&schema);
    let batches = stream::iter((0..rows.len()).step_by(BATCH_ROWS)).map(move |start| {
        // The reservation goes with the rows.
        let _ = &held;
        batch_of(&rows[start..(start + BATCH_ROWS).min(rows.len())], &of)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// Sorted runs on disk.
struct Runs {
    schema: SchemaRef,
    spills: SpillManager,
    files: Vec<Arc<dyn SpillFile>>,
    batch_size: usize,
}

impl Runs {
    fn new(schema: SchemaRef, context: &TaskContext) -> Self {
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let spills = SpillManager::new(context.runtime_env(), metrics, Arc::clone(&schema));
        Self { schema, spills, files: Vec::new(), batch_size: context.session_config().batch_size() }
    }

    fn write(&mut self, mut rows: Vec<Row>) -> Result<()> {
        rows.sort_unstable();
        let batches = rows.chunks(BATCH_ROWS).map(|rows| batch_of(rows, &self.schema));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        self.files.extend(self.spills.spill_record_batch_and_finish(&batches, "rows of buckets")?);
        Ok(())
    }

    fn merge(self, held: MemoryReservation) -> Result<SendableRecordBatchStream> {
        let read = |file| self.spills.read_spill_as_stream_unbuffered(file, None);
        let streams = self.files.into_iter().map(read).collect::<Result<Vec<_>>>()?;
        let ascending = |(at, field): (usize, &Arc<arrow::datatypes::Field>)| {
            PhysicalSortExpr::new_default(Arc::new(Column::new(field.name(), at)))
        };
        let Some(order) = LexOrdering::new(self.schema.fields().iter().enumerate().map(ascending)) else {
            return internal_err!("rows without columns are to be merged");
        };
        StreamingMergeBuilder::new()
            .with_streams(streams)
            .with_schema(Arc::clone(&self.schema))
            .with_expressions(&order)
            .with_batch_size(self.batch_size)
            .with_metrics(BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0))
            .with_reservation(held)
            .build()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use datafusion::execution::memory_pool::FairSpillPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::prelude::{SessionConfig, SessionContext};
    use futures::TryStreamExt;

    use super::*;

    /// Rows whose buckets differ in their lower bits alone, and one bucket of very many.
    fn rows(count: u64) -> Vec<Row> {
        let bucket = |i: u64| if i.is_multiple_of(3) { 7 } else { i.wrapping_mul(0x2545_F491) % (count / 4) };
        (0..count).map(|i| (bucket(i), i)).collect()
    }

    fn assert_grouped(mut found: Vec<Row>, mut expected: Vec<Row>) {
        let mut seen = BTreeSet::new();
        let mut last = None;
        for &(bucket, _) in &found {
            if last != Some(bucket) {
                assert!(seen.insert(bucket), "bucket {bucket} is in two places");
                last = Some(bucket);
            }
        }
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
    }

    #[test]
    fn rows_of_a_bucket_come_together() {
        for count in [4, 1_000, 100_000] {
            assert_grouped(group(rows(count)), rows(count));
        }
        assert_eq!(group(Vec::new()), []);
    }

    #[tokio::test]
    async fn also_through_runs_on_disk() {
        let rows = rows(200_000);
        let schema = crate::operator::bucket_pairs::rows_schema();
        for pool in [1 << 30, 3 << 20] {
            let runtime =
                RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(pool))).build_arc();
            let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime.unwrap());
            let input = rows.chunks(1_000).map(|rows| batch_of(rows, &schema)).collect::<Vec<_>>();
            let input = RecordBatchStreamAdapter::new(Arc::clone(&schema), stream::iter(input));
            let grouped = by_bucket(Box::pin(input), context.task_ctx()).await.unwrap();
            let mut found = Vec::new();
            for batch in grouped.try_collect::<Vec<_>>().await.unwrap() {
                let (buckets, docs) = (batch.column(0), batch.column(1));
                let (buckets, docs) = (as_uint64_array(buckets).unwrap(), as_uint64_array(docs).unwrap());
                found.extend(buckets.values().iter().copied().zip(docs.values().iter().copied()));
            }
            assert_grouped(found, rows.clone());
            // Nothing is held any more.
            assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
        }
    }
}
