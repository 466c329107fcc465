//! What verifies pairs: the scores of candidates, and those of every two documents.

use datafusion::prelude::DataFrame;

use super::by_group;
use super::numbers::one_number;
use super::road::{Load, Way, ways};
use super::sketches::{Sketched, Sketches};
use super::step::Step;
use super::steps::Steps;
use super::tables::{self, WorkTable};
use crate::error::{Error, Result};
use crate::job::{Job, NewPairs, ScoreBy};
use crate::stage;
use crate::stage::scores::{Block, Road};

/// Bytes of a row (shingle, document, size, position).
pub(super) const BYTES_OF_PREFIX: u64 = 24;

/// Signatures are compared first if that moves at most one byte in place of this many.
const WORTH_A_PASS: f64 = 2.0;

/// If candidates name at most one in this many documents, only the sketches of those are read.
const FEW_OF: u64 = 2;

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

/// Scores candidates in `step`, by the sketches of their documents, and adds the `scores` that are known of others.
pub(super) async fn verify(
    sketches: &Sketches<'_>,
    step: Step,
    documents: Sketched,
    candidates: Candidates,
    scores: Option<DataFrame>,
) -> Result<()> {
    let job = sketches.job;
    let score = |documents, candidates, road| {
        let compared = stage::scores::scores(documents, candidates, road, &job.score, &job.lsh)?;
        Ok([Some(compared), scores.clone()].into_iter().flatten().collect())
    };
    compare(sketches, step, documents, sketches.bytes_of_one().await?, candidates, score).await
}

/// Drops the pairs of `candidates` whose signatures agree in less than the threshold.
pub(super) async fn agree(
    sketches: &Sketches<'_>,
    signatures: Sketched,
    candidates: Candidates,
) -> Result<()> {
    let job = sketches.job;
    let agreeing = |documents, candidates, road| {
        Ok(vec![stage::scores::agreeing(documents, candidates, road, &job.score, &job.lsh)?])
    };
    compare(sketches, Step::Agreeing, signatures, bytes_of_signature(job), candidates, agreeing).await
}

/// Whether it costs less to drop candidates by signatures first, so that the shingles of fewer are needed.
pub(super) async fn signatures_first(sketches: &Sketches<'_>, candidates: WorkTable) -> Result<bool> {
    let (steps, job) = (sketches.steps, sketches.job);
    if !job.score.prefilter && job.score.by != ScoreBy::Signature {
        return Ok(false);
    }
    let Some(signatures) = sketches.signatures()? else { return Ok(false) };
    if steps.is_done(Step::Agreeing).await? {
        // The positions of texts may be found for what it left.
        return Ok(true);
    }
    let candidates = steps.rows(candidates);
    // Of few candidates most may be pairs.
    if candidates < signatures.count {
        return Ok(false);
    }
    let moved =
        |load: Load| ways(load, steps.engine(), 1).first().map_or(0.0, |way| way.moved) + load.sketches();
    let load = |sketch| Load { documents: signatures.count, candidates, sketch };
    let (first, all) = (moved(load(bytes_of_signature(job))), moved(load(sketches.bytes_of_one().await?)));
    Ok(first * WORTH_A_PASS <= all)
}

/// Bytes of a document and its signature.
fn bytes_of_signature(job: &Job) -> u64 {
    stage::scores::held_bytes_without_shingles(job.minhash.permutations)
}

/// Writes in `step` what `made` makes of documents, whose sketches take so many `bytes` each, and of `candidates`.
async fn compare(
    sketches: &Sketches<'_>,
    step: Step,
    documents: Sketched,
    bytes: u64,
    candidates: Candidates,
    made: impl Fn(DataFrame, DataFrame, (Road, usize)) -> Result<Vec<DataFrame>>,
) -> Result<()> {
    let (steps, count) = (sketches.steps, candidates.rows);
    let load =
        Load { documents: documents.count.min(count.saturating_mul(2)), candidates: count, sketch: bytes };
    let candidates = with_known(sketches, candidates.pairs)?;
    let cheapest = |least, among: fn(&Way) -> bool| {
        let way = ways(load, steps.engine(), least).into_iter().find(among);
        way.ok_or_else(|| Error::bug("there is no road to candidates"))
    };
    let first = cheapest(1, |_| true)?;
    let at_first = steps.engine().partitions(first.shuffled);
    let named = match load.documents.saturating_mul(FEW_OF) <= documents.count {
        true => stage::sketches::among(documents.frame.clone(), stage::scores::needed(candidates.clone())?)?,
        false => documents.frame.clone(),
    };
    let frames = |partitions| {
        // Where what was to be held did not fit, it is divided.
        let Way { road, .. } = match partitions == at_first {
            true => first,
            false => cheapest(partitions, |way| way.road != Road::Held)?,
        };
        let documents = match road {
            Road::Held | Road::Segments => named.clone(),
            Road::Homes | Road::Blocks => documents.frame.clone(),
        };
        made(documents, candidates.clone(), (road, partitions))
    };
    let (road, megabytes) = (first.road, (first.moved / 1e6) as u64);
    let Load { documents, candidates, .. } = load;
    tracing::info!(%step, ?road, documents, candidates, megabytes, "the road of sketches to candidates");
    steps.run_made(step, first.shuffled, frames).await
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
