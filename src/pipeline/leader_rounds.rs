//! Dense groups: rounds in which documents are compared with leaders instead of each other, each a step of its own. What the
//! rounds do, and what holds of their rows, is told in [`crate::stage::leaders`].

use datafusion::prelude::{DataFrame, col};

use super::numbers::rows_of;
use super::pair_limit::{self, Population};
use super::sketches::Sketches;
use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use super::verify::{BYTES_OF_PREFIX, Candidates, verify};
use crate::error::Result;
use crate::job::{Job, Method};
use crate::operator::dense_pairs::DensePairs;
use crate::stage;
use crate::stage::prefix::Join;

/// Rounds at most. In the last one a bucket has 128 leaders.
const ROUNDS: u32 = 8;

/// Where fewer than one in so many comparisons with leaders find a pair, further rounds find little, and the documents that
/// are left are compared with each other.
const WORTH_IT: u64 = 256;

/// Documents, about, of which every two are compared to estimate how many pairs are left out. Nearly all of them are similar,
/// so few tell enough.
const SAMPLE: u64 = 1_000;

/// The table of the documents in dense buckets: the prefix join that found the candidates of `job` wrote it.
pub(super) fn documents(job: &Job) -> WorkTable {
    match job.candidates.method {
        Method::Prefix => WorkTable::Hot,
        Method::Lsh | Method::All => WorkTable::Dense,
    }
}

/// Finds pairs for the documents of dense buckets, if there are any. The step `dense_candidates` then writes all candidates,
/// those of `found` among them.
pub(super) async fn candidates(sketches: &Sketches<'_>, join: &Join, found: WorkTable) -> Result<()> {
    let (steps, job) = (sketches.steps, sketches.job);
    let Some(limit) = job.output.most_expanded().filter(|_| steps.rows(documents(job)) > 0) else {
        return Ok(());
    };
    let dense = stage::prefix::only(sketches.of_joined()?.frame, steps.table(documents(job))?)?;
    let frame = stage::prefix::prefixes(dense, steps.table(WorkTable::Frequencies)?, join)?;
    run(steps, Step::Prefixes, 0, frame).await?;
    let of_pass = |steps: &Steps<'_>, pairs| {
        let (prefixes, states) = (steps.table(WorkTable::Prefixes)?, states(steps)?);
        stage::leaders::pairs(prefixes, states, join.threshold(), limit, pairs, sketches.known_docs()?)
    };
    let bytes = steps.rows(WorkTable::Prefixes) * BYTES_OF_PREFIX;
    for round in 1..=ROUNDS {
        let frame = of_pass(steps, DensePairs::OfLeaders { round })?;
        run(steps, Step::Leaders(round), bytes, frame).await?;
        let proposed = steps.rows(WorkTable::Proposed(round));
        if proposed == 0 {
            break;
        }
        steps.expect(1);
        let documents = sketches.of_joined()?;
        let proposals = Candidates::of(steps, WorkTable::Proposed(round))?;
        verify(sketches, Step::Followers(round), documents, proposals, None).await?;
        if steps.rows(WorkTable::Followers(round)).saturating_mul(WORTH_IT) < proposed {
            break;
        }
    }
    let mut frame = of_pass(steps, DensePairs::OfTheRest)?.union(steps.table(found)?)?;
    for round in rounds(steps) {
        let followers = steps.table(WorkTable::Followers(round))?;
        frame = frame.union(followers.select(vec![col("a"), col("b")])?)?;
    }
    run(steps, Step::DenseCandidates, bytes, frame.distinct()?).await?;
    let settled = settled(steps).await?;
    if let Some((settled, count)) = settled.filter(|&(_, count)| count > 1) {
        let keys = settled.select(vec![col("settled").alias("needed")])?;
        pair_limit::estimate(sketches, Population { keys, count }, SAMPLE).await?;
    }
    Ok(())
}

/// What is told of dense groups.
pub(super) struct Summary {
    /// Documents that are settled.
    pub(super) documents: u64,
    /// Similar pairs among them that are not written.
    pub(super) left_out: pair_limit::Estimate,
}

/// What the rounds and the scores of a run tell of its dense groups; `None` if there are none.
pub(super) async fn summary(steps: &Steps<'_>) -> Result<Option<Summary>> {
    let Some((settled, documents)) = settled(steps).await?.filter(|&(_, count)| count > 0) else {
        return Ok(None);
    };
    let written = rows_of(stage::leaders::scored(steps.table(WorkTable::Scores)?, settled)?).await?;
    let mut left_out = pair_limit::estimated(steps, documents, SAMPLE);
    left_out.pairs = left_out.pairs.saturating_sub(written);
    Ok(Some(Summary { documents, left_out }))
}

/// The rounds that were scored.
fn rounds(steps: &Steps<'_>) -> impl Iterator<Item = u32> {
    (1..=ROUNDS).filter(|&round| steps.rows(WorkTable::Proposed(round)) > 0)
}

/// What is known of the documents after the rounds so far.
fn states(steps: &Steps<'_>) -> Result<Option<DataFrame>> {
    let rounds = rounds(steps).map(|round| {
        Ok((steps.table(WorkTable::Followers(round))?, steps.table(WorkTable::Leaders(round))?))
    });
    stage::leaders::states(rounds.collect::<Result<_>>()?)
}

/// The documents that are settled, and how many they are; `None` if there was no round.
async fn settled(steps: &Steps<'_>) -> Result<Option<(DataFrame, u64)>> {
    let Some(states) = states(steps)? else { return Ok(None) };
    let settled = stage::leaders::settled(states)?;
    let count = rows_of(settled.clone()).await?;
    Ok(Some((settled, count)))
}

async fn run(steps: &Steps<'_>, step: Step, bytes: u64, frame: DataFrame) -> Result<()> {
    steps.expect(1);
    steps.run(step, bytes, vec![frame]).await
}
