//! Scores candidates, by two joins of sketches and pairs on disk.
//!
//! With *homes*, which are groups of pairs, a task first reads the sketches of its pairs, and then scores the pairs one after the other.
//! Plans make homes small. A home that is still too large, such as the home of a document with very many candidates, is divided into blocks
//! on disk. Sketches are divided by segments of their keys, and pairs by the segments of both documents.
//!
//! With *segments* of the documents, a task holds the sketches of one segment, and streams the sketches of all segments: a block nested
//! loop join. The sketches are written once and read once per segment, for any number of candidates. A pair belongs to the segment of its
//! smaller document. A task holds as many pairs as fit in memory, sorted by their larger documents, so that each streamed sketch finds its
//! pairs.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, TryStreamExt, stream};

use super::sketches::{ScoreBuilder, Scorer, SketchedDocument, Sketches, each_document, sketch_keys};
use crate::plan::{Batches, PartitionReads, PartitionStore};

/// The number of segments of a home that is too large.
const SEGMENTS: usize = 16;

/// Scores the pairs (home, a, b) of a partition. `sketches` (home, doc, shingles, signature) contains the sketches of the partition's
/// homes.
pub(super) fn score_home(
    mut sketches: SendableRecordBatchStream,
    pairs: SendableRecordBatchStream,
    scorer: Scorer,
    context: Arc<TaskContext>,
) -> Batches {
    let batches = stream::once(async move {
        let mut whole = Sketches::new(MemoryConsumer::new("Score").register(context.memory_pool()));
        while let Some(batch) = sketches.next().await.transpose()? {
            match whole.add(&batch) {
                Ok(()) => {}
                Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                    tracing::debug!(
                        "the sketches of a home do not fit in memory and are divided into blocks"
                    );
                    let (mut read, held) = whole.into_rows();
                    read.push(batch);
                    let blocks = Blocks::new(read, &held, sketches, pairs, &context).await?;
                    return Ok(blocks.score(scorer, held));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(score_all(Arc::new(whole), pairs, scorer))
    });
    batches.try_flatten().boxed()
}

/// Scores `pairs` (.., a, b). `sketches` contains the sketches of all their documents.
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

/// Returns the columns with the two documents of each pair.
fn ends(pairs: &RecordBatch) -> Result<(&[u64], &[u64])> {
    let [.., a, b] = pairs.columns() else { return internal_err!("a pair has two documents") };
    Ok((as_uint64_array(a)?.values(), as_uint64_array(b)?.values()))
}

/// Returns the segment of a document, by the upper bits of its key. The lower bits of the key already selected the partition.
fn segment(doc: u64) -> usize {
    (doc >> 48) as usize % SEGMENTS
}

/// Returns the index of the block with the pairs between two segments.
fn block(one: usize, other: usize) -> usize {
    one.min(other) * SEGMENTS + one.max(other)
}

/// A home on disk: its sketches by segment, and its pairs by block.
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
        let sketches = store(SEGMENTS, rest.schema());
        // A batch is freed when it is divided, which makes room for its parts.
        let read = stream::iter(read).map(|batch| {
            held.shrink(get_record_batch_memory_size(&batch).min(held.size()));
            Ok(batch)
        });
        let mut all = read.chain(rest);
        while let Some(batch) = all.next().await.transpose()? {
            sketches.divide(&batch, sketch_keys(&batch)?.iter().map(|&doc| segment(doc)))?;
        }
        sketches.complete()?;
        held.free();
        let blocks = store(SEGMENTS * SEGMENTS, pairs.schema());
        while let Some(batch) = pairs.next().await.transpose()? {
            let (a, b) = ends(&batch)?;
            blocks.divide(&batch, a.iter().zip(b).map(|(&a, &b)| block(segment(a), segment(b))))?;
        }
        blocks.complete()?;
        Ok(Self { sketches, pairs: blocks })
    }

    /// Scores block by block, with the sketches of two segments in memory.
    fn score(self, scorer: Scorer, held: MemoryReservation) -> Batches {
        let blocks = (0..SEGMENTS).flat_map(|one| (one..SEGMENTS).map(move |other| (one, other)));
        let shared = Arc::new((self, held));
        let scored = stream::iter(blocks).then(move |(one, other)| {
            let shared = Arc::clone(&shared);
            async move {
                let (home, held) = shared.as_ref();
                if home.pairs.has_no_files(block(one, other)) {
                    return Ok::<_, DataFusionError>(stream::empty().boxed());
                }
                let mut sketches = Sketches::new(held.new_empty());
                sketches.add_all(home.sketches.read(one)?).await?;
                if one != other {
                    sketches.add_all(home.sketches.read(other)?).await?;
                }
                Ok(score_all(Arc::new(sketches), home.pairs.read(block(one, other))?, scorer))
            }
        });
        scored.try_flatten().boxed()
    }
}

/// The minimum number of bytes that held pairs may use, even if the sketches of the segment use fewer.
const LEAST_WAITING: usize = 4 << 20;

/// Scores the `pairs` (a, b) of a segment. `sketches` (doc, shingles, signature) has one partition per segment.
pub(super) fn score_segment(
    sketches: Arc<dyn ExecutionPlan>,
    segment: usize,
    pairs: SendableRecordBatchStream,
    scorer: Scorer,
    context: Arc<TaskContext>,
) -> Batches {
    let reservation = || MemoryConsumer::new("Score").register(context.memory_pool());
    let passes = Passes {
        held: Sketches::new(reservation()),
        waiting: WaitingPairs { pairs: Vec::new(), room: reservation(), ahead: None, rest: pairs },
        next: None,
        past: None,
        found: 0,
        sketches,
        segment,
        scorer,
        context,
    };
    let batches = stream::try_unfold(passes, async |mut passes| {
        Ok(passes.next_batch().await?.map(|batch| (batch, passes)))
    });
    batches.boxed()
}

/// The state of a segment: each pass over all sketches scores as many pairs as fit in memory.
struct Passes {
    sketches: Arc<dyn ExecutionPlan>,
    segment: usize,
    scorer: Scorer,
    context: Arc<TaskContext>,
    /// The sketches of the segment, which are read after its first pair.
    held: Sketches,
    waiting: WaitingPairs,
    /// The distance from this segment to the next segment to stream; `None` between two passes.
    next: Option<usize>,
    /// The sketches of the segment that is currently streamed.
    past: Option<SendableRecordBatchStream>,
    /// The number of pairs in this pass whose larger document was streamed.
    found: usize,
}

impl Passes {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let batch_size = self.context.session_config().batch_size();
        let mut kept = ScoreBuilder::default();
        while !kept.is_full(batch_size) {
            if let Some(past) = &mut self.past {
                match past.next().await.transpose()? {
                    Some(batch) => self.score(&batch, &mut kept)?,
                    None => self.past = None,
                }
            } else if !self.advance(&mut kept).await? {
                break;
            }
            // Streaming sketches from memory has no await point. This call yields, so that other tasks can run and the run can be stopped.
            tokio::task::consume_budget().await;
        }
        kept.finish()
    }

    /// Begins the next segment or the next pass. Returns false if there are no more pairs.
    async fn advance(&mut self, kept: &mut ScoreBuilder) -> Result<bool> {
        let segments = self.sketches.output_partitioning().partition_count();
        match self.next {
            None => {
                if !self.waiting.more().await? {
                    return Ok(false);
                }
                if self.held.is_empty() {
                    let own = self.sketches.execute(self.segment, Arc::clone(&self.context))?;
                    self.held.add_all(own).await?;
                }
                self.waiting.fill(self.held.bytes()).await?;
                self.found = 0;
                for (doc, sketch) in self.held.iter() {
                    self.found +=
                        self.waiting.score(&self.held, self.held.document(doc, sketch), self.scorer, kept)?;
                }
                self.next = Some(1);
            }
            Some(next) if next < segments => {
                let partition = (self.segment + next) % segments;
                self.past = Some(self.sketches.execute(partition, Arc::clone(&self.context))?);
                self.next = Some(next + 1);
            }
            Some(_) => {
                if self.found != self.waiting.pairs.len() {
                    let (found, pairs) = (self.found, self.waiting.pairs.len());
                    return internal_err!("the sketches of {found} candidates of {pairs} came");
                }
                self.next = None;
            }
        }
        Ok(true)
    }

    /// Scores the pairs whose larger documents are in a batch.
    fn score(&mut self, batch: &RecordBatch, kept: &mut ScoreBuilder) -> Result<()> {
        let Self { held, waiting, scorer, found, .. } = self;
        each_document(batch, |document| {
            *found += waiting.score(held, document, *scorer, kept)?;
            Ok(())
        })
    }
}

/// The pairs of a segment that wait for the sketches of their larger documents.
struct WaitingPairs {
    /// (b, a), sorted.
    pairs: Vec<(u64, u64)>,
    room: MemoryReservation,
    /// Pairs that were read but did not fit in memory.
    ahead: Option<RecordBatch>,
    rest: SendableRecordBatchStream,
}

impl WaitingPairs {
    async fn more(&mut self) -> Result<bool> {
        while self.ahead.as_ref().is_none_or(|batch| batch.num_rows() == 0) {
            match self.rest.next().await.transpose()? {
                Some(batch) => self.ahead = Some(batch),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reads as many pairs as fit in memory besides `held` bytes of sketches.
    async fn fill(&mut self, held: usize) -> Result<()> {
        let most = held.max(LEAST_WAITING);
        self.pairs.clear();
        while self.more().await?
            && let Some(batch) = self.ahead.take()
        {
            if !self.make_room(batch.num_rows(), most) {
                self.ahead = Some(batch);
                break;
            }
            let (a, b) = ends(&batch)?;
            self.pairs.extend(b.iter().copied().zip(a.iter().copied()));
        }
        self.pairs.sort_unstable();
        Ok(())
    }

    /// Reserves memory for `more` pairs. Returns false if there is too little memory. The first batch gets memory in any case.
    fn make_room(&mut self, more: usize, most: usize) -> bool {
        let least = self.pairs.len() + more;
        if least <= self.pairs.capacity() {
            return true;
        }
        let bytes = |pairs: usize| pairs * size_of::<(u64, u64)>();
        let roomy = least.max(self.pairs.len() + self.pairs.len() / 2);
        let fits = bytes(least) <= most && self.room.try_resize(bytes(roomy)).is_ok();
        if fits || self.pairs.is_empty() {
            let capacity = if fits { roomy } else { least };
            self.pairs.reserve_exact(capacity - self.pairs.len());
            self.room.resize(bytes(self.pairs.capacity()));
            return true;
        }
        false
    }

    /// Scores the pairs whose larger document is `b`, and returns their number.
    fn score(
        &self,
        held: &Sketches,
        b: SketchedDocument<'_>,
        scorer: Scorer,
        kept: &mut ScoreBuilder,
    ) -> Result<usize> {
        let start = self.pairs.partition_point(|(doc, _)| *doc < b.doc);
        let mut count = 0;
        for &(_, a) in self.pairs[start..].iter().take_while(|(doc, _)| *doc == b.doc) {
            scorer.score(held.get(a)?, b, kept);
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use datafusion::catalog::memory::MemorySourceConfig;

    use super::*;
    use crate::operator::fixtures::{self, numbers, scorer, session, stream_of};

    const HOME_DOCUMENTS: u64 = 1_000;
    const HOME_SHINGLES: u64 = 500;

    fn key(document: u64) -> u64 {
        document.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Each document shares nine tenths of its shingles with the next document. Every tenth pair of neighbours shares no shingles.
    fn home_set(document: u64) -> Vec<u64> {
        let start = document / 10 * 10 * HOME_SHINGLES + document % 10 * HOME_SHINGLES / 20;
        (start..start + HOME_SHINGLES).collect()
    }

    fn neighbours(document: u64) -> (u64, u64) {
        let (one, other) = (key(document - 1), key(document));
        (one.min(other), one.max(other))
    }

    async fn home_scored(pool: usize) -> Result<BTreeSet<(u64, u64)>> {
        let starts = (0..HOME_DOCUMENTS).step_by(50);
        let sketches =
            starts.map(|start| fixtures::sketches((start..start + 50).map(|d| (key(d), home_set(d)))));
        let pairs: Vec<_> = (1..HOME_DOCUMENTS).map(neighbours).collect();
        let pairs = pairs.chunks(100).map(|pairs| numbers(["a", "b"], pairs));
        let (sketches, pairs) = (stream_of(sketches.collect()), stream_of(pairs.collect()));
        let session = session(pool);
        let found = fixtures::scored(score_home(sketches, pairs, scorer(), session.task_ctx())).await?;
        assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
        Ok(found)
    }

    #[tokio::test]
    async fn a_home_that_is_too_large_is_scored_in_blocks() {
        let expected: BTreeSet<_> =
            (1..HOME_DOCUMENTS).filter(|d| !d.is_multiple_of(10)).map(neighbours).collect();
        // All sketches take over four megabytes, and two out of sixteen segments a little over half a megabyte.
        for pool in [1 << 30, 2 << 20] {
            assert_eq!(home_scored(pool).await.unwrap(), expected, "a pool of {pool} bytes");
        }
        let error = home_scored(1 << 17).await.unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    }

    const SEGMENT_DOCUMENTS: u64 = 600;
    const PARTITIONS: u64 = 5;

    /// Documents share nine out of ten shingles if their numbers differ by a multiple of 100.
    fn segment_set(document: u64) -> Vec<u64> {
        let of_group = (0..90).map(|i| document % 100 * 1_000 + i);
        of_group.chain((0..10).map(|i| 1_000_000 + document * 10 + i)).collect()
    }

    fn segment_documents(segment: u64) -> Vec<u64> {
        (0..SEGMENT_DOCUMENTS).filter(|document| document % PARTITIONS == segment).collect()
    }

    fn sketches() -> Arc<dyn ExecutionPlan> {
        let batch = |documents: &[u64]| fixtures::sketches(documents.iter().map(|&d| (d, segment_set(d))));
        let partition = |segment| segment_documents(segment).chunks(20).map(batch).collect::<Vec<_>>();
        let partitions: Vec<_> = (0..PARTITIONS).map(partition).collect();
        let schema = partitions[0][0].schema();
        MemorySourceConfig::try_new_exec(&partitions, schema, None).unwrap()
    }

    /// All pairs whose smaller document is in a segment.
    fn pairs(segment: u64) -> Vec<(u64, u64)> {
        let pairs = |a: u64| (a + 1..SEGMENT_DOCUMENTS).map(move |b| (a, b));
        segment_documents(segment).into_iter().flat_map(pairs).collect()
    }

    async fn segment_scored(
        pool: usize,
        pairs: impl Fn(u64) -> Vec<(u64, u64)>,
    ) -> Result<BTreeSet<(u64, u64)>> {
        let (session, sketches, mut found) = (session(pool), sketches(), BTreeSet::new());
        for segment in 0..PARTITIONS {
            let batches = pairs(segment).chunks(1_000).map(|pairs| numbers(["a", "b"], pairs)).collect();
            let (sketches, pairs) = (Arc::clone(&sketches), stream_of(batches));
            let batches = score_segment(sketches, segment as usize, pairs, scorer(), session.task_ctx());
            found.append(&mut fixtures::scored(batches).await?);
        }
        assert_eq!(session.runtime_env().memory_pool.reserved(), 0);
        Ok(found)
    }

    #[tokio::test]
    async fn pairs_that_do_not_fit_wait_for_the_next_pass() {
        let all = (0..PARTITIONS).flat_map(pairs);
        let expected: BTreeSet<_> = all.filter(|(a, b)| (b - a).is_multiple_of(100)).collect();
        // The sketches of a segment take over a tenth of a megabyte, and its pairs over half a megabyte.
        for pool in [1 << 30, 400 << 10] {
            assert_eq!(segment_scored(pool, pairs).await.unwrap(), expected, "a pool of {pool} bytes");
        }
        let error = segment_scored(50 << 10, pairs).await.unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    }

    #[tokio::test]
    async fn a_candidate_without_a_sketch_is_an_error() {
        let unknown = |segment: u64| vec![(segment, SEGMENT_DOCUMENTS + segment)];
        let error = segment_scored(1 << 30, unknown).await.unwrap_err().to_string();
        assert!(error.contains("the sketches of 0 candidates of 1 came"), "{error}");
    }
}
