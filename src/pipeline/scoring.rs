//! From sketches to scores: candidates, and what they are compared by.

use datafusion::prelude::DataFrame;

use super::dense;
use super::foretell::{self, Population};
use super::numbers::one_number;
use super::step::Step;
use super::steps::Steps;
use super::tables::{self, WorkTable};
use crate::error::Result;
use crate::job::{Job, Method};
use crate::schema::Table;
use crate::stage;
use crate::stage::prefix::Join;
use crate::stage::scores::Block;

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

/// Bytes of a row (shingle, document, size, position).
pub(super) const BYTES_OF_PREFIX: u64 = 24;

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

/// The scores of those candidates that reach the threshold, and the bytes that it takes to find them.
pub(super) fn verified(steps: &Steps<'_>, job: &Job, candidates: WorkTable) -> Result<(DataFrame, u64)> {
    let (pairs, documents) = (steps.rows(candidates), steps.rows(Table::Documents));
    // A pair asks for two sketches; of those that are there, each goes to as many homes as ask for it.
    let per_document = steps.bytes(Table::Documents) / documents.max(1);
    let bytes = (2 * pairs).saturating_mul(per_document + BYTES_OF_PREFIX);
    let partitions = steps.partitions(bytes);
    let (documents, candidates) = (steps.table(Table::Documents)?, steps.table(candidates)?);
    let frame = stage::scores::scores(documents, candidates, partitions, &job.score, &job.lsh)?;
    Ok((frame, bytes))
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

/// The scores of every two of `documents` that reach the threshold, in as many frames as it takes to hold few of them.
pub(super) async fn every_two(steps: &Steps<'_>, job: &Job, documents: DataFrame) -> Result<Vec<DataFrame>> {
    let blocks = blocks(steps, job, documents.clone()).await?.into_iter().map(|block| {
        let (documents, slices) = (documents.clone(), tables::slices(steps.session())?);
        stage::scores::scores_of_all(documents, slices, block, &job.score, &job.lsh)
    });
    blocks.collect()
}

/// Cuts the key space so that the sketches of two segments take at most two fifths of the memory pool.
async fn blocks(steps: &Steps<'_>, job: &Job, documents: DataFrame) -> Result<Vec<Block>> {
    let room = steps.task_bytes() as f64 * 0.4;
    let bytes = one_number(stage::scores::held_bytes(documents, job.minhash.permutations)?).await? as f64;
    let segments = if bytes <= room { 1 } else { (2.0 * bytes / room).ceil() as u64 };
    tracing::info!(segments, megabytes = (bytes / 1e6) as u64, "sketches to hold while scoring");
    Ok(Block::all(segments))
}
