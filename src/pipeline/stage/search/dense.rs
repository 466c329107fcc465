//! The stages prefixes, leaders, followers and dense_candidates, which compare the documents in dense groups with leaders, in rounds.
//! [`crate::frames::prefix`] describes the rounds and their guarantees.

use datafusion::prelude::DataFrame;

use super::pair_limit::{self, PairEstimate};
use crate::frames::prefix::{leader_pairs, only, prefixes, scores_of_settled, settled, states};
use crate::frames::{columns, renamed};
use crate::operator::dense_pairs::DensePairs;
use crate::operator::prefixes::prefix_schema;
use crate::operator::sketches::score_schema;
use crate::pipeline::sketches::{BoundedRows, join, joined};
use crate::pipeline::stage::interface::{Planned, Result, StageContext, WorkTable, not_null, null};
use crate::pipeline::tables::PAIR_COLUMNS;
use crate::pipeline::tables::WorkColumns::{Numbers, Operator};
use crate::pipeline::verify::{BYTES_OF_PREFIX, verify};

impl WorkTable {
    /// The rarest shingles of documents in dense buckets.
    const PREFIXES: Self = Self::new("prefixes", &[Operator(prefix_schema)]);
    /// The pairs of a leader and another document that a round compares.
    const PROPOSED: Self = Self::new("proposed", PAIR_COLUMNS);
    const LEADERS: Self = Self::new("leaders", &[Numbers(&["a"])]);
    /// The scores of the pairs in [`Self::PROPOSED`] that reach the threshold.
    const FOLLOWERS: Self = Self::new("followers", &[Operator(score_schema)]);
    /// Candidates, including candidates from dense buckets.
    pub(crate) const DENSE_CANDIDATES: Self = Self::new("dense_candidates", PAIR_COLUMNS);
}

/// The maximum number of rounds. In the last round a bucket has 128 leaders.
const ROUNDS: u32 = 8;

/// Another round is worth its comparisons if at least one in this many comparisons of the last round found a pair. Otherwise the
/// unsettled documents are compared with each other.
const WORTH_IT: u64 = 256;

/// The approximate number of documents in the sample that estimates the number of unwritten pairs. Every two of them are compared. Nearly
/// all are similar, so a small sample is enough.
const SAMPLE: u64 = 1_000;

/// Finds pairs for the documents in dense buckets, if there are any. The stage `dense_candidates` then writes all candidates.
pub(super) async fn settle(cx: &StageContext<'_>) -> Result<()> {
    let job = cx.job;
    // The documents in dense buckets, and the candidates from other buckets.
    let (documents, found) = if job.candidates.method.joins_all() {
        (WorkTable::HOT, WorkTable::CANDIDATES)
    } else {
        (WorkTable::DENSE, WorkTable::ALL_CANDIDATES)
    };
    let Some(limit) = job.output.most_expanded().filter(|_| cx.rows(documents) > 0) else {
        return Ok(());
    };
    let join = join(cx).await?;
    let dense = only(joined(cx)?.frame, cx.table(documents)?)?;
    let frame = prefixes(dense, cx.table(WorkTable::FREQUENCIES)?, join)?;
    cx.run_further(WorkTable::PREFIXES, Planned::new(0, vec![frame])).await?;
    let pass = |pairs| {
        let prefixes = cx.table(WorkTable::PREFIXES)?;
        leader_pairs(prefixes, states_so_far(cx)?, join.threshold, limit, pairs, cx.reference_docs()?)
    };
    let bytes = cx.rows(WorkTable::PREFIXES) * BYTES_OF_PREFIX;
    for round in 1..=ROUNDS {
        let frame = pass(DensePairs::OfLeaders { round })?;
        let (proposed, leaders) = (WorkTable::PROPOSED.round(round), WorkTable::LEADERS.round(round));
        cx.runner.expect(1);
        let tables = vec![not_null(proposed, "b"), null(leaders, "b")];
        cx.write(&leaders.name(), tables, Planned::new(bytes, vec![frame])).await?;
        if cx.rows(proposed) == 0 {
            break;
        }
        let (documents, pairs) = (joined(cx)?, BoundedRows::read(cx, proposed)?);
        let followers = WorkTable::FOLLOWERS.round(round);
        cx.run_further(followers, verify(cx, documents, pairs, None).await?).await?;
        if cx.rows(followers).saturating_mul(WORTH_IT) < cx.rows(proposed) {
            break;
        }
    }
    let mut frame = pass(DensePairs::OfTheRest)?.union(cx.table(found)?)?;
    for round in rounds(cx) {
        let followers = cx.table(WorkTable::FOLLOWERS.round(round))?;
        frame = frame.union(followers.select(columns(["a", "b"]))?)?;
    }
    cx.run_further(WorkTable::DENSE_CANDIDATES, Planned::new(bytes, vec![frame.distinct()?])).await?;
    if let Some(settled) = settled_so_far(cx).await?.filter(|settled| settled.count > 1) {
        let frame = settled.frame.select(renamed([("settled", "needed")]))?;
        pair_limit::estimate(cx, BoundedRows { frame, ..settled }, SAMPLE).await?;
    }
    Ok(())
}

pub(in crate::pipeline) struct DenseGroups {
    pub(in crate::pipeline) documents: u64,
    /// The estimated number of similar pairs of settled documents that are not written.
    pub(in crate::pipeline) left_out: PairEstimate,
}

/// Returns the counts for dense groups, from the rounds and the scores. Returns `None` if there are no dense groups.
pub(in crate::pipeline) async fn dense_groups(cx: &StageContext<'_>) -> Result<Option<DenseGroups>> {
    let Some(settled) = settled_so_far(cx).await?.filter(|settled| settled.count > 0) else {
        return Ok(None);
    };
    let written = scores_of_settled(cx.table(WorkTable::SCORES)?, settled.frame)?.count().await? as u64;
    let mut left_out = pair_limit::estimated(cx, settled.count, SAMPLE);
    left_out.pairs = left_out.pairs.saturating_sub(written);
    Ok(Some(DenseGroups { documents: settled.count, left_out }))
}

fn rounds(cx: &StageContext<'_>) -> impl Iterator<Item = u32> {
    (1..=ROUNDS).filter(|&round| cx.rows(WorkTable::PROPOSED.round(round)) > 0)
}

/// The states of documents after the finished rounds.
fn states_so_far(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    let rounds = rounds(cx).map(|round| {
        Ok((cx.table(WorkTable::FOLLOWERS.round(round))?, cx.table(WorkTable::LEADERS.round(round))?))
    });
    states(rounds.collect::<Result<_>>()?)
}

/// The settled documents (settled), and their number, if there was a round.
async fn settled_so_far(cx: &StageContext<'_>) -> Result<Option<BoundedRows>> {
    let Some(states) = states_so_far(cx)? else { return Ok(None) };
    let frame = settled(states)?;
    let count = frame.clone().count().await? as u64;
    Ok(Some(BoundedRows { frame, count }))
}
