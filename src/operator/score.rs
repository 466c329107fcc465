//! Pairs looked up in sketches, scored, and kept where the score reaches the threshold.
//!
//! A pair costs two look-ups and one merge of two sorted sets, and copies nothing. Candidates meet their sketches at homes
//! (see [`crate::stage::scores`]), and a task holds the sketches of its homes alone. The search of all pairs holds the
//! sketches that a plan hands over, once for all its tasks.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::{Distribution, ExecutionPlan};
use futures::{StreamExt, TryStreamExt};
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::all_pairs::{Segments, all_pairs};
use super::exec::{Batches, Requirement, Work};
use super::home::score_at_home;
use super::node::Operator;
use super::scorer::Scorer;
pub use super::scorer::schema;
use super::sketches::Sketches;
use crate::job::{self, ScoreBy};

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

/// Sketches and probes -> scored pairs.
///
/// Sketches are (home: UInt64, doc: UInt64, shingles: `List<UInt64>`, signature: `List<UInt32>`) for candidates, spread over
/// partitions by home like these. For all pairs they are (doc, shingles, signature) in one partition, which is read whole
/// before the first probe; the probes keep their partitions.
#[derive(Debug)]
pub(super) struct Score {
    scoring: Scoring,
    /// For all pairs, the sketches that the tasks of a process share.
    shared: OnceCell<Built>,
}

impl Score {
    pub(super) fn new(scoring: Scoring) -> Self {
        Self { scoring, shared: OnceCell::new() }
    }

    fn scorer(&self) -> Scorer {
        let Scoring { score, bands, rows, .. } = self.scoring;
        Scorer { score, bands, rows }
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
        let [_, _] = inputs else {
            return internal_err!("scores are made of sketches and probes, not of {} inputs", inputs.len());
        };
        match self.scoring.probe {
            Probe::Candidates => {
                let by_home = |input: &Arc<dyn ExecutionPlan>| {
                    let home: Arc<dyn PhysicalExpr> =
                        Arc::new(Column::new_with_schema("home", &input.schema())?);
                    Ok(Requirement { distribution: Distribution::KeyPartitioned(vec![home]), ordering: None })
                };
                inputs.iter().map(by_home).collect()
            }
            Probe::All { .. } => Ok(vec![Requirement::whole(), Requirement::none()]),
        }
    }

    fn co_partitioned(&self) -> bool {
        self.scoring.probe == Probe::Candidates
    }

    fn start(
        self: Arc<Self>,
        inputs: &[Arc<dyn ExecutionPlan>],
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<Batches> {
        let [sketches, probes] = inputs else { return internal_err!("scores have two inputs") };
        let probes = probes.execute(partition, Arc::clone(&context))?;
        let Probe::All { left, right, segments } = self.scoring.probe else {
            let sketches = sketches.execute(partition, Arc::clone(&context))?;
            return Ok(score_at_home(sketches, probes, self.scorer(), context));
        };
        let sketches = Arc::clone(sketches);
        let batch_size = context.session_config().batch_size();
        let batches = futures::stream::once(async move {
            let read = async || read_whole(sketches, context).await.map(Arc::new).map_err(Arc::new);
            let sketches = self.shared.get_or_init(read).await.clone().map_err(DataFusionError::Shared)?;
            let between = Segments { left, right, segments };
            Ok::<_, DataFusionError>(all_pairs(sketches, probes, between, self.scorer(), batch_size))
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

async fn read_whole(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Sketches> {
    let mut sketches = Sketches::new(MemoryConsumer::new("Score").register(context.memory_pool()));
    let mut input = plan.execute(0, context)?;
    while let Some(batch) = input.next().await.transpose()? {
        sketches.add(&batch)?;
    }
    Ok(sketches)
}
