//! Jaccard scoring over stored sketches: pairs looked up, scored, and kept where the score reaches the threshold.
//!
//! A pair costs two look-ups and one merge of two sorted sets, and copies nothing. Candidates meet their sketches at homes
//! (see [`crate::stage::scores`]), and a task holds the sketches of its homes alone. The search of all pairs holds the
//! sketches that a plan hands over, once for all its tasks.

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::all_pairs::{Segments, all_pairs};
use super::score_home::score_home;
use super::scorer::Scorer;
pub(crate) use super::scorer::schema;
use super::sketches::Sketches;
use crate::job::{self, Measure, ScoreBy};
use crate::plan::{Batches, Description, Requirement, Shape, Task};

/// How pairs are probed and which of them are kept: sketches and probes -> scored pairs.
///
/// Sketches are (home: UInt64, doc: UInt64, shingles: `List<UInt64>`, signature: `List<UInt32>`) for candidates, spread over
/// partitions by home like these. For all pairs they are (doc, shingles, signature) in one partition, which is read whole
/// before the first probe; the probes keep their partitions. A column `known: Boolean` before these says which documents are
/// known from earlier runs: two of those are no pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scoring {
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
pub(crate) enum Probe {
    /// (home, a, b): score this pair with the sketches of its home.
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
        let by = match (self.score.by, self.score.measure) {
            (ScoreBy::Shingles, Measure::Jaccard) => "jaccard",
            (ScoreBy::Shingles, Measure::Containment) => "containment",
            (ScoreBy::Signature, _) => "estimate",
        };
        write!(f, "{by} >= {}, {} x {}", self.score.threshold, self.bands, self.rows)?;
        match self.probe {
            Probe::Candidates => write!(f, ", candidates"),
            Probe::All { left, right, segments } => write!(f, ", all of {left}+{right}/{segments}"),
        }
    }
}

/// For all pairs, the sketches that the tasks of a process share.
type Shared = OnceCell<Result<Arc<Sketches>, Arc<DataFusionError>>>;

impl Scoring {
    fn scorer(&self) -> Scorer {
        let Scoring { score, bands, rows, .. } = *self;
        Scorer { score, bands, rows }
    }
}

impl Description for Scoring {
    const NAME: &'static str = "JaccardScoreExec";

    type Shared = Shared;

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let [sketches, probes] = inputs else {
            return internal_err!("scores are made of sketches and probes, not of {} inputs", inputs.len());
        };
        let by_home = |input: &Arc<dyn ExecutionPlan>| -> Result<Requirement> {
            Ok(Requirement::keyed(Arc::new(Column::new_with_schema("home", &input.schema())?)))
        };
        let requirements = match self.probe {
            Probe::Candidates => vec![by_home(sketches)?, by_home(probes)?],
            Probe::All { .. } => vec![Requirement::single_partition(), Requirement::none()],
        };
        let shape = Shape::over(inputs, schema(), requirements)?;
        Ok(shape.co_partitioned(self.probe == Probe::Candidates))
    }

    fn start(self: Arc<Self>, task: Task<'_, Shared>) -> Result<Batches> {
        let [sketches, _] = task.inputs else { return internal_err!("scores have two inputs") };
        let probes = task.rows_of(1)?;
        let Probe::All { left, right, segments } = self.probe else {
            return Ok(score_home(task.rows_of(0)?, probes, self.scorer(), task.context));
        };
        let (sketches, shared, context) = (Arc::clone(sketches), Arc::clone(task.shared), task.context);
        let batch_size = context.session_config().batch_size();
        let batches = futures::stream::once(async move {
            let read = async || read_whole(sketches, context).await.map(Arc::new).map_err(Arc::new);
            let sketches = shared.get_or_init(read).await.clone().map_err(DataFusionError::Shared)?;
            let between = Segments { left, right, segments };
            Ok::<_, DataFusionError>(all_pairs(sketches, probes, between, self.scorer(), batch_size))
        });
        Ok(batches.try_flatten().boxed())
    }
}

async fn read_whole(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Sketches> {
    let mut sketches = Sketches::new(MemoryConsumer::new("Score").register(context.memory_pool()));
    let mut input = plan.execute(0, context)?;
    while let Some(batch) = input.next().await.transpose()? {
        sketches.add(&batch)?;
    }
    Ok(sketches)
}
