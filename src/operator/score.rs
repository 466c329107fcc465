//! Scores pairs by their sketches, and keeps pairs whose score reaches the threshold. [`super::sketch_joins`] joins candidates with their
//! sketches. This module contains the search of all pairs, which compares each document with the documents whose sizes permit a match.

use std::fmt;
use std::iter::StepBy;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use futures::{StreamExt, TryStreamExt, stream};
use serde::{Deserialize, Serialize};

use super::sketch_joins::{score_all, score_home, score_segment};
use super::sketches::{ScoreBuilder, Scorer, SketchRef, Sketches, score_schema};
use crate::job::{self, ScoreBy};
use crate::plan::{Batches, Description, OperatorExec, Requirement, Shape, SharedValue, Task};

/// Scores pairs. The inputs are sketches and probes, and the output contains the scored pairs that reach the threshold.
///
/// Sketches are (doc: UInt64, shingles: `List<UInt64>`, signature: `List<UInt32>` or Binary). With [`Probe::Blocks`], a first column `home:
/// UInt64`, a group of pairs, precedes these columns. With [`Probe::All`], a first column `reference: Boolean` marks reference documents.
/// Reference documents are not compared with each other.
///
/// If tasks hold all sketches, the sketches have one partition, which is read before the first probe, and probes keep their partitions.
/// Otherwise both inputs are partitioned by home or by document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scoring {
    pub score: job::Score,
    pub bands: usize,
    pub rows: usize,
    pub probe: Probe,
}

/// The request for scores in a row of the probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Probe {
    /// (a, b): score this pair. The tasks of a process hold all sketches together.
    Held,
    /// (a, b): score this pair. A task holds the sketches of its partition, which is a segment of the documents, and streams the sketches
    /// of all partitions. So its input must be readable more than once.
    Segments,
    /// (home, a, b): score this pair with the sketches of its home. A home is a block of two document segments.
    Blocks,
    /// (slice, slices): score the slice with the index `slice`, out of `slices` slices of all pairs between the segments `left` and `right`
    /// of the documents.
    All {
        /// The index of one segment, not greater than `right`.
        left: u64,
        /// The index of the other segment. It can be equal to `left`.
        right: u64,
        /// The number of segments. The segment of a document is `doc % segments`.
        segments: u64,
    },
}

/// Returns the name of the join of sketches and pairs in `plan`; `None` if `plan` scores no pairs.
pub(crate) fn join_name(plan: &Arc<dyn ExecutionPlan>) -> Option<&'static str> {
    let own = OperatorExec::<Scoring>::described(plan.as_ref()).map(Scoring::join);
    own.or_else(|| plan.children().into_iter().find_map(join_name))
}

impl Scoring {
    fn scorer(&self) -> Scorer {
        let Scoring { score, bands, rows, .. } = *self;
        Scorer { score, bands, rows }
    }

    fn join(&self) -> &'static str {
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
            Probe::All { left, right, segments } => write!(f, ", all of {left}+{right}/{segments}"),
            _ => write!(f, ", candidates, {}", self.join()),
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
        Ok(Shape::over(inputs, score_schema(), requirements)?
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
                            let lefts = by_size(&held, left, segments);
                            let rights = (left != right).then(|| by_size(&held, right, segments));
                            let sketches = held;
                            AllPairsSearch {
                                sketches,
                                scorer,
                                batch_size,
                                probes,
                                lefts,
                                rights,
                                slice: None,
                            }
                            .batches()
                        }
                        _ => score_all(held, probes, scorer),
                    })
                };
                Ok(stream::once(pairs).try_flatten().boxed())
            }
        }
    }
}

/// Reads the sketches of a plan that has one partition.
async fn read_whole(plan: Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Sketches> {
    let mut sketches = Sketches::new(MemoryConsumer::new("Score").register(context.memory_pool()));
    sketches.add_all(plan.execute(0, context)?).await?;
    Ok(sketches)
}

/// A document, its size and its sketch.
#[derive(Debug, Clone, Copy)]
struct AllPairsEntry {
    size: usize,
    doc: u64,
    sketch: SketchRef,
    /// Whether the document is a reference document. Two reference documents are not compared.
    is_reference: bool,
}

/// Returns the documents of a segment, sorted by size and key.
fn by_size(sketches: &Sketches, segment: u64, segments: u64) -> Vec<AllPairsEntry> {
    let members = sketches.iter().filter(|(doc, _)| doc % segments == segment);
    let entries = members.map(|(doc, sketch)| {
        let size = sketches.document(doc, sketch).shingles.len();
        AllPairsEntry { size, doc, sketch, is_reference: sketches.is_reference(sketch) }
    });
    let mut docs: Vec<AllPairsEntry> = entries.collect();
    docs.sort_unstable_by_key(|d| (d.size, d.doc));
    docs
}

/// The search of all pairs between two segments.
struct AllPairsSearch {
    sketches: Arc<Sketches>,
    scorer: Scorer,
    batch_size: usize,
    probes: SendableRecordBatchStream,
    lefts: Vec<AllPairsEntry>,
    /// `None` if both segments are the same.
    rights: Option<Vec<AllPairsEntry>>,
    /// The left documents of this slice that remain to be searched.
    slice: Option<StepBy<Range<usize>>>,
}

impl AllPairsSearch {
    /// Returns scored pairs in batches of at least `batch_size`. A probe (slice, slices) requests one slice of all pairs.
    fn batches(self) -> Batches {
        let batches = stream::try_unfold(self, async |mut search| {
            Ok(search.next_batch().await?.map(|batch| (batch, search)))
        });
        batches.boxed()
    }

    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut found = ScoreBuilder::default();
        while !found.is_full(self.batch_size) {
            match self.slice.as_mut().map(Iterator::next) {
                Some(Some(left)) => {
                    self.search(left, &mut found);
                    // A search is long and has no await point. This call yields, so that other tasks can run and the run can be stopped.
                    tokio::task::consume_budget().await;
                }
                Some(None) => self.slice = None,
                None => match self.probes.next().await.transpose()? {
                    Some(probe) => self.slice = Some(self.read_slice(&probe)?),
                    None => break,
                },
            }
        }
        found.finish()
    }

    fn read_slice(&self, probe: &RecordBatch) -> Result<StepBy<Range<usize>>> {
        let (slice, slices) = (as_uint64_array(probe.column(0))?, as_uint64_array(probe.column(1))?);
        if probe.num_rows() != 1 || slices.value(0) == 0 {
            return internal_err!("a probe of all pairs is one row (slice, slices)");
        }
        let (first, step) = (slice.value(0) as usize, slices.value(0) as usize);
        Ok((first.min(self.lefts.len())..self.lefts.len()).step_by(step))
    }

    fn search(&self, at: usize, found: &mut ScoreBuilder) {
        let left = self.lefts[at];
        let score = self.scorer.score;
        // The smaller size divided by the larger size bounds the exact Jaccard similarity, but not an estimate.
        let least = match score.by {
            ScoreBy::Shingles => score.measure.least_jaccard(score.threshold),
            ScoreBy::Signature => None,
        };
        let close = |a: usize, b: usize| least.is_none_or(|least| a.min(b) as f64 / a.max(b) as f64 >= least);
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
            if left.is_reference && right.is_reference {
                continue;
            }
            let document = |entry: &AllPairsEntry| self.sketches.document(entry.doc, entry.sketch);
            self.scorer.score(document(&left), document(right), found);
        }
    }
}
