//! From sketches to scores: candidates, and what they are compared by.

use datafusion::prelude::{DataFrame, col};

use super::dense;
use super::foretell::{self, Population};
use super::numbers::one_number;
use super::sketches::Sketches;
use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use super::verify::{BYTES_OF_PREFIX, every_two, verify};
use crate::error::Result;
use crate::job::{Job, Method};
use crate::schema::Table;
use crate::stage;
use crate::stage::prefix::Join;

/// Finds candidates, and says which table holds them; none where all pairs are to be scored.
pub(super) async fn candidates(steps: &mut Steps<'_>, sketches: &Sketches<'_>) -> Result<Option<WorkTable>> {
    let job = sketches.job;
    foretell::copies(steps, job).await?;
    match job.candidates.method {
        Method::All => {
            let at_most = foretell::every_two_of(steps.rows(Table::Documents));
            foretell::pairs(steps, sketches, None, at_most).await?;
            Ok(None)
        }
        Method::Prefix => {
            let documents =
                stage::groups::without_copies(sketches.of_all(steps)?, steps.table(WorkTable::Groups)?)?;
            let join = prefix(steps, sketches, documents, None, Step::Candidates).await?;
            Ok(Some(dense::candidates(steps, sketches, &join, WorkTable::Candidates).await?))
        }
        Method::Lsh => {
            let (keys, groups) = (steps.table(WorkTable::Keys)?, steps.table(WorkTable::Groups)?);
            let frame = stage::candidates::candidates(keys, groups, job.lsh.hot_bucket)?;
            let bytes = steps.rows(WorkTable::Keys) * job.lsh.bands as u64 * BYTES_OF_ROW;
            steps.run(Step::Candidates, bytes, vec![frame]).await?;
            if steps.rows(WorkTable::Hot) > 0 {
                steps.expect(Step::of_hot_buckets(job).len());
                let documents = sketches.of_hot(steps).await?;
                let documents = stage::prefix::only(documents, steps.table(WorkTable::Hot)?)?;
                let beside = steps.table(WorkTable::Candidates)?;
                let join = prefix(steps, sketches, documents, Some(beside), Step::AllCandidates).await?;
                return Ok(Some(dense::candidates(steps, sketches, &join, WorkTable::AllCandidates).await?));
            }
            // No pair is scored that is no candidate.
            let at_most = steps.rows(WorkTable::Candidates);
            foretell::pairs(steps, sketches, None, at_most).await?;
            Ok(Some(WorkTable::Candidates))
        }
    }
}

/// Bytes of a row (bucket, document), and of one (document, document).
const BYTES_OF_ROW: u64 = 16;

/// Joins `documents` by their prefixes in `step`, which also takes over the candidates that are there `beside`. Returns how
/// they were joined.
async fn prefix(
    steps: &mut Steps<'_>,
    sketches: &Sketches<'_>,
    documents: DataFrame,
    beside: Option<DataFrame>,
    step: Step,
) -> Result<Join> {
    let job: &Job = sketches.job;
    let dense = job.output.most_expanded();
    let permutations = job.minhash.permutations;
    let elements = one_number(stage::prefix::elements(documents.clone(), &job.score, permutations)?).await?;
    let join = Join::new(&job.score, permutations, elements);
    let frame = stage::prefix::frequencies(documents.clone(), &join)?;
    steps.run(Step::Frequencies, 0, vec![frame]).await?;
    if dense.is_none() {
        // Nothing keeps the number of pairs down.
        let of = match beside {
            Some(_) => {
                let keys = steps.table(WorkTable::Hot)?.select(vec![col("a").alias("needed")])?;
                Some(Population { keys, count: steps.rows(WorkTable::Hot) })
            }
            None => None,
        };
        let count = of.as_ref().map_or(steps.rows(Table::Documents), |of| of.count);
        foretell::pairs(steps, sketches, of, foretell::every_two_of(count)).await?;
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
pub(super) async fn scores(
    steps: &mut Steps<'_>,
    sketches: &Sketches<'_>,
    candidates: Option<WorkTable>,
) -> Result<()> {
    match candidates {
        None => scores_of_all(steps, sketches).await?,
        Some(table) => {
            let documents = sketches.of_candidates(steps, table).await?;
            verify(steps, sketches, Step::Scores, documents, table).await?;
        }
    }
    foretell::scored(steps, sketches.job).await
}

async fn scores_of_all(steps: &mut Steps<'_>, sketches: &Sketches<'_>) -> Result<()> {
    let mut frames = Vec::new();
    if !steps.is_done(Step::Scores).await? {
        let documents =
            stage::groups::without_copies(sketches.of_all(steps)?, steps.table(WorkTable::Groups)?)?;
        frames = every_two(steps, sketches.job, documents).await?;
    }
    steps.run(Step::Scores, 0, frames).await
}
