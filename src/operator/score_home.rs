//! Candidates at their homes: the sketches that a task's pairs ask for are read, and then the pairs one after the other.
//!
//! Plans make homes small. One that is too large all the same, as that of a document with very many candidates, is cut
//! into blocks on disk: sketches by segments of their keys, pairs by the two segments that they are of.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, SpillFile, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::{SpillManager, get_record_batch_memory_size};
use futures::{StreamExt, TryStreamExt, stream};

use super::scorer::{Scorer, Scores};
use super::sketches::{Sketches, docs};
use crate::plan::Batches;

/// Segments of the keys of a home that is too large.
const SEGMENTS: usize = 16;

/// Bytes of a segment that go to disk at once.
const SPILL_BYTES: usize = 1 << 20;

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
            Read::Whole(sketches) => score_all(Arc::new(sketches), pairs, scorer),
            Read::TooLarge { read, rest, held } => {
                tracing::debug!("the sketches of a home do not fit in memory and are cut into blocks");
                let blocks = Blocks::new(read, &held, rest, pairs, &context).await?;
                blocks.score(scorer, held)
            }
        })
    });
    batches.try_flatten().boxed()
}

/// What came of reading sketches.
enum Read {
    Whole(Sketches),
    /// What was read, for which memory is reserved, and what was not.
    TooLarge {
        read: Vec<RecordBatch>,
        rest: SendableRecordBatchStream,
        held: MemoryReservation,
    },
}

async fn read(mut input: SendableRecordBatchStream, held: MemoryReservation) -> Result<Read> {
    let mut sketches = Sketches::new(held);
    while let Some(batch) = input.next().await.transpose()? {
        match sketches.add(&batch) {
            Ok(()) => {}
            Err(error) if matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)) => {
                let (mut read, held) = sketches.into_rows();
                read.push(batch);
                return Ok(Read::TooLarge { read, rest: input, held });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(Read::Whole(sketches))
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
    let mut kept = Scores::default();
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

/// The segment of a document. The lower bits of its key have decided on the home.
fn segment(doc: u64) -> usize {
    (doc >> 48) as usize % SEGMENTS
}

/// The number of the block of pairs between two segments.
fn block(one: usize, other: usize) -> usize {
    one.min(other) * SEGMENTS + one.max(other)
}

/// A home on disk.
struct Blocks {
    sketches: Parts,
    pairs: Parts,
}

impl Blocks {
    async fn new(
        read: Vec<RecordBatch>,
        held: &MemoryReservation,
        rest: SendableRecordBatchStream,
        mut pairs: SendableRecordBatchStream,
        context: &TaskContext,
    ) -> Result<Self> {
        let mut of_sketches = Parts::new(SEGMENTS, rest.schema(), context);
        // What is divided takes its place.
        let read = stream::iter(read).map(|batch| {
            held.shrink(get_record_batch_memory_size(&batch).min(held.size()));
            Ok(batch)
        });
        let mut all = read.chain(rest);
        while let Some(batch) = all.next().await.transpose()? {
            of_sketches.divide(&batch, docs(&batch)?.iter().map(|&doc| segment(doc)))?;
        }
        of_sketches.spill()?;
        held.free();
        let mut of_pairs = Parts::new(SEGMENTS * SEGMENTS, pairs.schema(), context);
        while let Some(batch) = pairs.next().await.transpose()? {
            let (a, b) = ends(&batch)?;
            of_pairs.divide(&batch, a.iter().zip(b).map(|(&a, &b)| block(segment(a), segment(b))))?;
        }
        of_pairs.spill()?;
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
                if this.pairs.files[block(one, other)].is_empty() {
                    return Ok::<_, DataFusionError>(stream::empty().boxed());
                }
                let mut sketches = Sketches::new(held.new_empty());
                this.sketches.read_into(one, &mut sketches).await?;
                if one != other {
                    this.sketches.read_into(other, &mut sketches).await?;
                }
                Ok(score_all(Arc::new(sketches), this.pairs.read(block(one, other))?, scorer))
            }
        });
        scored.try_flatten().boxed()
    }
}

/// Rows on disk, in parts.
struct Parts {
    spills: SpillManager,
    schema: SchemaRef,
    /// What is not yet on disk of each part, and its bytes.
    pending: Vec<(Vec<RecordBatch>, usize)>,
    /// For what is not yet on disk.
    held: MemoryReservation,
    files: Vec<Vec<Arc<dyn SpillFile>>>,
}

impl Parts {
    fn new(count: usize, schema: SchemaRef, context: &TaskContext) -> Self {
        let metrics = SpillMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        Self {
            spills: SpillManager::new(context.runtime_env(), metrics, Arc::clone(&schema)),
            schema,
            pending: vec![(Vec::new(), 0); count],
            held: MemoryConsumer::new("ScoreParts").register(context.memory_pool()),
            files: vec![Vec::new(); count],
        }
    }

    /// Adds each row of a batch to the part that `parts` gives for it. Where the pool has no room for them, all that waits goes
    /// to disk first; what a batch takes is the least that there must be room for.
    fn divide(&mut self, batch: &RecordBatch, parts: impl Iterator<Item = usize>) -> Result<()> {
        let mut rows = vec![Vec::new(); self.pending.len()];
        for (row, part) in (0u32..).zip(parts) {
            rows[part].push(row);
        }
        for (part, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let rows = take_record_batch(batch, &UInt32Array::from(rows))?;
            let size = get_record_batch_memory_size(&rows);
            if self.held.try_grow(size).is_err() {
                self.spill()?;
                self.held.grow(size);
            }
            let (pending, bytes) = &mut self.pending[part];
            *bytes += size;
            pending.push(rows);
            if *bytes >= SPILL_BYTES {
                self.spill_part(part)?;
            }
        }
        Ok(())
    }

    /// Writes what is not yet on disk.
    fn spill(&mut self) -> Result<()> {
        (0..self.pending.len()).try_for_each(|part| self.spill_part(part))
    }

    fn spill_part(&mut self, part: usize) -> Result<()> {
        let (pending, bytes) = std::mem::take(&mut self.pending[part]);
        self.held.shrink(bytes);
        if !pending.is_empty() {
            let rows = arrow::compute::concat_batches(&self.schema, &pending)?;
            self.files[part].extend(self.spills.spill_record_batch_and_finish(&[rows], "a home")?);
        }
        Ok(())
    }

    fn read(&self, part: usize) -> Result<SendableRecordBatchStream> {
        let files = self.files[part].iter();
        let streams = files.map(|file| self.spills.read_spill_as_stream_unbuffered(Arc::clone(file), None));
        let streams = streams.collect::<Result<Vec<_>>>()?;
        let batches = stream::iter(streams).flatten();
        Ok(Box::pin(datafusion::physical_plan::stream::RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        )))
    }

    async fn read_into(&self, part: usize, sketches: &mut Sketches) -> Result<()> {
        let mut rows = self.read(part)?;
        while let Some(batch) = rows.next().await.transpose()? {
            sketches.add(&batch)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use arrow::array::{AsArray, ListArray, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema, UInt32Type, UInt64Type};
    use datafusion::execution::memory_pool::FairSpillPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
    use datafusion::prelude::{SessionConfig, SessionContext};

    use super::*;
    use crate::job::{Measure, Score, ScoreBy};

    const DOCUMENTS: u64 = 1_000;
    const SHINGLES: u64 = 500;

    /// Keys that are spread as hashes are.
    fn key(document: u64) -> u64 {
        document.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Documents of which each shares nine tenths of its shingles with the next, and every tenth pair of them no shingle.
    fn set(document: u64) -> Vec<u64> {
        let start = document / 10 * 10 * SHINGLES + document % 10 * SHINGLES / 20;
        (start..start + SHINGLES).collect()
    }

    fn stream_of(batches: Vec<RecordBatch>) -> SendableRecordBatchStream {
        let schema = batches[0].schema();
        Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(batches.into_iter().map(Ok))))
    }

    fn sketches() -> SendableRecordBatchStream {
        let batch = |documents: std::ops::Range<u64>| {
            let docs = UInt64Array::from_iter_values(documents.clone().map(key));
            let homes = UInt64Array::from_iter_values(documents.clone().map(|_| 3));
            let some = |set: Vec<u64>| Some(set.into_iter().map(Some).collect::<Vec<_>>());
            let shingles =
                ListArray::from_iter_primitive::<UInt64Type, _, _>(documents.clone().map(|d| some(set(d))));
            let signatures = ListArray::from_iter_primitive::<UInt32Type, _, _>(
                documents.map(|d| Some(vec![Some(d as u32), Some(7)])),
            );
            let item = |name: &str, column: &ListArray| {
                Field::new(name, arrow::array::Array::data_type(column).clone(), true)
            };
            let schema = Schema::new(vec![
                Field::new("home", DataType::UInt64, false),
                Field::new("doc", DataType::UInt64, false),
                item("shingles", &shingles),
                item("signature", &signatures),
            ]);
            let columns: Vec<arrow::array::ArrayRef> =
                vec![Arc::new(homes), Arc::new(docs), Arc::new(shingles), Arc::new(signatures)];
            RecordBatch::try_new(Arc::new(schema), columns).unwrap()
        };
        stream_of((0..DOCUMENTS).step_by(50).map(|start| batch(start..start + 50)).collect())
    }

    /// Every document with the next one.
    fn pairs() -> SendableRecordBatchStream {
        let ends = (1..DOCUMENTS).map(|d| (key(d - 1).min(key(d)), key(d - 1).max(key(d))));
        let (a, b): (Vec<u64>, Vec<u64>) = ends.unzip();
        let column = |name| Field::new(name, DataType::UInt64, false);
        let schema = Arc::new(Schema::new(vec![column("home"), column("a"), column("b")]));
        let batches = a.chunks(100).zip(b.chunks(100)).map(|(a, b)| {
            let homes = UInt64Array::from(vec![3; a.len()]);
            let (a, b) = (UInt64Array::from(a.to_vec()), UInt64Array::from(b.to_vec()));
            let columns: Vec<arrow::array::ArrayRef> = vec![Arc::new(homes), Arc::new(a), Arc::new(b)];
            RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
        });
        stream_of(batches.collect())
    }

    async fn scored(pool: usize) -> Result<BTreeSet<(u64, u64, u64)>> {
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(pool)));
        let context = SessionContext::new_with_config_rt(SessionConfig::new(), runtime.build_arc().unwrap());
        let score =
            Score { threshold: 0.8, measure: Measure::Jaccard, by: ScoreBy::Shingles, prefilter: false };
        let scorer = Scorer { score, bands: 1, rows: 1 };
        let batches = score_home(sketches(), pairs(), scorer, context.task_ctx());
        let batches: Vec<RecordBatch> = batches.try_collect().await?;
        assert_eq!(context.runtime_env().memory_pool.reserved(), 0);
        let mut rows = BTreeSet::new();
        for batch in &batches {
            let column = |at: usize| batch.column(at).as_primitive::<UInt64Type>().values().to_vec();
            for ((a, b), shared) in column(0).into_iter().zip(column(1)).zip(column(2)) {
                assert!(rows.insert((a, b, shared)), "{a} and {b} came twice");
            }
        }
        Ok(rows)
    }

    #[tokio::test]
    async fn a_home_that_is_too_large_is_scored_in_blocks() {
        let whole = scored(1 << 30).await.unwrap();
        let expected = (1..DOCUMENTS)
            .filter(|d| !d.is_multiple_of(10))
            .map(|d| (key(d - 1).min(key(d)), key(d - 1).max(key(d)), SHINGLES - SHINGLES / 20));
        assert_eq!(whole, expected.collect());
        // The sketches take four megabytes and more, and two segments of sixteen a little over half of one.
        assert_eq!(scored(2 << 20).await.unwrap(), whole);
        let error = scored(1 << 17).await.unwrap_err();
        assert!(matches!(error.find_root(), DataFusionError::ResourcesExhausted(_)), "{error}");
    }
}
