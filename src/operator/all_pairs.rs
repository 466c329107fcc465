//! The search of all pairs: each document is compared with those whose size allows a match.

use arrow::array::RecordBatch;
use datafusion::common::cast::as_uint64_array;
use datafusion::common::{Result, internal_err};
use datafusion::execution::SendableRecordBatchStream;
use futures::{Stream, StreamExt};
use std::sync::Arc;

use super::scorer::{ScoreBuilder, Scorer};
use super::sketches::{SketchRef, Sketches};
use crate::job::ScoreBy;

/// A document, its size and its sketch.
#[derive(Debug, Clone, Copy)]
struct AllPairsEntry {
    size: usize,
    doc: u64,
    sketch: SketchRef,
    /// Whether it is a reference document: two of those are not compared.
    is_reference: bool,
}

/// Two segments of keys, between which pairs are searched: the segment of a document is `doc % segments`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segments {
    pub(super) left: u64,
    pub(super) right: u64,
    pub(super) segments: u64,
}

/// Scored pairs, in batches of at least `batch_size`. A probe (slice, slices) is for that share of all pairs.
pub(super) fn all_pairs(
    sketches: Arc<Sketches>,
    probes: SendableRecordBatchStream,
    between: Segments,
    scorer: Scorer,
    batch_size: usize,
) -> impl Stream<Item = Result<RecordBatch>> {
    let Segments { left, right, segments } = between;
    let lefts = by_size(&sketches, left, segments);
    let rights = (left != right).then(|| by_size(&sketches, right, segments));
    let search = AllPairsSearch { sketches, scorer, batch_size, probes, lefts, rights, slice: None };
    futures::stream::try_unfold(search, async |mut search| {
        Ok(search.next_batch().await?.map(|batch| (batch, search)))
    })
}

/// The documents of a segment, sorted by size and key.
fn by_size(sketches: &Sketches, segment: u64, segments: u64) -> Vec<AllPairsEntry> {
    let of_segment = sketches.iter().filter(|(doc, _)| doc % segments == segment);
    let mut docs: Vec<AllPairsEntry> = of_segment
        .map(|(doc, sketch)| {
            let (size, is_reference) =
                (sketches.document(doc, sketch).shingles.len(), sketches.is_reference(sketch));
            AllPairsEntry { size, doc, sketch, is_reference }
        })
        .collect();
    docs.sort_unstable_by_key(|d| (d.size, d.doc));
    docs
}

struct AllPairsSearch {
    sketches: Arc<Sketches>,
    scorer: Scorer,
    batch_size: usize,
    probes: SendableRecordBatchStream,
    lefts: Vec<AllPairsEntry>,
    /// `None` if both segments are the same.
    rights: Option<Vec<AllPairsEntry>>,
    /// The places of the left documents of this slice that remain to be searched.
    slice: Option<std::iter::StepBy<std::ops::Range<usize>>>,
}

impl AllPairsSearch {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut found = ScoreBuilder::default();
        while !found.is_full(self.batch_size) {
            match self.slice.as_mut().map(Iterator::next) {
                Some(Some(left)) => {
                    self.search(left, &mut found);
                    // A search takes long and never waits: let other tasks run, and a stop signal through.
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

    fn search(&self, at: usize, found: &mut ScoreBuilder) {
        let left = self.lefts[at];
        let score = self.scorer.score;
        // Sizes bound the exact Jaccard similarity, smaller over larger, but no estimate.
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
            let of = |entry: &AllPairsEntry| self.sketches.document(entry.doc, entry.sketch);
            self.scorer.score(of(&left), of(right), found);
        }
    }
}
