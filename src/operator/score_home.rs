//! Scores of candidates at their homes: a task reads the sketches of its pairs, and then the pairs one after the other.
//!
//! Plans make homes small. A home that is nevertheless too large, such as that of a document with very many candidates,
//! is divided into blocks on disk: sketches by segments of their keys, pairs by the segments of both documents.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use futures::{StreamExt, TryStreamExt, stream};

use super::scorer::{ScoreBuilder, Scorer};
use super::sketches::{Sketches, docs};
use crate::plan::{Batches, PartitionReads, PartitionStore};

/// Segments of a home that is too large.
const SEGMENTS: usize = 16;

/// Sketches (home, doc, shingles, signature) and pairs (home, a, b) of a partition -> the pairs that `scorer` keeps.
pub(super) fn score_home(
    sketches: SendableRecordBatchStream,
    pairs: SendableRecordBatchStream,
    scorer: Scorer,
    context: Arc<TaskContext>,
) -> Batches {
    let batches = stream::once(async move {
        let held = MemoryConsumer::new("Score").register(context.memory_pool());
        Ok::<_, DataFusionError>(match read(sketches, held).await? {
            HomeSketches::Whole(sketches) => score_all(Arc::new(sketches), pairs, scorer),
            HomeSketches::TooLarge { read, rest, held } => {
                tracing::debug!("the sketches of a home do not fit in memory and are cut into blocks");
                let blocks = Blocks::new(read, &held, rest, pairs, &context).await?;
                blocks.score(scorer, held)
            }
        })
    });
    batches.try_flatten().boxed()
}

/// The sketches of a home.
enum HomeSketches {
    Whole(Sketches),
    /// The batches that were read, with their reservation, and the remaining ones.
    TooLarge {
        read: Vec<RecordBatch>,
        rest: SendableRecordBatchStream,
        held: MemoryReservation,
    },
}

async fn read(mut input: SendableRecordBatchStream, held: MemoryReservation) -> Result<HomeSketches> {
    let mut sketches = Sketches::new(held);
    while let Some(batch) = input.next().await.transpose()? {
        match sketches.add(&batch) {
            Ok(()) => {}
            Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                let (mut read, held) = sketches.into_rows();
                read.push(batch);
                return Ok(HomeSketches::TooLarge { read, rest: input, held });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(HomeSketches::Whole(sketches))
}

/// Scores each of `pairs` (.., a, b) by the sketches of its documents, which are all among `sketches`.
pub(super) fn score_all(
    sketches: Arc<Sketches>,
    pairs: SendableRecordBatchStream,
    scorer: Scorer,
) -> Batches {
    let score = move |batch: Result<RecordBatch>| score_batch(&sketches, &batch?, &scorer);
    pairs.map(score).filter_map(async |batch| batch.transpose()).boxed()
}

fn score_batch(sketches: &Sketches, pairs: &RecordBatch, scorer: &Scorer) -> Result<Option<RecordBatch>> {
    let (a, b) = ends(pairs)?;
    let mut kept = ScoreBuilder::default();
    for (&a, &b) in a.iter().zip(b) {
        scorer.score(sketches.get(a)?, sketches.get(b)?, &mut kept);
    }
    kept.finish()
}

/// The two documents of each pair.
pub(super) fn ends(pairs: &RecordBatch) -> Result<(&[u64], &[u64])> {
    let [.., a, b] = pairs.columns() else { return internal_err!("a pair has two documents") };
    Ok((as_uint64_array(a)?.values(), as_uint64_array(b)?.values()))
}

/// The segment of a document, by the upper bits of its key: the lower bits have decided on the home.
fn segment(doc: u64) -> usize {
    (doc >> 48) as usize % SEGMENTS
}

/// The number of the block of pairs between two segments.
fn block(one: usize, other: usize) -> usize {
    one.min(other) * SEGMENTS + one.max(other)
}

/// A home on disk: its sketches by segment, its pairs by block.
struct Blocks {
    sketches: PartitionStore,
    pairs: PartitionStore,
}

impl Blocks {
    async fn new(
        read: Vec<RecordBatch>,
        held: &MemoryReservation,
        rest: SendableRecordBatchStream,
        mut pairs: SendableRecordBatchStream,
        context: &TaskContext,
    ) -> Result<Self> {
        let store = |partitions, schema| {
            let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
            PartitionStore::new("ScoreBlocks", (partitions, PartitionReads::Again), schema, metrics, context)
        };
        let of_sketches = store(SEGMENTS, rest.schema());
        // A batch that is divided makes room for its parts.
        let read = stream::iter(read).map(|batch| {
            held.shrink(get_record_batch_memory_size(&batch).min(held.size()));
            Ok(batch)
        });
        let mut all = read.chain(rest);
        while let Some(batch) = all.next().await.transpose()? {
            of_sketches.divide(&batch, docs(&batch)?.iter().map(|&doc| segment(doc)))?;
        }
        of_sketches.complete()?;
        held.free();
        let of_pairs = store(SEGMENTS * SEGMENTS, pairs.schema());
        while let Some(batch) = pairs.next().await.transpose()? {
            let (a, b) = ends(&batch)?;
            of_pairs.divide(&batch, a.iter().zip(b).map(|(&a, &b)| block(segment(a), segment(b))))?;
        }
        of_pairs.complete()?;
        Ok(Self { sketches: of_sketches, pairs: of_pairs })
    }

    /// Scores block by block, with the sketches of two segments in memory.
    fn score(self, scorer: Scorer, held: MemoryReservation) -> Batches {
        let blocks = (0..SEGMENTS).flat_map(|one| (one..SEGMENTS).map(move |other| (one, other)));
        let home = Arc::new((self, held));
        let scored = stream::iter(blocks).then(move |(one, other)| {
            let home = Arc::clone(&home);
            async move {
                let (this, held) = home.as_ref();
                if this.pairs.has_no_files(block(one, other)) {
                    return Ok::<_, DataFusionError>(stream::empty().boxed());
                }
                let mut sketches = Sketches::new(held.new_empty());
                sketches.add_all(this.sketches.read(one)?).await?;
                if one != other {
                    sketches.add_all(this.sketches.read(other)?).await?;
                }
                Ok(score_all(Arc::new(sketches), this.pairs.read(block(one, other))?, scorer))
            }
        });
        scored.try_flatten().boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::operator::fixtures::{self, numbers, scorer, session, stream_of};

    const DOCUMENTS: u64 = 1_000;
    const SHINGLES: u64 = 500;

    /// Keys that are spread like hashes.
    fn key(document: u64) -> u64 {
        document.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Each document shares nine tenths of its shingles with the next, and every tenth pair of neighbours none.
    fn set(document: u64) -> Vec<u64> {
        let start = document / 10 * 10 * SHINGLES + document % 10 * SHINGLES / 20;
        (start..start + SHINGLES).collect()
    }

    /// The keys of a document and the one before it.
    fn neighbours(document: u64) -> (u64, u64) {
        let (one, other) = (key(document - 1), key(document));
        (one.min(other), one.max(other))
    }

    async fn scored(pool: usize) -> Result<BTreeSet<(u64, u64)>> {
        let starts = (0..DOCUMENTS).step_by(50);
        let sketches = starts.map(|start| fixtures::sketches((start..start + 50).map(|d| (key(d), set(d)))));
        let pairs: Vec<_> = (1..DOCUMENTS).map(neighbours).collect();
        let pairs = pairs.chunks(100).map(|pairs| numbers(["a", "b"], pairs));
        let (session, sketches, pairs) =
            (session(pool), stream_of(sketches.collect()), stream_of(pairs.collect()));
        let found = fixtures::scored(score_home(sketches, pairs, scorer(), session.task_ctx())).await?;
        assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
        Ok(found)
    }

    #[tokio::test]
    async fn a_home_that_is_too_large_is_scored_in_blocks() {
        let expected: BTreeSet<_> =
            (1..DOCUMENTS).filter(|d| !d.is_multiple_of(10)).map(neighbours).collect();
        // The sketches take over four megabytes, and two segments of sixteen a little over half of one.
        for pool in [1 << 30, 2 << 20] {
            assert_eq!(scored(pool).await.unwrap(), expected, "a pool of {pool} bytes");
        }
        let error = scored(1 << 17).await.unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    }
}
