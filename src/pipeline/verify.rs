//! What verifies pairs: the scores of candidates, and those of every two documents.

use datafusion::prelude::DataFrame;

use super::by_group;
use super::numbers::one_number;
use super::sketches::Sketches;
use super::step::Step;
use super::steps::Steps;
use super::tables::{self, WorkTable};
use crate::error::Result;
use crate::job::{Job, NewPairs};
use crate::stage;
use crate::stage::scores::Block;

/// Bytes of a row (shingle, document, size, position).
pub(super) const BYTES_OF_PREFIX: u64 = 24;

/// Pairs of documents that may be similar.
pub(super) struct Candidates {
    /// (a, b).
    pub(super) pairs: DataFrame,
    /// How many they are, at most.
    pub(super) rows: u64,
}

impl Candidates {
    /// Those of a table.
    pub(super) fn of(steps: &Steps<'_>, table: WorkTable) -> Result<Self> {
        Ok(Self { pairs: steps.table(table)?, rows: steps.rows(table) })
    }
}

/// Scores candidates in `step`, by the sketches (doc, shingles, signature, ..) of their documents, and adds the `scores` that are known
/// of others.
pub(super) async fn verify(
    sketches: &Sketches<'_>,
    step: Step,
    documents: DataFrame,
    candidates: Candidates,
    scores: Option<DataFrame>,
) -> Result<()> {
    // A pair asks for two sketches; of those that are there, each goes to as many homes as ask for it.
    let per_document = sketches.bytes_of_one().await?;
    let bytes = (2 * candidates.rows).saturating_mul(per_document + BYTES_OF_PREFIX);
    let job = sketches.job;
    let candidates = with_known(sketches, candidates.pairs)?;
    let frames = |partitions| {
        let (documents, candidates) = (documents.clone(), candidates.clone());
        let compared = stage::scores::scores(documents, candidates, partitions, &job.score, &job.lsh)?;
        Ok([Some(compared), scores.clone()].into_iter().flatten().collect())
    };
    sketches.steps.run_made(step, bytes, frames).await
}

/// Of (a, b, ..), the pairs that the job has by the sides of their documents.
fn with_known(sketches: &Sketches<'_>, pairs: DataFrame) -> Result<DataFrame> {
    match sketches.known_docs()? {
        Some(known) if sketches.job.new_pairs() == Some(NewPairs::WithKnown) => {
            stage::known::with_known(pairs, known)
        }
        _ => Ok(pairs),
    }
}

/// The scores of every two of `documents` (doc, shingles, signature, ..) that the job compares and that reach the threshold, in as many
/// frames as it takes to hold few of them.
pub(super) async fn every_two(sketches: &Sketches<'_>, documents: DataFrame) -> Result<Vec<DataFrame>> {
    let (steps, job) = (sketches.steps, sketches.job);
    let documents = sketches.marked(documents)?;
    let blocks = blocks(steps, job, documents.clone()).await?.into_iter().map(|block| {
        let (documents, slices) = (documents.clone(), tables::slices(steps.session())?);
        let scores = stage::scores::scores_of_all(documents, slices, block, &job.score, &job.lsh)?;
        by_group::compared(steps, job, with_known(sketches, scores)?)
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
