//! Verifies pairs: scores candidates, or every two documents.

use datafusion::prelude::DataFrame;

use super::by_group;
use super::candidate_pairs::{self, CandidatePairs};
use super::context::StageContext;
use super::numbers::one_number;
use super::runner::Planned;
use super::sketch_join::Load;
use super::sketches::Sketched;
use super::tables::{self, WorkTable};
use crate::error::Result;
use crate::frames;
use crate::frames::scores::{PairBlock, SketchJoin};
use crate::job::{Job, NewPairs, ScoreBy};

/// Bytes of a row (shingle, document, size, position).
pub(super) const BYTES_OF_PREFIX: u64 = 24;

/// Signatures are compared first if all shingles would move at least this many times as many bytes.
const WORTH_A_PASS: f64 = 2.0;

/// If candidates name at most one in this many documents, only the sketches of those are read.
const FEW_OF: u64 = 2;

/// Scores candidates by the sketches of their documents, and adds the known `scores` of others.
pub(super) async fn verify<'a>(
    cx: &'a StageContext<'_>,
    documents: Sketched,
    candidates: CandidatePairs,
    scores: Option<DataFrame>,
) -> Result<Planned<'a>> {
    let job = cx.job;
    let score = move |documents, candidates, join| {
        let compared = frames::scores::scores(documents, candidates, join, &job.score, &job.lsh)?;
        Ok([Some(compared), scores.clone()].into_iter().flatten().collect())
    };
    compare(cx, documents, cx.bytes_of_one().await?, candidates, score)
}

/// Drops the pairs of `candidates` whose signatures agree in less than the threshold.
pub(super) fn agree<'a>(
    cx: &'a StageContext<'_>,
    signatures: Sketched,
    candidates: CandidatePairs,
) -> Result<Planned<'a>> {
    let job = cx.job;
    let agreeing = move |documents, candidates, join| {
        Ok(vec![frames::scores::agreeing(documents, candidates, join, &job.score, &job.lsh)?])
    };
    compare(cx, signatures, bytes_of_signature(job), candidates, agreeing)
}

/// Whether it is cheaper to drop candidates by their signatures first, so that the shingles of fewer are needed.
pub(super) async fn signatures_first(cx: &StageContext<'_>) -> Result<bool> {
    let job = cx.job;
    if !job.score.prefilter && job.score.by != ScoreBy::Signature {
        return Ok(false);
    }
    let Some(signatures) = cx.signatures()? else { return Ok(false) };
    if cx.is_done(WorkTable::AGREEING).await? {
        // The positions of the texts of the remaining candidates may have been found already.
        return Ok(true);
    }
    let candidates = cx.rows(candidate_pairs::table(cx));
    // If candidates are few, most of them may be pairs.
    if candidates < signatures.count {
        return Ok(false);
    }
    let moved = |load: Load| load.cheapest_join(cx.engine()).moved + load.sketches();
    let load = |sketch| Load { documents: signatures.count, candidates, sketch };
    let (first, all) = (moved(load(bytes_of_signature(job))), moved(load(cx.bytes_of_one().await?)));
    Ok(first * WORTH_A_PASS <= all)
}

/// Bytes of a document and its signature.
fn bytes_of_signature(job: &Job) -> u64 {
    frames::scores::held_bytes_without_shingles(&job.minhash)
}

/// The frames that `made` makes from documents, whose sketches take `bytes` each, and from `candidates`.
fn compare<'a>(
    cx: &'a StageContext<'_>,
    documents: Sketched,
    bytes: u64,
    candidates: CandidatePairs,
    made: impl Fn(DataFrame, DataFrame, (SketchJoin, usize)) -> Result<Vec<DataFrame>> + Send + Sync + 'a,
) -> Result<Planned<'a>> {
    let count = candidates.rows;
    let load =
        Load { documents: documents.count.min(count.saturating_mul(2)), candidates: count, sketch: bytes };
    let candidates = with_reference(cx, candidates.pairs)?;
    let first = load.cheapest_join(cx.engine());
    let at_first = cx.engine().partitions(first.shuffled);
    let named = match load.documents.saturating_mul(FEW_OF) <= documents.count {
        true => {
            frames::sketches::among(documents.frame.clone(), frames::scores::needed(candidates.clone())?)?
        }
        false => documents.frame.clone(),
    };
    let (join, megabytes) = (first.join, (first.moved / 1e6) as u64);
    let frames = move |partitions| {
        // If the data that were to be held did not fit, they are divided.
        let divided = || load.cheapest_divided(cx.engine(), partitions);
        let join = if partitions == at_first { first.join } else { divided().join };
        let documents = match join {
            SketchJoin::Held | SketchJoin::Segments => named.clone(),
            SketchJoin::Blocks => documents.frame.clone(),
        };
        made(documents, candidates.clone(), (join, partitions))
    };
    let Load { documents, candidates, .. } = load;
    tracing::debug!(?join, documents, candidates, megabytes, "the join of sketches and candidates");
    Ok(Planned::made(first.shuffled, frames))
}

/// The pairs of (a, b, ..) that the job compares, by whether their documents are reference documents.
fn with_reference(cx: &StageContext<'_>, pairs: DataFrame) -> Result<DataFrame> {
    match cx.reference_docs()? {
        Some(reference) if cx.job.new_pairs() == Some(NewPairs::WithReference) => {
            frames::reference::with_reference(pairs, reference)
        }
        _ => Ok(pairs),
    }
}

/// The scores of every two of `documents` (doc, shingles, signature, ..) that the job compares and that reach the
/// threshold, in as many frames as are needed to hold few sketches at once.
pub(super) async fn every_two(cx: &StageContext<'_>, documents: DataFrame) -> Result<Vec<DataFrame>> {
    let job = cx.job;
    let documents = cx.marked(documents)?;
    let blocks = blocks(cx, documents.clone()).await?.into_iter().map(|block| {
        let (documents, slices) = (documents.clone(), tables::slices(cx.session())?);
        let scores = frames::scores::scores_of_all(documents, slices, block, &job.score, &job.lsh)?;
        by_group::compared(cx, with_reference(cx, scores)?)
    });
    blocks.collect()
}

/// Cuts the key space so that the sketches of two segments take at most two fifths of the memory pool.
async fn blocks(cx: &StageContext<'_>, documents: DataFrame) -> Result<Vec<PairBlock>> {
    let room = cx.task_bytes() as f64 * 0.4;
    let bytes = one_number(frames::scores::held_bytes(documents, &cx.job.minhash)?).await? as f64;
    let segments = if bytes <= room { 1 } else { (2.0 * bytes / room).ceil() as u64 };
    tracing::info!(segments, megabytes = (bytes / 1e6) as u64, "sketches to hold while scoring");
    Ok(PairBlock::all(segments))
}
