//! From sketches to scores: candidates, and what they are compared by.

use datafusion::prelude::DataFrame;

use super::numbers::one_number;
use super::sketches::Sketches;
use super::step::Step;
use super::steps::Steps;
use super::tables::{self, WorkTable};
use crate::error::Result;
use crate::job::{Job, Method};
use crate::schema::Table;
use crate::stage;
use crate::stage::scores::Block;

/// Finds candidates, and says which table holds them; none where all pairs are to be scored.
pub(super) async fn candidates(steps: &mut Steps<'_>, sketches: &Sketches<'_>) -> Result<Option<WorkTable>> {
    let job = sketches.job;
    match job.candidates.method {
        Method::All => return Ok(None),
        Method::Prefix => {
            let documents =
                stage::groups::without_copies(sketches.of_all(steps)?, steps.table(WorkTable::Groups)?)?;
            prefix(steps, job, documents, None, Step::Candidates).await?;
        }
        Method::Lsh => {
            let (keys, groups) = (steps.table(WorkTable::Keys)?, steps.table(WorkTable::Groups)?);
            let frame = stage::candidates::candidates(keys, groups, job.lsh.hot_bucket)?;
            let bytes = steps.rows(WorkTable::Keys) * job.lsh.bands as u64 * BYTES_OF_ROW;
            steps.run(Step::Candidates, bytes, vec![frame]).await?;
            if steps.rows(WorkTable::Hot) > 0 {
                steps.expect(Step::of_hot_buckets(job).len());
                let documents = sketches.of_hot(steps).await?;
                let documents = stage::prefix::of_hot(documents, steps.table(WorkTable::Hot)?)?;
                let beside = steps.table(WorkTable::Candidates)?;
                prefix(steps, job, documents, Some(beside), Step::AllCandidates).await?;
                return Ok(Some(WorkTable::AllCandidates));
            }
        }
    }
    Ok(Some(WorkTable::Candidates))
}

/// Bytes of a row (bucket, document), and of one (document, document).
const BYTES_OF_ROW: u64 = 16;

/// Bytes of a row (shingle, document, size, position).
const BYTES_OF_PREFIX: u64 = 24;

/// Joins `documents` by their prefixes in `step`, which also takes over the candidates that are there `beside`.
async fn prefix(
    steps: &mut Steps<'_>,
    job: &Job,
    documents: DataFrame,
    beside: Option<DataFrame>,
    step: Step,
) -> Result<()> {
    let permutations = job.minhash.permutations;
    let elements = one_number(stage::prefix::elements(documents.clone(), &job.score, permutations)?).await?;
    let join = stage::prefix::Join::new(&job.score, permutations, elements);
    let frame = stage::prefix::frequencies(documents.clone(), &join)?;
    steps.run(Step::Frequencies, 0, vec![frame]).await?;
    let mut frame = stage::prefix::candidates(documents, steps.table(WorkTable::Frequencies)?, &join)?;
    if let Some(beside) = beside {
        frame = frame.union(beside)?.distinct()?;
    }
    // A prefix has all but a set's share of shingles that a similar one must have.
    let rows = (elements as f64 * (1.0 - join.threshold())) as u64 + steps.rows(Table::Documents);
    steps.run(step, rows * BYTES_OF_PREFIX, vec![frame]).await
}

/// Scores the candidates that `candidates` holds; where there is no such table, every two documents.
pub(super) async fn scores(
    steps: &mut Steps<'_>,
    sketches: &Sketches<'_>,
    candidates: Option<WorkTable>,
) -> Result<()> {
    let job = sketches.job;
    let Some(table) = candidates else { return scores_of_all(steps, sketches).await };
    // A pair asks for two sketches; of those that are there, each goes to as many homes as ask for it.
    let per_document = sketches.bytes_of_one(steps).await?;
    let bytes = (2 * steps.rows(table)).saturating_mul(per_document + BYTES_OF_PREFIX);
    let (documents, candidates) = (sketches.of_candidates(steps, table).await?, steps.table(table)?);
    let frames = |partitions| {
        let (documents, candidates) = (documents.clone(), candidates.clone());
        Ok(vec![stage::scores::scores(documents, candidates, partitions, &job.score, &job.lsh)?])
    };
    steps.run_made(Step::Scores, bytes, frames).await
}

async fn scores_of_all(steps: &mut Steps<'_>, sketches: &Sketches<'_>) -> Result<()> {
    let job = sketches.job;
    let mut frames = Vec::new();
    if !steps.is_done(Step::Scores).await? {
        let documents =
            stage::groups::without_copies(sketches.of_all(steps)?, steps.table(WorkTable::Groups)?)?;
        for block in blocks(steps, job).await? {
            let (documents, slices) = (documents.clone(), tables::slices(steps.session())?);
            frames.push(stage::scores::scores_of_all(documents, slices, block, &job.score, &job.lsh)?);
        }
    }
    steps.run(Step::Scores, 0, frames).await
}

/// Cuts the key space so that the sketches of two segments take at most two fifths of the memory pool.
async fn blocks(steps: &Steps<'_>, job: &Job) -> Result<Vec<Block>> {
    let room = steps.task_bytes() as f64 * 0.4;
    let documents = steps.table(Table::Documents)?;
    let bytes = one_number(stage::scores::held_bytes(documents, job.minhash.permutations)?).await? as f64;
    let segments = if bytes <= room { 1 } else { (2.0 * bytes / room).ceil() as u64 };
    tracing::info!(segments, megabytes = (bytes / 1e6) as u64, "sketches to hold while scoring");
    Ok(Block::all(segments))
}
