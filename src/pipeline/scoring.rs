//! From sketches to scores: candidates, and what they are compared by.

use datafusion::prelude::DataFrame;

use super::dense;
use super::foretell::{self, Population};
use super::numbers::one_number;
use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use super::verify::{BYTES_OF_PREFIX, every_two, verified};
use crate::error::Result;
use crate::job::{Job, Method};
use crate::schema::Table;
use crate::stage;
use crate::stage::prefix::Join;

/// Finds candidates, and says which table holds them; none where all pairs are to be scored.
pub(super) async fn candidates(steps: &mut Steps<'_>, job: &Job) -> Result<Option<WorkTable>> {
    foretell::copies(steps, job).await?;
    match job.candidates.method {
        Method::All => {
            let at_most = foretell::every_two_of(steps.rows(Table::Documents));
            foretell::pairs(steps, job, None, at_most).await?;
            Ok(None)
        }
        Method::Prefix => {
            let join = prefix(steps, job, None, Step::Candidates).await?;
            Ok(Some(dense::candidates(steps, job, &join, WorkTable::Candidates).await?))
        }
        Method::Lsh => {
            let (keys, groups) = (steps.table(WorkTable::Keys)?, steps.table(WorkTable::Groups)?);
            let frame = stage::candidates::candidates(keys, groups, job.lsh.hot_bucket)?;
            let bytes = steps.rows(WorkTable::Keys) * job.lsh.bands as u64 * BYTES_OF_ROW;
            steps.run(Step::Candidates, bytes, vec![frame]).await?;
            if steps.rows(WorkTable::Hot) > 0 {
                steps.expect(Step::of_hot_buckets().len());
                let hot = steps.table(WorkTable::Hot)?;
                let join = prefix(steps, job, Some(hot), Step::AllCandidates).await?;
                return Ok(Some(dense::candidates(steps, job, &join, WorkTable::AllCandidates).await?));
            }
            // No pair is scored that is no candidate.
            let at_most = steps.rows(WorkTable::Candidates);
            foretell::pairs(steps, job, None, at_most).await?;
            Ok(Some(WorkTable::Candidates))
        }
    }
}

/// Bytes of a row (bucket, document), and of one (document, document).
const BYTES_OF_ROW: u64 = 16;

/// Joins documents by their prefixes in `step`: all of them, or the `hot` ones, whose candidates then stand among those
/// that there are already. Returns how they were joined.
async fn prefix(steps: &mut Steps<'_>, job: &Job, hot: Option<DataFrame>, step: Step) -> Result<Join> {
    let dense = job.output.most_expanded();
    let beside = if hot.is_some() { Some(steps.table(WorkTable::Candidates)?) } else { None };
    let documents =
        stage::prefix::documents(steps.table(Table::Documents)?, steps.table(WorkTable::Groups)?, hot)?;
    let permutations = job.minhash.permutations;
    let elements = one_number(stage::prefix::elements(documents.clone(), &job.score, permutations)?).await?;
    let join = stage::prefix::Join::new(&job.score, permutations, elements);
    let frame = stage::prefix::frequencies(documents.clone(), &join)?;
    steps.run(Step::Frequencies, 0, vec![frame]).await?;
    if dense.is_none() {
        // Nothing keeps the number of pairs down.
        let (count, of) = match steps.rows(WorkTable::Hot) {
            count if beside.is_some() => (count, Some(Population { documents: documents.clone(), count })),
            _ => (steps.rows(Table::Documents), None),
        };
        foretell::pairs(steps, job, of, foretell::every_two_of(count)).await?;
    }
    let mut frame = stage::prefix::candidates(documents, steps.table(WorkTable::Frequencies)?, &join, dense)?;
    if let Some(beside) = beside {
        frame = frame.union(beside)?.distinct()?;
    }
    // A prefix has all but a set's share of shingles that a similar one must have.
    let rows = (elements as f64 * (1.0 - join.threshold())) as u64 + steps.rows(Table::Documents);
    steps.run(step, rows * BYTES_OF_PREFIX, vec![frame]).await?;
    Ok(join)
}

/// Scores the candidates that `candidates` holds; where there is no such table, every two documents.
pub(super) async fn scores(steps: &mut Steps<'_>, job: &Job, candidates: Option<WorkTable>) -> Result<()> {
    match candidates {
        None => scores_of_all(steps, job).await?,
        Some(candidates) => {
            let (frame, bytes) = verified(steps, job, candidates)?;
            steps.run(Step::Scores, bytes, vec![frame]).await?;
        }
    }
    foretell::scored(steps, job).await
}

async fn scores_of_all(steps: &mut Steps<'_>, job: &Job) -> Result<()> {
    let mut frames = Vec::new();
    if !steps.is_done(Step::Scores).await? {
        let documents = steps.table(Table::Documents)?;
        let documents = stage::groups::without_copies(documents, steps.table(WorkTable::Groups)?)?;
        frames = every_two(steps, job, documents).await?;
    }
    steps.run(Step::Scores, 0, frames).await
}
