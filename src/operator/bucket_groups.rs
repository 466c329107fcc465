//! Groups the rows of a partition by bucket, in memory or by merging sorted runs on disk.

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
use futures::{StreamExt, stream};

use crate::plan::{Batches, PartitionReads, PartitionStore};

/// (bucket, document).
pub type BucketRow = (u64, u64);

const BATCH_ROWS: usize = 8_192;

/// The minimum growth of the reservation, in rows.
const GROWTH: usize = 1 << 16;

/// The first scattering divides the rows into `2^SCATTER_BITS` parts. Each part keeps one cache line in use.
const SCATTER_BITS: u32 = 11;

/// At most this many rows are sorted without scattering.
const FEW: usize = 1 << 12;

/// Only a part with `FEW_OF_A_PART` to `MANY_OF_A_PART` rows is scattered a second time.
const FEW_OF_A_PART: usize = 1 << 6;
const MANY_OF_A_PART: usize = 1 << 15;

/// Groups rows (bucket: UInt64, doc: UInt64) by bucket.
pub(super) async fn group_by_bucket(
    mut input: SendableRecordBatchStream,
    context: Arc<TaskContext>,
) -> Result<Batches> {
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
                // There must be memory for at least one batch.
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

/// Returns the number of bytes that `rows` rows use while they are grouped. Grouping holds two copies of every row.
fn bytes(rows: usize) -> usize {
    2 * rows * size_of::<BucketRow>()
}

/// Makes room for `more` rows, and increases the capacity by at least half. Returns false if the pool does not have enough memory.
fn grow(rows: &mut Vec<BucketRow>, more: usize, held: &MemoryReservation) -> bool {
    let capacity = rows.len() + more.max(rows.len() / 2).max(GROWTH);
    if held.try_resize(bytes(capacity)).is_err() {
        return false;
    }
    rows.reserve_exact(capacity - rows.len());
    true
}

/// Groups rows by bucket, in an order that depends only on the rows. This is a radix sort from the top bits. It scatters rows to parts that
/// fit in the processor's cache, and scatters each part again until few rows are left to sort. It passes over memory once. A comparison
/// sort would pass over it at every level of its recursion.
pub fn group(mut rows: Vec<BucketRow>) -> Vec<BucketRow> {
    if rows.len() <= FEW || u32::try_from(rows.len()).is_err() {
        rows.sort_unstable();
        return rows;
    }
    let (mut grouped, mut ends) = (vec![(0, 0); rows.len()], Vec::new());
    let part = |bucket: u64| (spread(bucket) >> (64 - SCATTER_BITS)) as usize;
    scatter(&rows, &mut grouped, &mut ends, SCATTER_BITS, part);
    drop(rows);
    let (mut start, mut buffers) = (0, SortBuffers::default());
    for end in ends {
        sort_part(&mut grouped[start..end as usize], &mut buffers);
        start = end as usize;
    }
    grouped
}

/// Copies the rows in `from` to `to`, ordered by part, and writes the end of each of the `2^bits` parts to `ends`.
fn scatter(
    from: &[BucketRow],
    to: &mut [BucketRow],
    ends: &mut Vec<u32>,
    bits: u32,
    part: impl Fn(u64) -> usize,
) {
    ends.clear();
    ends.resize(1 << bits, 0);
    for &(bucket, _) in from {
        ends[part(bucket)] += 1;
    }
    let mut next = 0;
    for end in ends.iter_mut() {
        next += std::mem::replace(end, next);
    }
    for &row in from {
        let at = &mut ends[part(row.0)];
        to[*at as usize] = row;
        *at += 1;
    }
}

/// Spreads the bits of a number over all 64 bits. Some bits can be equal in all buckets, and hashes of shingles can be short.
pub(super) fn spread(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[derive(Default)]
struct SortBuffers {
    copy: Vec<BucketRow>,
    ends: Vec<u32>,
}

/// Sorts a part: scatters its rows by the next bits to groups of a few rows, and sorts the groups. Most groups have one row.
fn sort_part(rows: &mut [BucketRow], buffers: &mut SortBuffers) {
    // A large part has few buckets, and two copies of it do not fit in the cache.
    if !(FEW_OF_A_PART..=MANY_OF_A_PART).contains(&rows.len()) {
        rows.sort_unstable();
        return;
    }
    let bits = rows.len().ilog2() - 1;
    let SortBuffers { copy, ends } = buffers;
    copy.clear();
    copy.extend_from_slice(rows);
    scatter(copy, rows, ends, bits, |bucket| ((spread(bucket) << SCATTER_BITS) >> (64 - bits)) as usize);
    let mut start = 0;
    for &end in ends.iter() {
        let end = end as usize;
        if end - start > 1 {
            rows[start..end].sort_unstable();
        }
        start = end;
    }
}

fn batch(rows: &[BucketRow], schema: &SchemaRef) -> Result<RecordBatch> {
    let column = |value: fn(&BucketRow) -> u64| -> ArrayRef {
        Arc::new(rows.iter().map(value).collect::<Vec<_>>().into_iter().collect::<UInt64Array>())
    };
    Ok(RecordBatch::try_new(Arc::clone(schema), vec![column(|row| row.0), column(|row| row.1)])?)
}

fn batches(rows: Vec<BucketRow>, schema: SchemaRef, held: MemoryReservation) -> Batches {
    held.shrink(held.size() - held.size().min(bytes(rows.len()) / 2));
    let batches = stream::iter((0..rows.len()).step_by(BATCH_ROWS)).map(move |start| {
        // The closure owns the reservation, so that both are dropped with the rows.
        let _ = &held;
        batch(&rows[start..(start + BATCH_ROWS).min(rows.len())], &schema)
    });
    batches.boxed()
}

/// Writes `rows` to disk as a sorted run.
fn spill_run(runs: &PartitionStore, mut rows: Vec<BucketRow>, schema: &SchemaRef) -> Result<()> {
    rows.sort_unstable();
    let batches = rows.chunks(BATCH_ROWS).map(|rows| batch(rows, schema));
    runs.spill_partition(&batches.collect::<Result<Vec<_>>>()?)
}

fn merge(
    runs: &PartitionStore,
    schema: &SchemaRef,
    held: MemoryReservation,
    context: &TaskContext,
) -> Result<Batches> {
    let ascending = |(at, field): (usize, &FieldRef)| {
        PhysicalSortExpr::new_default(Arc::new(Column::new(field.name(), at)))
    };
    let Some(order) = LexOrdering::new(schema.fields().iter().enumerate().map(ascending)) else {
        return internal_err!("rows without columns are to be merged");
    };
    let merged = StreamingMergeBuilder::new()
        .with_streams((0..runs.len()).map(|run| runs.read(run)).collect::<Result<Vec<_>>>()?)
        .with_schema(Arc::clone(schema))
        .with_expressions(&order)
        .with_batch_size(context.session_config().batch_size())
        .with_metrics(BaselineMetrics::new(&ExecutionPlanMetricsSet::new(), 0))
        .with_reservation(held)
        .build()?;
    Ok(merged.boxed())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures::TryStreamExt;

    use super::*;
    use crate::operator::fixtures::{numbers, pairs, session, stream_of};

    /// Returns rows whose buckets differ only in their lower bits. A third of the rows is in one bucket.
    fn rows(count: u64) -> Vec<BucketRow> {
        let bucket = |i: u64| if i.is_multiple_of(3) { 7 } else { i.wrapping_mul(0x2545_F491) % (count / 4) };
        (0..count).map(|i| (bucket(i), i)).collect()
    }

    fn assert_grouped(mut found: Vec<BucketRow>, mut expected: Vec<BucketRow>) {
        let mut seen = BTreeSet::new();
        for rows in found.chunk_by(|one, next| one.0 == next.0) {
            assert!(seen.insert(rows[0].0), "bucket {} is in two places", rows[0].0);
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
    async fn rows_that_spill_are_grouped_too() {
        let rows = rows(200_000);
        for pool in [1 << 30, 3 << 20] {
            let session = session(pool);
            let input = rows.chunks(1_000).map(|rows| numbers(["bucket", "doc"], rows)).collect();
            let grouped = group_by_bucket(stream_of(input), session.task_ctx()).await.unwrap();
            let found = grouped.try_collect::<Vec<_>>().await.unwrap();
            assert_grouped(found.iter().flat_map(pairs).collect(), rows.clone());
            assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
        }
    }
}
