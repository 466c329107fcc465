//! Scores of pairs from stored sketches. Pairs whose score reaches the threshold are kept.
//!
//! A pair costs two look-ups and one merge of two sorted sets, and copies nothing.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};

use super::all_pairs::{Segments, all_pairs};
use super::score_home::{score_all, score_home};
use super::score_segment::score_segment;
use super::scorer::{Scorer, schema};
use super::sketches::Sketches;
use crate::job::{self, ScoreBy};
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
