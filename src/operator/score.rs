//! Scores of pairs from stored sketches. Pairs whose score reaches the threshold are kept.
//!
//! A pair costs two look-ups and one merge of two sorted sets, and copies nothing.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayBuilder, ArrayRef, Float64Builder, RecordBatch, UInt16Builder, UInt64Builder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::all_pairs::{Segments, all_pairs};
use super::score_home::{score_all, score_home};
use super::score_segment::score_segment;
use super::sketches::{Document, Sketches};
use crate::job::{self, ScoreBy};
use crate::kernel::jaccard::shared;
use crate::kernel::minhash_similarity::minhash_similarity;
use crate::kernel::signature::Signature;
use crate::plan::{Batches, Description, OperatorExec, Requirement, Shape, SharedValue, Task};

/// How pairs are scored, and which of them are kept: sketches and probes -> scored pairs.
///
/// Sketches are (doc: UInt64, shingles: `List<UInt64>`, signature: `List<UInt32>` or Binary), with (home: UInt64) before these
/// for candidates at homes. Sketches that are held whole come in one partition, which is read before the first probe;
/// probes keep their partitions. Otherwise both are partitioned by home or by document. For all pairs, a first column
/// `reference: Boolean` marks reference documents, which are not compared with each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scoring {
    /// The threshold and the measure.
    pub score: job::Score,
    /// Bands of the signature.
    pub bands: usize,
    /// Rows of a band.
    pub rows: usize,
    /// The rows of the probes.
    pub probe: Probe,
}

/// A row of the probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Probe {
    /// (a, b): score this pair. The tasks of a process hold all sketches together.
    Held,
    /// (a, b): score this pair. A task holds the sketches of its partition, a segment of the documents, and streams
    /// those of all partitions past them, so its input must be readable more than once.
    Segments,
    /// (home, a, b): score this pair with the sketches of its home, which is a block of two segments of the documents.
    Blocks,
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

/// The name of the join of sketches and pairs in `plan`; `None` if it scores nothing.
pub(crate) fn join_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&'static str> {
    let own = OperatorExec::<Scoring>::described(plan.as_ref()).map(Scoring::join);
    own.or_else(|| plan.children().into_iter().find_map(join_of))
}

impl Scoring {
    fn scorer(&self) -> Scorer {
        let Scoring { score, bands, rows, .. } = *self;
        Scorer { score, bands, rows }
    }

    /// The name of the join of sketches and pairs.
    pub(crate) fn join(&self) -> &'static str {
        match self.probe {
            Probe::Held => "held",
            Probe::Segments => "segments",
            Probe::Blocks => "blocks",
            Probe::All { .. } => "all",
        }
    }

    /// Whether tasks read the sketches of all partitions.
    pub(crate) fn reads_again(&self) -> bool {
        self.probe == Probe::Segments
    }
}

impl Description for Scoring {
    const NAME: &'static str = "JaccardScoreExec";

    type Shared = SharedValue<Sketches>;

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.score.by {
            ScoreBy::Shingles => write!(f, "{}", self.score.measure)?,
            ScoreBy::Signature => write!(f, "estimate")?,
        }
        write!(f, " >= {}", self.score.threshold)?;
        if self.score.min_shared > 0 {
            write!(f, ", {} shared", self.score.min_shared)?;
        }
        write!(f, ", {} x {}", self.bands, self.rows)?;
        match self.probe {
            Probe::Held => write!(f, ", candidates, held"),
            Probe::Segments => write!(f, ", candidates, segments"),
            Probe::Blocks => write!(f, ", candidates, blocks"),
            Probe::All { left, right, segments } => write!(f, ", all of {left}+{right}/{segments}"),
        }
    }

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let [sketches, probes] = inputs else {
            return internal_err!("scores are made of sketches and probes, not of {} inputs", inputs.len());
        };
        let requirements = match self.probe {
            Probe::Blocks | Probe::Segments => {
                vec![Requirement::keyed(&sketches.schema()), Requirement::keyed(&probes.schema())]
            }
            Probe::Held | Probe::All { .. } => vec![Requirement::single_partition(), Requirement::none()],
        };
        Ok(Shape::over(inputs, schema(), requirements)?
            .co_partitioned(matches!(self.probe, Probe::Blocks | Probe::Segments)))
    }

    fn start(self: Arc<Self>, task: Task<'_, Self::Shared>) -> Result<Batches> {
        let [sketches, _] = task.inputs else { return internal_err!("scores have two inputs") };
        let probes = task.rows_of(1)?;
        let (sketches, scorer) = (Arc::clone(sketches), self.scorer());
        let batch_size = task.context.session_config().batch_size();
        match self.probe {
            Probe::Blocks => Ok(score_home(task.rows_of(0)?, probes, scorer, task.context)),
            Probe::Segments => Ok(score_segment(sketches, task.partition, probes, scorer, task.context)),
            Probe::Held | Probe::All { .. } => {
                let (shared, context) = (Arc::clone(task.shared), task.context);
                let pairs = async move {
                    let held = shared.get(read_whole(sketches, context)).await?;
                    Ok::<_, DataFusionError>(match self.probe {
                        Probe::All { left, right, segments } => {
                            let between = Segments { left, right, segments };
                            all_pairs(held, probes, between, scorer, batch_size).boxed()
                        }
                        _ => score_all(held, probes, scorer),
                    })
                };
                Ok(futures::stream::once(pairs).try_flatten().boxed())
            }
        }
    }
}

/// The sketches of a plan of one partition.
async fn read_whole(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Sketches> {
    let mut sketches = Sketches::new(MemoryConsumer::new("Score").register(context.memory_pool()));
    sketches.add_all(plan.execute(0, context)?).await?;
    Ok(sketches)
}

/// The columns (a, b, shared, shingles_a, shingles_b, estimate, shared_bands) of scored pairs, a < b.
///
/// `shared`, `shingles_a` and `shingles_b` count distinct shingles, `shared_bands` the bands in which the two
/// signatures agree in every row; `estimate` is that of the two signatures.
pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("a", DataType::UInt64, false),
        Field::new("b", DataType::UInt64, false),
        Field::new("shared", DataType::UInt64, false),
        Field::new("shingles_a", DataType::UInt64, false),
        Field::new("shingles_b", DataType::UInt64, false),
        Field::new("estimate", DataType::Float64, false),
        Field::new("shared_bands", DataType::UInt16, false),
    ]))
}

/// The criteria for pairs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scorer {
    /// The threshold and the measure.
    pub(super) score: job::Score,
    /// Bands of the signature.
    pub(super) bands: usize,
    /// Rows of a band.
    pub(super) rows: usize,
}

impl Scorer {
    /// Scores two documents and keeps them if they reach the threshold.
    pub(super) fn score(&self, one: Document<'_>, other: Document<'_>, kept: &mut Scores) {
        let (a, b) = if one.doc < other.doc { (one, other) } else { (other, one) };
        let (set_a, set_b) = (a.shingles, b.shingles);
        let (signature_a, signature_b) = (a.signature, b.signature);
        let job::Score { threshold, measure, by, prefilter, min_shared: _ } = self.score;
        let by_estimate = prefilter || by == ScoreBy::Signature;
        if by_estimate && estimate(signature_a, signature_b) < threshold {
            return;
        }
        let shared = match by {
            ScoreBy::Shingles => measure.shared_at_least(set_a, set_b, threshold),
            ScoreBy::Signature => Some(shared(set_a, set_b)),
        };
        let Some(shared) = shared else { return };
        if !self.score.has_min_shared(shared, [set_a.len() as u64, set_b.len() as u64]) {
            return;
        }
        kept.a.append_value(a.doc);
        kept.b.append_value(b.doc);
        kept.shared.append_value(shared);
        kept.shingles_a.append_value(set_a.len() as u64);
        kept.shingles_b.append_value(set_b.len() as u64);
        kept.estimate.append_value(estimate(signature_a, signature_b));
        kept.shared_bands.append_value(self.shared_bands(signature_a, signature_b));
    }

    fn shared_bands(&self, a: Signature<'_>, b: Signature<'_>) -> u16 {
        a.shared_bands(b, self.bands, self.rows).try_into().unwrap_or(u16::MAX)
    }
}

/// The estimate. All signatures of a run have one type and length.
fn estimate(a: Signature<'_>, b: Signature<'_>) -> f64 {
    minhash_similarity(a, b).unwrap_or(0.0)
}

/// Builds a batch of scored pairs.
#[derive(Default)]
pub(super) struct Scores {
    a: UInt64Builder,
    b: UInt64Builder,
    shared: UInt64Builder,
    shingles_a: UInt64Builder,
    shingles_b: UInt64Builder,
    estimate: Float64Builder,
    shared_bands: UInt16Builder,
}

impl Scores {
    /// The batch; `None` if it is empty.
    pub(super) fn finish(&mut self) -> Result<Option<RecordBatch>> {
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

    /// Whether it has at least `rows` rows.
    pub(super) fn is_full(&self, rows: usize) -> bool {
        self.a.len() >= rows
    }
}
