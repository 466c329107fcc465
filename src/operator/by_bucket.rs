//! The rows of a partition, grouped by bucket: in memory, or by merging sorted runs on disk.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::plan::{PartitionReads, PartitionStore};

/// (bucket, document).
pub type BucketRow = (u64, u64);

/// Rows of the output batches.
const BATCH_ROWS: usize = 8_192;

/// The least number of rows by which the reservation grows.
const GROWTH: usize = 1 << 16;

/// The number of parts that rows are scattered to, as a power of two: each of them needs a cache line at the same time.
const SCATTER_BITS: u32 = 11;

/// Fewer rows are sorted without scattering.
const FEW: usize = 1 << 12;

/// Parts of fewer or more rows are sorted without scattering them again.
const FEW_OF_A_PART: usize = 1 << 6;
const MANY_OF_A_PART: usize = 1 << 15;

/// Rows (bucket: UInt64, doc: UInt64) in any order -> the same rows, grouped by bucket.
pub(super) async fn by_bucket(
    mut input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
) -> Result<SendableRecordBatchStream> {
    let schema = input.schema();
    let held = MemoryConsumer::new("ByBucket").with_can_spill(true).register(context.memory_pool());
    let mut rows: Vec<BucketRow> = Vec::new();
    let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let runs = PartitionStore::new("Runs", (0, PartitionReads::Once), Arc::clone(&schema), metrics, &context);
    while let Some(batch) = input.next().await.transpose()? {
        let (buckets, docs) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        if rows.len() + batch.num_rows() > rows.capacity() && !grow(&mut rows, batch.num_rows(), &held) {
            spill_run(&runs, std::mem::take(&mut rows), &schema)?;
            held.free();
            if !grow(&mut rows, batch.num_rows(), &held) {
                // A batch must fit.
                rows.reserve(batch.num_rows());
                held.resize(bytes(rows.capacity()));
            }
        }
        rows.extend(buckets.values().iter().copied().zip(docs.values().iter().copied()));
    }
    if runs.len() == 0 {
        return Ok(batches(group(rows), schema, held));
    }
    spill_run(&runs, rows, &schema)?;
    held.free();
    merge(&runs, &schema, held, &context)
}

/// Bytes of rows while they are grouped, which copies them.
fn bytes(rows: usize) -> usize {
    2 * rows * size_of::<BucketRow>()
}

/// Makes room for `more` rows, growing by half at least. False if the pool has none.
fn grow(rows: &mut Vec<BucketRow>, more: usize, held: &MemoryReservation) -> bool {
    let wanted = rows.len() + more.max(rows.len() / 2).max(GROWTH);
    if held.try_resize(bytes(wanted)).is_err() {
        return false;
    }
    rows.reserve_exact(wanted - rows.len());
    true
}

/// The same rows, grouped by bucket, in an order that depends on the rows alone.
///
/// A radix sort from the top: rows are scattered to parts that fit into the processor's cache, and again inside each part, until
/// few are left to sort. It passes over memory once; a sort by comparison passes over it each time that it halves the rows.
pub fn group(rows: Vec<BucketRow>) -> Vec<BucketRow> {
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
    let (mut start, mut scratch) = (0, SortBuffers::default());
    for end in ends {
        sort_part(&mut grouped[start..end], &mut scratch);
        start = end;
    }
    grouped
}

/// Mixes the bits of a bucket, since some may be equal in all buckets.
fn spread(bucket: u64) -> u64 {
    bucket.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Buffers of [`sort_part`].
#[derive(Default)]
struct SortBuffers {
    copy: Vec<BucketRow>,
    ends: Vec<u32>,
}

/// Sorts a part: its rows are scattered by the next bits to groups of a few rows, which are sorted. Most of them have a single
/// row.
fn sort_part(rows: &mut [BucketRow], scratch: &mut SortBuffers) {
    // A large part has few buckets, and does not fit into the cache twice.
    if !(FEW_OF_A_PART..=MANY_OF_A_PART).contains(&rows.len()) {
        rows.sort_unstable();
        return;
    }
    let bits = rows.len().ilog2() - 1;
    let place = |bucket: u64| ((spread(bucket) << SCATTER_BITS) >> (64 - bits)) as usize;
    let SortBuffers { copy, ends } = scratch;
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

fn batch_of(rows: &[BucketRow], schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |value: fn(&BucketRow) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<Vec<_>>().into_iter().collect::<UInt64Array>())
    };
    Ok(RecordBatch::try_new(Arc::clone(schema), vec![column(|row| row.0), column(|row| row.1)])?)
}

fn batches(rows: Vec<BucketRow>, schema: SchemaRef, held: MemoryReservation) -> SendableRecordBatchStream {
    held.shrink(held.size() - held.size().min(bytes(rows.len()) / 2));
    let of = Arc::clone(&schema);
    let batches = stream::iter((0..rows.len()).step_by(BATCH_ROWS)).map(move |start| {
        // The reservation lives as long as the rows.
        let _ = &held;
        batch_of(&rows[start..(start + BATCH_ROWS).min(rows.len())], &of)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// Writes `rows` to disk as a sorted run.
fn spill_run(runs: &PartitionStore, mut rows: Vec<BucketRow>, schema: &SchemaRef) -> Result<()> {
    rows.sort_unstable();
    let batches = rows.chunks(BATCH_ROWS).map(|rows| batch_of(rows, schema));
    runs.spill_partition(&batches.collect::<Result<Vec<_>>>()?)
}

/// The rows of all runs in order.
fn merge(
    runs: &PartitionStore,
    schema: &SchemaRef,
    held: MemoryReservation,
    context: &TaskContext,
) -> Result<SendableRecordBatchStream> {
    let ascending = |(at, field): (usize, &FieldRef)| {
        PhysicalSortExpr::new_default(Arc::new(Column::new(field.name(), at)))
    };
    let Some(order) = LexOrdering::new(schema.fields().iter().enumerate().map(ascending)) else {
        return internal_err!("rows without columns are to be merged");
    };
    StreamingMergeBuilder::new()
        .with_streams((0..runs.len()).map(|run| runs.read(run)).collect::<Result<Vec<_>>>()?)
        .with_schema(Arc::clone(schema))
        .with_expressions(&order)
        .with_batch_size(context.session_config().batch_size())
        .with_metrics(BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0))
        .with_reservation(held)
        .build()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures::TryStreamExt;

    use super::*;
    use crate::operator::fixtures::{numbers, session, stream_of};

    /// Rows whose buckets differ only in their lower bits, a third of them in one bucket.
    fn rows(count: u64) -> Vec<BucketRow> {
        let bucket = |i: u64| if i.is_multiple_of(3) { 7 } else { i.wrapping_mul(0x2545_F491) % (count / 4) };
        (0..count).map(|i| (bucket(i), i)).collect()
    }

    fn assert_grouped(mut found: Vec<BucketRow>, mut expected: Vec<BucketRow>) {
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
        for pool in [1 << 30, 3 << 20] {
            let session = session(pool);
            let input = rows.chunks(1_000).map(|rows| numbers(["bucket", "doc"], rows)).collect();
            let grouped = by_bucket(stream_of(input), session.task_ctx()).await.unwrap();
            let mut found = Vec::new();
            for batch in grouped.try_collect::<Vec<_>>().await.unwrap() {
                let column = |at: usize| as_uint64_array(batch.column(at)).unwrap().values().to_vec();
                found.extend(column(0).into_iter().zip(column(1)));
            }
            assert_grouped(found, rows.clone());
            assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
        }
    }
}
