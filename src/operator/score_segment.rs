//! Scores of candidates by segments of the documents: a task holds the sketches of one segment, and streams those of all
//! segments past them.
//!
//! This is a block nested loop join on disk: the sketches are written once and read once for each segment, for any number of
//! candidates. The pairs of a segment are those whose lesser document is in it. As many of them as fit in memory wait
//! in the order of their greater documents, so that each streamed sketch finds its pairs.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, stream};

use super::score_home::ends;
use super::scorer::{ScoreBuilder, Scorer};
use super::sketches::{SketchedDocument, Sketches, each_document};
use crate::plan::Batches;

/// Bytes of waiting pairs, if the sketches of the segment take less.
const LEAST_WAITING: usize = 4 << 20;

/// Scores the `pairs` (a, b) of a segment. `sketches` (doc, shingles, signature) has a partition for each segment.
pub(super) fn score_segment(
    sketches: Arc<dyn ExecutionPlan>,
    segment: usize,
    pairs: SendableRecordBatchStream,
    scorer: Scorer,
    context: Arc<TaskContext>,
) -> Batches {
    let held = || MemoryConsumer::new("Score").register(context.memory_pool());
    let passes = Passes {
        held: Sketches::new(held()),
        waiting: WaitingPairs { pairs: Vec::new(), room: held(), ahead: None, rest: pairs },
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
    /// The sketches of the segment, read with its first pair.
    held: Sketches,
    waiting: WaitingPairs,
    /// The distance from this segment to the next one to stream; `None` between two passes.
    next: Option<usize>,
    /// The streamed sketches.
    past: Option<SendableRecordBatchStream>,
    /// Pairs of this pass whose greater document was streamed.
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
            // If all of it is in memory, nothing waits: let other tasks run, and a stop signal through.
            tokio::task::consume_budget().await;
        }
        kept.finish()
    }

    /// Begins the next segment, or the next pass; false if there are no more pairs.
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

    /// Scores the pairs whose greater documents are in a batch.
    fn score(&mut self, batch: &RecordBatch, kept: &mut ScoreBuilder) -> Result<()> {
        let Self { held, waiting, scorer, found, .. } = self;
        each_document(batch, |document| {
            *found += waiting.score(held, document, *scorer, kept)?;
            Ok(())
        })
    }
}

/// Pairs of a segment that wait for the sketches of their greater documents.
struct WaitingPairs {
    /// (b, a), in order.
    pairs: Vec<(u64, u64)>,
    room: MemoryReservation,
    /// Pairs that were read and did not fit.
    ahead: Option<RecordBatch>,
    rest: SendableRecordBatchStream,
}

impl WaitingPairs {
    /// Whether there are further pairs.
    async fn more(&mut self) -> Result<bool> {
        while self.ahead.as_ref().is_none_or(|batch| batch.num_rows() == 0) {
            match self.rest.next().await.transpose()? {
                Some(batch) => self.ahead = Some(batch),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Takes as many pairs as fit in addition to `held` bytes of sketches.
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

    /// Reserves memory for `more` pairs; false if the memory does not suffice. The first batch must fit.
    fn make_room(&mut self, more: usize, most: usize) -> bool {
        let wanted = self.pairs.len() + more;
        if wanted <= self.pairs.capacity() {
            return true;
        }
        let bytes = |pairs: usize| pairs * size_of::<(u64, u64)>();
        let roomy = wanted.max(self.pairs.len() + self.pairs.len() / 2);
        let fits = bytes(wanted) <= most && self.room.try_resize(bytes(roomy)).is_ok();
        if fits || self.pairs.is_empty() {
            let capacity = if fits { roomy } else { wanted };
            self.pairs.reserve_exact(capacity - self.pairs.len());
            self.room.resize(bytes(self.pairs.capacity()));
            return true;
        }
        false
    }

    /// Scores the pairs whose greater document is `b`, and returns their number.
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
    use datafusion::common::DataFusionError;

    use super::*;
    use crate::operator::fixtures::{self, numbers, scorer, session, stream_of};

    const DOCUMENTS: u64 = 600;
    const SEGMENTS: u64 = 5;

    /// Documents share nine shingles of ten with those whose number differs by a multiple of 100.
    fn set(document: u64) -> Vec<u64> {
        let of_group = (0..90).map(|i| document % 100 * 1_000 + i);
        of_group.chain((0..10).map(|i| 1_000_000 + document * 10 + i)).collect()
    }

    fn of_segment(segment: u64) -> Vec<u64> {
        (0..DOCUMENTS).filter(|document| document % SEGMENTS == segment).collect()
    }

    fn sketches() -> Arc<dyn ExecutionPlan> {
        let batch = |documents: &[u64]| fixtures::sketches(documents.iter().map(|&d| (d, set(d))));
        let partition = |segment| of_segment(segment).chunks(20).map(batch).collect::<Vec<_>>();
        let partitions: Vec<_> = (0..SEGMENTS).map(partition).collect();
        let schema = partitions[0][0].schema();
        MemorySourceConfig::try_new_exec(&partitions, schema, None).unwrap()
    }

    /// All pairs whose lesser document is in a segment.
    fn pairs(segment: u64) -> Vec<(u64, u64)> {
        of_segment(segment).into_iter().flat_map(|a| (a + 1..DOCUMENTS).map(move |b| (a, b))).collect()
    }

    async fn scored(pool: usize, pairs: impl Fn(u64) -> Vec<(u64, u64)>) -> Result<BTreeSet<(u64, u64)>> {
        let (session, sketches, mut found) = (session(pool), sketches(), BTreeSet::new());
        for segment in 0..SEGMENTS {
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
        let all = (0..SEGMENTS).flat_map(pairs);
        let expected: BTreeSet<_> = all.filter(|(a, b)| (b - a).is_multiple_of(100)).collect();
        // The sketches of a segment take over a tenth of a megabyte, its pairs over half of one.
        for pool in [1 << 30, 400 << 10] {
            assert_eq!(scored(pool, pairs).await.unwrap(), expected, "a pool of {pool} bytes");
        }
        let error = scored(50 << 10, pairs).await.unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    }

    #[tokio::test]
    async fn a_candidate_without_a_sketch_is_an_error() {
        let unknown = |segment: u64| vec![(segment, DOCUMENTS + segment)];
        let error = scored(1 << 30, unknown).await.unwrap_err().to_string();
        assert!(error.contains("the sketches of 0 candidates of 1 came"), "{error}");
    }
}
