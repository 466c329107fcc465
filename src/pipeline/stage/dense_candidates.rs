//! prefixes, leaders, followers, dense_candidates: rounds in which the documents of dense groups are compared with
//! leaders instead of each other. [`super::leaders`] describes the rounds, and the guarantees for their rows.

use datafusion::prelude::{DataFrame, col};

use super::interface::{Planned, Result, StageContext, WorkTable, frames, not_null, null};
use super::pair_limit::{self, EstimatedDocuments};
use crate::frames::leaders;
use crate::operator::dense_pairs::DensePairs;
use crate::operator::prefixes;
use crate::pipeline::candidate_pairs::CandidatePairs;
use crate::pipeline::numbers::rows_of;
use crate::pipeline::tables::{columns_of, pair_columns, score_columns, single_columns};
use crate::pipeline::verify::{BYTES_OF_PREFIX, verify};

impl WorkTable {
    /// The rarest shingles of documents in dense buckets.
    const PREFIXES: Self = Self::new("prefixes", |_| columns_of(&prefixes::schema()));
    /// Leaders of a round, and the documents that they are compared with.
    const PROPOSED: Self = Self::new("proposed", pair_columns);
    /// Leaders of a round.
    const LEADERS: Self = Self::new("leaders", single_columns);
    /// The pairs of leaders that reach the threshold.
    const FOLLOWERS: Self = Self::new("followers", score_columns);
    /// Candidates, and those of dense buckets.
    pub(crate) const DENSE_CANDIDATES: Self = Self::new("dense_candidates", pair_columns);
}

/// The most rounds. In the last one a bucket has 128 leaders.
const ROUNDS: u32 = 8;

/// If fewer than one in this many comparisons with leaders find a pair, further rounds find little, and the documents
/// that are left are compared with each other.
const WORTH_IT: u64 = 256;

/// The approximate number of documents of a sample. Every two of them are compared to estimate how many pairs are left
/// out. Nearly all of them are similar, so a small sample is enough.
const SAMPLE: u64 = 1_000;

/// Finds pairs for the documents of dense buckets, if there are any. The stage `dense_candidates` then writes all candidates.
pub(super) async fn settle(cx: &StageContext<'_>) -> Result<()> {
    let job = cx.job;
    // The documents of dense buckets, and the other candidates.
    let (documents, found) = if job.candidates.method.joins_all() {
        (WorkTable::HOT, WorkTable::CANDIDATES)
    } else {
        (WorkTable::DENSE, WorkTable::ALL_CANDIDATES)
    };
    let Some(limit) = job.output.most_expanded().filter(|_| cx.rows(documents) > 0) else {
        return Ok(());
    };
    let join = cx.join().await?;
    let dense = frames::prefix::only(cx.of_joined()?.frame, cx.table(documents)?)?;
    let frame = frames::prefix::prefixes(dense, cx.table(WorkTable::FREQUENCIES)?, join)?;
    cx.run_further(WorkTable::PREFIXES, Planned::new(0, vec![frame])).await?;
    let of_pass = |pairs| {
        let (prefixes, states) = (cx.table(WorkTable::PREFIXES)?, states(cx)?);
        leaders::pairs(prefixes, states, join.threshold(), limit, pairs, cx.reference_docs()?)
    };
    let bytes = cx.rows(WorkTable::PREFIXES) * BYTES_OF_PREFIX;
    for round in 1..=ROUNDS {
        let frame = of_pass(DensePairs::OfLeaders { round })?;
        let table = WorkTable::PROPOSED.of_round(round);
        let tables = vec![not_null(table, "b"), null(WorkTable::LEADERS.of_round(round), "b")];
        cx.runner.expect(1);
        let leaders = WorkTable::LEADERS.of_round(round).name();
        cx.write(&leaders, tables, Planned::new(bytes, vec![frame])).await?;
        let proposed = cx.rows(table);
        if proposed == 0 {
            break;
        }
        let (documents, pairs) = (cx.of_joined()?, CandidatePairs::of(cx, table)?);
        let followers = WorkTable::FOLLOWERS.of_round(round);
        cx.run_further(followers, verify(cx, documents, pairs, None).await?).await?;
        if cx.rows(followers).saturating_mul(WORTH_IT) < proposed {
            break;
        }
    }
    let mut frame = of_pass(DensePairs::OfTheRest)?.union(cx.table(found)?)?;
    for round in rounds(cx) {
        let followers = cx.table(WorkTable::FOLLOWERS.of_round(round))?;
        frame = frame.union(followers.select(vec![col("a"), col("b")])?)?;
    }
    cx.run_further(WorkTable::DENSE_CANDIDATES, Planned::new(bytes, vec![frame.distinct()?])).await?;
    let settled = settled(cx).await?;
    if let Some((settled, count)) = settled.filter(|&(_, count)| count > 1) {
        let keys = settled.select(vec![col("settled").alias("needed")])?;
        pair_limit::estimate(cx, EstimatedDocuments { keys, count }, SAMPLE).await?;
    }
    Ok(())
}

/// The dense groups of a run.
pub(crate) struct Summary {
    /// Documents that are settled.
    pub(crate) documents: u64,
    /// Similar pairs among them that are not written.
    pub(crate) left_out: pair_limit::PairEstimate,
}

/// The dense groups, by their rounds and scores; `None` if there are none.
pub(crate) async fn summary(cx: &StageContext<'_>) -> Result<Option<Summary>> {
    let Some((settled, documents)) = settled(cx).await?.filter(|&(_, count)| count > 0) else {
        return Ok(None);
    };
    let written = rows_of(leaders::scored(cx.table(WorkTable::SCORES)?, settled)?).await?;
    let mut left_out = pair_limit::estimated(cx, documents, SAMPLE);
    left_out.pairs = left_out.pairs.saturating_sub(written);
    Ok(Some(Summary { documents, left_out }))
}

/// The rounds that were scored.
fn rounds(cx: &StageContext<'_>) -> impl Iterator<Item = u32> {
    (1..=ROUNDS).filter(|&round| cx.rows(WorkTable::PROPOSED.of_round(round)) > 0)
}

/// The states of documents after the rounds so far.
fn states(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    let rounds = rounds(cx).map(|round| {
        let tables = (WorkTable::FOLLOWERS.of_round(round), WorkTable::LEADERS.of_round(round));
        Ok((cx.table(tables.0)?, cx.table(tables.1)?))
    });
    leaders::states(rounds.collect::<Result<_>>()?)
}

/// The documents that are settled, and their number; `None` if there was no round.
async fn settled(cx: &StageContext<'_>) -> Result<Option<(DataFrame, u64)>> {
    let Some(states) = states(cx)? else { return Ok(None) };
    let settled = leaders::settled(states)?;
    let count = rows_of(settled.clone()).await?;
    Ok(Some((settled, count)))
}
