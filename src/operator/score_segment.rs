//! Candidates by segments of the documents: a task holds the sketches of one segment, and reads those of all segments past
//! them.
//!
//! This is a block nested loop join on disk: the sketches are written once and read once for each segment, however many
//! candidates there are. The pairs of a segment are those whose lesser document is in it. As many of them as there is room
//! for wait in the order of their greater documents, so that a sketch that comes past finds its own.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{StreamExt, stream};

use super::score_home::ends;
use super::scorer::{Scorer, Scores};
use super::sketches::{Document, Sketches, each_document};
use crate::plan::Batches;

/// Bytes of pairs that may wait where the sketches of the segment take less.
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
        waiting: Waiting { pairs: Vec::new(), room: held(), ahead: None, rest: pairs },
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

/// The scoring of a segment: for as many pairs as there is room for, a pass over all sketches.
struct Passes {
    sketches: Arc<dyn ExecutionPlan>,
    segment: usize,
    scorer: Scorer,
    context: Arc<TaskContext>,
    /// The sketches of the segment, once there is a pair.
    held: Sketches,
    waiting: Waiting,
    /// Of the segments from the own one on, the next whose sketches come past; none before the first pass and after the last.
    next: Option<usize>,
    /// The sketches that come past.
    past: Option<SendableRecordBatchStream>,
    /// Pairs of this pass whose greater document has come.
    found: usize,
}

impl Passes {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let batch_size = self.context.session_config().batch_size();
        let mut kept = Scores::default();
        while !kept.is_full(batch_size) {
            if let Some(past) = &mut self.past {
                match past.next().await.transpose()? {
                    Some(batch) => self.score(&batch, &mut kept)?,
                    None => self.past = None,
                }
            } else if !self.go_on(&mut kept).await? {
                break;
            }
            // All of it may be in memory, and then nothing waits by itself: let a stop signal and other tasks in.
            tokio::task::consume_budget().await;
        }
        kept.finish()
    }

    /// Begins with the next segment, or with the next pairs; false if there are none.
    async fn go_on(&mut self, kept: &mut Scores) -> Result<bool> {
        let segments = self.sketches.output_partitioning().partition_count();
        match self.next {
            None => {
                if !self.waiting.more().await? {
                    return Ok(false);
                }
                if self.held.is_empty() {
                    self.hold().await?;
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

    /// Reads the sketches of the segment.
    async fn hold(&mut self) -> Result<()> {
        let mut own = self.sketches.execute(self.segment, Arc::clone(&self.context))?;
        while let Some(batch) = own.next().await.transpose()? {
            self.held.add(&batch)?;
        }
        Ok(())
    }

    /// Scores the pairs whose greater documents are in a batch.
    fn score(&mut self, batch: &RecordBatch, kept: &mut Scores) -> Result<()> {
        let Self { held, waiting, scorer, found, .. } = self;
        each_document(batch, |document| {
            *found += waiting.score(held, document, *scorer, kept)?;
            Ok(())
        })
    }
}

/// Pairs of a segment that wait for the sketches of their greater documents.
struct Waiting {
    /// (b, a), in order.
    pairs: Vec<(u64, u64)>,
    room: MemoryReservation,
    /// Pairs for which there was no room.
    ahead: Option<RecordBatch>,
    rest: SendableRecordBatchStream,
}

impl Waiting {
    /// Whether there are pairs that have not waited yet.
    async fn more(&mut self) -> Result<bool> {
        while self.ahead.as_ref().is_none_or(|batch| batch.num_rows() == 0) {
            match self.rest.next().await.transpose()? {
                Some(batch) => self.ahead = Some(batch),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Takes as many of them as there is room for, besides sketches of so many bytes.
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

    /// Makes room for `more` pairs, or says that there is none. What a batch takes is the least that there must be room for.
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

    /// Scores the pairs whose greater document is `b`; how many they are.
    fn score(&self, held: &Sketches, b: Document<'_>, scorer: Scorer, kept: &mut Scores) -> Result<usize> {
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

    use arrow::array::{ArrayRef, AsArray, ListArray, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type, UInt64Type};
    use datafusion::catalog::memory::MemorySourceConfig;
    use datafusion::common::DataFusionError;
    use datafusion::execution::memory_pool::FairSpillPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::prelude::{SessionConfig, SessionContext};
    use futures::TryStreamExt;

    use super::*;
    use crate::job::{Measure, Score, ScoreBy};

    const DOCUMENTS: u64 = 600;
    const SEGMENTS: u64 = 5;

    /// Every document shares nine shingles of ten with those whose number differs by a multiple of 100.
    fn set(document: u64) -> Vec<u64> {
        let of_group = (0..90).map(|i| document % 100 * 1_000 + i);
        of_group.chain((0..10).map(|i| 1_000_000 + document * 10 + i)).collect()
    }

    fn sketches() -> Arc<dyn ExecutionPlan> {
        let batch = |documents: Vec<u64>| {
            let lists = |set: fn(u64) -> Vec<u64>| documents.iter().map(move |d| set(*d));
            let some = |set: Vec<u64>| Some(set.into_iter().map(Some).collect::<Vec<_>>());
            let shingles = ListArray::from_iter_primitive::<UInt64Type, _, _>(lists(set).map(some));
            let signature = |d: &u64| Some(vec![Some(*d as u32), Some(7)]);
            let signatures =
                ListArray::from_iter_primitive::<UInt32Type, _, _>(documents.iter().map(signature));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(UInt64Array::from(documents.clone())),
                Arc::new(shingles),
                Arc::new(signatures),
            ];
            let names = ["doc", "shingles", "signature"];
            let fields = names.iter().zip(&columns).map(|(n, c)| Field::new(*n, c.data_type().clone(), true));
            RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).unwrap()
        };
        let segment = |segment: u64| -> Vec<RecordBatch> {
            let documents: Vec<u64> = (0..DOCUMENTS).filter(|d| d % SEGMENTS == segment).collect();
            documents.chunks(20).map(|some| batch(some.to_vec())).collect()
        };
        let partitions: Vec<_> = (0..SEGMENTS).map(segment).collect();
        let schema = partitions[0][0].schema();
        MemorySourceConfig::try_new_exec(&partitions, schema, None).unwrap()
    }

    fn stream_of(schema: SchemaRef, batches: Vec<RecordBatch>) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches.into_iter().map(Ok))))
    }

    /// All pairs whose lesser document is in a segment.
    fn pairs(segment: u64) -> SendableRecordBatchStream {
        let lesser = (0..DOCUMENTS).filter(|d| d % SEGMENTS == segment);
        let ends: Vec<(u64, u64)> = lesser.flat_map(|a| (a + 1..DOCUMENTS).map(move |b| (a, b))).collect();
        let column = |name| Field::new(name, DataType::UInt64, false);
        let schema = Arc::new(Schema::new(vec![column("a"), column("b")]));
        let batches = ends.chunks(1_000).map(|ends| {
            let (a, b): (Vec<u64>, Vec<u64>) = ends.iter().copied().unzip();
            let columns: Vec<ArrayRef> = vec![Arc::new(UInt64Array::from(a)), Arc::new(UInt64Array::from(b))];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        });
        stream_of(Arc::clone(&schema), batches.collect())
    }

    async fn scored(
        pool: usize,
        pairs: impl Fn(u64) -> SendableRecordBatchStream,
    ) -> Result<BTreeSet<(u64, u64)>> {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(pool)));
        let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime.build_arc().unwrap());
        let score =
            Score { threshold: 0.8, measure: Measure::Jaccard, by: ScoreBy::Shingles, prefilter: false };
        let (scorer, sketches, mut found) =
            (Scorer { score, bands: 1, rows: 1 }, sketches(), BTreeSet::new());
        for segment in 0..SEGMENTS {
            let (sketches, context) = (Arc::clone(&sketches), context.task_ctx());
            let batches = score_segment(sketches, segment as usize, pairs(segment), scorer, context);
            for batch in batches.try_collect::<Vec<_>>().await? {
                let column = |at: usize| batch.column(at).as_primitive::<UInt64Type>().values().to_vec();
                for pair in column(0).into_iter().zip(column(1)) {
                    assert!(found.insert(pair), "{pair:?} came twice");
                }
            }
        }
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
        Ok(found)
    }

    #[tokio::test]
    async fn pairs_that_do_not_fit_wait_for_the_next_pass() {
        let expected: BTreeSet<(u64, u64)> = (0..DOCUMENTS)
            .flat_map(|a| (a + 1..DOCUMENTS).map(move |b| (a, b)))
            .filter(|(a, b)| (b - a).is_multiple_of(100))
            .collect();
        // The sketches of a segment take a tenth of a megabyte and more, its pairs over half of one.
        for pool in [1 << 30, 400 << 10] {
            assert_eq!(scored(pool, pairs).await.unwrap(), expected, "a pool of {pool} bytes");
        }
        let error = scored(50 << 10, pairs).await.unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    }

    #[tokio::test]
    async fn a_candidate_without_a_sketch_is_an_error() {
        let of_nobody = |segment: u64| {
            let column = |name| Field::new(name, DataType::UInt64, false);
            let schema = Arc::new(Schema::new(vec![column("a"), column("b")]));
            let columns: Vec<ArrayRef> = vec![
                Arc::new(UInt64Array::from(vec![segment])),
                Arc::new(UInt64Array::from(vec![DOCUMENTS + segment])),
            ];
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
            stream_of(schema, vec![batch])
        };
        let error = scored(1 << 30, of_nobody).await.unwrap_err().to_string();
        assert!(error.contains("the sketches of 0 candidates of 1 came"), "{error}");
    }
}
