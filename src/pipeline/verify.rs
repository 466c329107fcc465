//! What verifies pairs: the scores of candidates, and those of every two documents.

use datafusion::prelude::DataFrame;

use super::numbers::one_number;
use super::sketches::Sketches;
use super::step::Step;
use super::steps::Steps;
use super::tables::{self, WorkTable};
use crate::error::Result;
use crate::job::Job;
use crate::stage;
use crate::stage::scores::Block;

/// Bytes of a row (shingle, document, size, position).
pub(super) const BYTES_OF_PREFIX: u64 = 24;

/// Scores in `step` the pairs that `candidates` holds, by the sketches (doc, shingles, signature, ..) of their documents.
pub(super) async fn verify(
    sketches: &Sketches<'_>,
    step: Step,
    documents: DataFrame,
    candidates: WorkTable,
) -> Result<()> {
    // A pair asks for two sketches; of those that are there, each goes to as many homes as ask for it.
    let steps = sketches.steps;
    let per_document = sketches.bytes_of_one().await?;
    let bytes = (2 * steps.rows(candidates)).saturating_mul(per_document + BYTES_OF_PREFIX);
    let (job, mut candidates) = (sketches.job, steps.table(candidates)?);
    if let Some(known) = sketches.only_with_known()? {
        candidates = stage::known::with_known(candidates, known)?;
    }
    let frames = |partitions| {
        let (documents, candidates) = (documents.clone(), candidates.clone());
        Ok(vec![stage::scores::scores(documents, candidates, partitions, &job.score, &job.lsh)?])
    };
    steps.run_made(step, bytes, frames).await
}

/// The scores of every two of `documents` that reach the threshold, in as many frames as it takes to hold few of them. Two that
/// are marked as known are not compared.
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
