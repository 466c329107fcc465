//! Candidate pairs looked up in the stored sketches, scored, and kept where the score reaches the threshold.
//!
//! The sketches come in once and stay; a pair costs two look-ups and one merge of two sorted sets, and copies
//! nothing. The plan hands over only the sketches that can be asked for (see [`crate::stage::scores`]), and
//! splits the key space where those do not fit the memory budget.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{
    ArrayBuilder, ArrayRef, Float64Builder, RecordBatch, UInt16Builder, UInt64Builder,
};
use datafusion::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::{as_list_array, as_uint32_array, as_uint64_array};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{Stream, StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::exec::{Batches, Requirement, Work};
use super::node::Operator;
use crate::job::{self, ScoreBy};
use crate::udf::jaccard::{shared, shared_at_least};
use crate::udf::minhash_similarity::minhash_similarity;

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::UInt64, false),
        Field::new("b", DataType::UInt64, false),
        Field::new("shared", DataType::UInt64, false),
        Field::new("shingles_a", DataType::UInt64, false),
        Field::new("shingles_b", DataType::UInt64, false),
        Field::new("estimate", DataType::Float64, false),
        Field::new("shared_bands", DataType::UInt16, false),
    ]))
});

/// The columns (a, b, shared, shingles_a, shingles_b, estimate, shared_bands) of scored pairs, a < b.
///
/// `shared`, `shingles_a` and `shingles_b` count distinct shingles, `shared_bands` the bands in which the two
/// signatures agree in every row; `estimate` is the share of equal values in the two signatures.
pub fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// How pairs are probed and which of them are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scoring {
    /// The threshold and what it is for.
    pub score: job::Score,
    /// Bands of the signature.
    pub bands: usize,
    /// Rows of a band.
    pub rows: usize,
    /// What a row of the probes says.
    pub probe: Probe,
}

/// What a row of the probes says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Probe {
    /// (a, b): score this pair.
    Candidates,
    /// (slice, slices): score the `slice`-th of `slices` shares of all pairs between documents of key segment
    /// `left` and documents of key segment `right`, of `segments` in all.
    All {
        /// One of the two segments, at most `right`.
        left: u64,
        /// The other one, or the same.
        right: u64,
        /// Segments that the keys are divided into: a document's segment is `doc % segments`.
        segments: u64,
    },
}

impl fmt::Display for Scoring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.score.by {
            ScoreBy::Shingles => "jaccard",
            ScoreBy::Signature => "estimate",
        };
        write!(f, "{by} >= {}, {} x {}", self.score.threshold, self.bands, self.rows)?;
        match self.probe {
            Probe::Candidates => write!(f, ", candidates"),
            Probe::All { left, right, segments } => write!(f, ", all of {left}+{right}/{segments}"),
        }
    }
}

type Built = Result<Arc<Sketches>, Arc<DataFusionError>>;

/// Sketches (doc: UInt64, shingles: `List<UInt64>`, signature: `List<UInt32>`) and probes -> scored pairs.
///
/// The sketches are one partition and are read whole before the first probe; the probes keep their partitions.
#[derive(Debug)]
pub(super) struct Score {
    scoring: Scoring,
    built: OnceCell<Built>,
}

impl Score {
    pub(super) fn new(scoring: Scoring) -> Self {
        Self { scoring, built: OnceCell::new() }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.scoring.fmt(f)
    }
}

impl Work for Score {
    const NAME: &'static str = "ScoreExec";

    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn requirements(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Vec<Requirement>> {
        match inputs.len() {
            2 => Ok(vec![Requirement::whole(), Requirement::none()]),
            other => internal_err!("scores are made of sketches and probes, not of {other} inputs"),
        }
    }

    fn start(
        self: Arc<Self>,
        inputs: &[Arc<dyn ExecutionPlan>],
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<Batches> {
        let [sketches, probes] = inputs else { return internal_err!("scores have two inputs") };
        let probes = probes.execute(partition, Arc::clone(&context))?;
        let sketches = Arc::clone(sketches);
        let batch_size = context.session_config().batch_size();
        let batches = futures::stream::once(async move {
            let read = async || Sketches::read(sketches, context).await.map(Arc::new).map_err(Arc::new);
            let sketches = self.built.get_or_init(read).await.clone().map_err(DataFusionError::Shared)?;
            let scorer = Scorer { sketches, scoring: self.scoring.clone(), batch_size };
            Ok::<_, DataFusionError>(scorer.stream(probes))
        });
        Ok(batches.try_flatten().boxed())
    }

    fn fresh(&self) -> Self {
        Self::new(self.scoring.clone())
    }

    fn operator(&self) -> Operator {
        Operator::Score(self.scoring.clone())
    }
}

/// Document keys are hashes already: hashing them again would only cost time.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// The sketches in memory, as they came out of Parquet: nothing is copied after decoding.
#[derive(Debug)]
struct Sketches {
    batches: Vec<Sketch>,
    places: HashMap<u64, Place, BuildHasherDefault<KeyHasher>>,
    _held: MemoryReservation,
}

/// Where a document's sketch is.
#[derive(Debug, Clone, Copy)]
struct Place {
    batch: u32,
    row: u32,
}

#[derive(Debug)]
struct Sketch {
    shingles: OffsetBuffer<i32>,
    shingle_values: ScalarBuffer<u64>,
    signatures: OffsetBuffer<i32>,
    signature_values: ScalarBuffer<u32>,
}

impl Sketch {
    fn try_new(batch: &RecordBatch) -> Result<Self> {
        let shingles = as_list_array(batch.column(1))?;
        let signatures = as_list_array(batch.column(2))?;
        Ok(Self {
            shingles: shingles.offsets().clone(),
            shingle_values: as_uint64_array(shingles.values())?.values().clone(),
            signatures: signatures.offsets().clone(),
            signature_values: as_uint32_array(signatures.values())?.values().clone(),
        })
    }
}

impl Sketches {
    async fn read(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Self> {
        let held = MemoryConsumer::new("Score").register(context.memory_pool());
        let mut input = plan.execute(0, context)?;
        let mut batches = Vec::new();
        let mut places = HashMap::<u64, Place, BuildHasherDefault<KeyHasher>>::default();
        while let Some(batch) = input.next().await.transpose()? {
            // A place takes 16 bytes; the table that holds them is at most doubled while it grows.
            held.try_grow(batch.get_array_memory_size() + 48 * batch.num_rows())?;
            let keys = as_uint64_array(batch.column(0))?;
            let at = u32::try_from(batches.len()).map_err(|e| DataFusionError::External(e.into()))?;
            for (row, &key) in (0u32..).zip(keys.values()) {
                places.insert(key, Place { batch: at, row });
            }
            batches.push(Sketch::try_new(&batch)?);
        }
        Ok(Self { batches, places, _held: held })
    }

    fn place(&self, doc: u64) -> Result<Place> {
        match self.places.get(&doc) {
            Some(&place) => Ok(place),
            None => internal_err!("document {doc} is a candidate and has no sketch"),
        }
    }

    fn shingles(&self, place: Place) -> &[u64] {
        let sketch = &self.batches[place.batch as usize];
        slice(&sketch.shingles, &sketch.shingle_values, place.row)
    }

    fn signature(&self, place: Place) -> &[u32] {
        let sketch = &self.batches[place.batch as usize];
        slice(&sketch.signatures, &sketch.signature_values, place.row)
    }

    /// The documents of a key segment, by size and then by key, so that those of a like size stand together.
    fn by_size(&self, segment: u64, segments: u64) -> Vec<Entry> {
        let mut docs: Vec<Entry> = self
            .places
            .iter()
            .filter(|(doc, _)| *doc % segments == segment)
            .map(|(&doc, &place)| Entry { size: self.shingles(place).len(), doc, place })
            .collect();
        docs.sort_unstable_by_key(|d| (d.size, d.doc));
        docs
    }
}

/// The share of equal values; a run's signatures all have one length.
fn estimate(a: &[u32], b: &[u32]) -> f64 {
    minhash_similarity(a, b).unwrap_or(0.0)
}

fn slice<'a, T>(offsets: &OffsetBuffer<i32>, values: &'a [T], row: u32) -> &'a [T] {
    let row = row as usize;
    // Arrow keeps list offsets at 0 or above and in order.
    &values[offsets[row] as usize..offsets[row + 1] as usize]
}

/// A document of known size, for the search of pairs among all.
#[derive(Debug, Clone, Copy)]
struct Entry {
    size: usize,
    doc: u64,
    place: Place,
}

/// Scored pairs on their way into a batch.
#[derive(Default)]
struct Found {
    a: UInt64Builder,
    b: UInt64Builder,
    shared: UInt64Builder,
    shingles_a: UInt64Builder,
    shingles_b: UInt64Builder,
    estimate: Float64Builder,
    shared_bands: UInt16Builder,
}

impl Found {
    fn finish(&mut self) -> Result<Option<RecordBatch>> {
        if self.a.is_empty() {
            return Ok(None);
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.a.finish()),
            Arc::new(self.b.finish()),
            Arc::new(self.shared.finish()),
            Arc::new(self.shingles_a.finish()),
            Arc::new(self.shingles_b.finish()),
            Arc::new(self.estimate.finish()),
            Arc::new(self.shared_bands.finish()),
        ];
        Ok(Some(RecordBatch::try_new(schema(), columns)?))
    }

    fn is_full(&self, rows: usize) -> bool {
        self.a.len() >= rows
    }
}

struct Scorer {
    sketches: Arc<Sketches>,
    scoring: Scoring,
    batch_size: usize,
}

impl Scorer {
    /// Scores the pair and keeps it if it reaches the threshold.
    fn score(&self, (a, at_a): (u64, Place), (b, at_b): (u64, Place), found: &mut Found) {
        let ((a, at_a), (b, at_b)) = if a < b { ((a, at_a), (b, at_b)) } else { ((b, at_b), (a, at_a)) };
        let (set_a, set_b) = (self.sketches.shingles(at_a), self.sketches.shingles(at_b));
        let (signature_a, signature_b) = (self.sketches.signature(at_a), self.sketches.signature(at_b));
        let job::Score { threshold, by, prefilter } = self.scoring.score;
        let by_estimate = prefilter || by == ScoreBy::Signature;
        if by_estimate && estimate(signature_a, signature_b) < threshold {
            return;
        }
        let shared = match by {
            ScoreBy::Shingles => shared_at_least(set_a, set_b, threshold),
            ScoreBy::Signature => Some(shared(set_a, set_b)),
        };
        let Some(shared) = shared else { return };
        found.a.append_value(a);
        found.b.append_value(b);
        found.shared.append_value(shared);
        found.shingles_a.append_value(set_a.len() as u64);
        found.shingles_b.append_value(set_b.len() as u64);
        found.estimate.append_value(estimate(signature_a, signature_b));
        found.shared_bands.append_value(self.shared_bands(signature_a, signature_b));
    }

    fn shared_bands(&self, a: &[u32], b: &[u32]) -> u16 {
        let rows = self.scoring.rows.max(1);
        let bands = a.chunks_exact(rows).zip(b.chunks_exact(rows)).take(self.scoring.bands);
        bands.filter(|(a, b)| a == b).count().try_into().unwrap_or(u16::MAX)
    }

    fn stream(self, probes: SendableRecordBatchStream) -> Batches {
        match self.scoring.probe {
            Probe::Candidates => self.candidates(probes).boxed(),
            Probe::All { left, right, segments } => self.all(probes, left, right, segments).boxed(),
        }
    }

    fn candidates(self, probes: SendableRecordBatchStream) -> impl Stream<Item = Result<RecordBatch>> {
        let score_batch = move |probe: Result<RecordBatch>| {
            let probe = probe?;
            let (a, b) = (as_uint64_array(probe.column(0))?, as_uint64_array(probe.column(1))?);
            let mut found = Found::default();
            for (&a, &b) in a.values().iter().zip(b.values()) {
                self.score((a, self.sketches.place(a)?), (b, self.sketches.place(b)?), &mut found);
            }
            found.finish()
        };
        probes.map(score_batch).filter_map(async |batch| batch.transpose())
    }

    fn all(
        self,
        probes: SendableRecordBatchStream,
        left: u64,
        right: u64,
        segments: u64,
    ) -> impl Stream<Item = Result<RecordBatch>> {
        let lefts = self.sketches.by_size(left, segments);
        let rights = (left != right).then(|| self.sketches.by_size(right, segments));
        let search = All { scorer: self, probes, lefts, rights, slice: None };
        futures::stream::try_unfold(search, async |mut search| {
            Ok(search.next_batch().await?.map(|batch| (batch, search)))
        })
    }
}

/// The search of all pairs between two key segments: each document with those of a size that could match.
struct All {
    scorer: Scorer,
    probes: SendableRecordBatchStream,
    lefts: Vec<Entry>,
    /// None where both segments are the same.
    rights: Option<Vec<Entry>>,
    /// The slice being searched, as the left documents still to do.
    slice: Option<std::iter::StepBy<std::ops::Range<usize>>>,
}

impl All {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut found = Found::default();
        while !found.is_full(self.scorer.batch_size) {
            match self.slice.as_mut().map(Iterator::next) {
                Some(Some(left)) => {
                    self.search(left, &mut found);
                    // A search takes long and never waits by itself: let a stop signal and other tasks in.
                    tokio::task::consume_budget().await;
                }
                Some(None) => self.slice = None,
                None => match self.probes.next().await.transpose()? {
                    Some(probe) => self.slice = Some(self.slice_of(&probe)?),
                    None => break,
                },
            }
        }
        found.finish()
    }

    fn slice_of(&self, probe: &RecordBatch) -> Result<std::iter::StepBy<std::ops::Range<usize>>> {
        let (slice, slices) = (as_uint64_array(probe.column(0))?, as_uint64_array(probe.column(1))?);
        if probe.num_rows() != 1 || slices.value(0) == 0 {
            return internal_err!("a probe of all pairs is one row (slice, slices)");
        }
        let (first, step) = (slice.value(0) as usize, slices.value(0) as usize);
        Ok((first.min(self.lefts.len())..self.lefts.len()).step_by(step))
    }

    fn search(&self, at: usize, found: &mut Found) {
        let left = self.lefts[at];
        let threshold = self.scorer.scoring.score.threshold;
        let by_signature = self.scorer.scoring.score.by == ScoreBy::Signature;
        // Only the exact score is bounded by the sizes: the smaller set over the larger one.
        let close = |a: usize, b: usize| by_signature || a.min(b) as f64 / a.max(b) as f64 >= threshold;
        let (others, start) = match &self.rights {
            None => (&self.lefts, at + 1),
            Some(rights) => {
                (rights, rights.partition_point(|r| r.size < left.size && !close(r.size, left.size)))
            }
        };
        for right in &others[start..] {
            if right.size > left.size && !close(left.size, right.size) {
                break;
            }
            self.scorer.score((left.doc, left.place), (right.doc, right.place), found);
        }
    }
}
