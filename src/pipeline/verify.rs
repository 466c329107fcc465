//! Scores candidates, or every two documents, by their sketches. Chooses the join of sketches and candidates that is estimated to move
//! the fewest bytes.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::prelude::{DataFrame, SessionContext, col};

use super::context::StageContext;
use super::groups;
use super::numbers::one_number;
use super::runner::Planned;
use super::sketches::{self, BoundedRows};
use super::tables::WorkTable;
use crate::engine::Engine;
use crate::error::Result;
use crate::frames;
use crate::frames::copies::{scores_of_equal_sets, unscored, without_copies};
use crate::frames::reference::{mark, with_reference};
use crate::frames::scores::{self, PairBlock, SketchJoin, segments};
use crate::job::{Compare, Job, NewPairs, Score, ScoreBy};

/// The number of bytes in a row (shingle, document, size, position).
pub(super) const BYTES_OF_PREFIX: u64 = 24;

/// Signatures are compared first if a join with all shingles moves at least this many times the bytes of a join with signatures only.
const WORTH_A_PASS: f64 = 2.0;

/// Only the sketches of candidates are read if at most one in this many documents occurs in a candidate.
const FEW: u64 = 2;

/// Slices per thread in the comparison of all pairs. Many small slices keep all threads busy until the end.
const SLICES_PER_THREAD: usize = 16;

/// The maximum share of a task's memory for sketches that are kept in memory as a whole.
const HELD_SHARE: f64 = 0.4;

/// [`Engine::partitions`] leaves most of a task's memory for other rows. Partitions that contain only sketches may be larger by this
/// factor.
const LARGER_SEGMENTS: u64 = 2;

/// The number of bytes in a shuffled row: a pair, a pair with its home block, and a request (home, document).
const BYTES_OF_PAIR: f64 = 16.0;
const BYTES_AT_HOME: f64 = 24.0;
const BYTES_OF_REQUEST: f64 = 16.0;

/// The minimum number of bytes of a batch of pairs, which waits in memory while sketches are streamed.
const LEAST_WAITING: f64 = 4e6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    /// An upper bound on the number of documents in candidates.
    documents: u64,
    candidates: u64,
    sketch: u64,
}

/// A join with its estimated costs.
#[derive(Debug, Clone, Copy, PartialEq)]
struct JoinCost {
    join: SketchJoin,
    /// The approximate number of bytes that are written or sent, and then read.
    moved: f64,
    /// The number of bytes that are divided among partitions: see [`Engine::partitions`].
    shuffled: u64,
}

impl Load {
    fn sketches(self) -> f64 {
        self.documents as f64 * self.sketch as f64
    }

    /// Returns the cheapest join that `engine` can execute.
    fn cheapest_join(self, engine: &dyn Engine) -> JoinCost {
        let divided = self.cheapest_divided(engine, 1);
        // The engine's configuration can disable joins that keep a side in memory.
        let holds = engine.config().options().optimizer.hash_join_single_partition_threshold > 0;
        if !holds || self.sketches() > HELD_SHARE * engine.task_bytes() as f64 {
            return divided;
        }
        let readers = engine.partitions(0) as f64;
        let moved = if engine.is_one_process() { 0.0 } else { self.sketches() * (1.0 + readers) };
        if moved > divided.moved {
            return divided;
        }
        JoinCost { join: SketchJoin::Held, moved, shuffled: 0 }
    }

    /// Returns the cheapest join that does not keep a whole side in memory, in a plan with at least `least` partitions.
    fn cheapest_divided(self, engine: &dyn Engine, least: usize) -> JoinCost {
        let partitions = |bytes| engine.partitions(bytes).max(least);
        let blocks = self.in_blocks(partitions);
        let segments = engine.is_one_process().then(|| self.by_segments(partitions));
        segments.filter(|segments| segments.moved <= blocks.moved).unwrap_or(blocks)
    }

    /// The cost of [`SketchJoin::Segments`]. All sketches are written once. Each partition reads its sketches once per batch of pairs
    /// that fits in memory.
    fn by_segments(self, partitions: impl Fn(u64) -> usize) -> JoinCost {
        let shuffled = self.sketches() as u64 / LARGER_SEGMENTS;
        let (partitions, pairs) = (partitions(shuffled) as f64, self.candidates as f64 * BYTES_OF_PAIR);
        let waiting = (self.sketches() / partitions).max(LEAST_WAITING);
        let passes = partitions * (pairs / partitions / waiting).ceil().max(1.0);
        let moved = self.sketches() * (1.0 + passes) + 2.0 * pairs;
        JoinCost { join: SketchJoin::Segments, moved, shuffled }
    }

    /// The cost of [`SketchJoin::Blocks`]. A sketch is shuffled by its document, and then once for each block that needs it.
    fn in_blocks(self, partitions: impl Fn(u64) -> usize) -> JoinCost {
        // A candidate needs at most two sketches.
        let most = 2.0 * self.candidates as f64;
        let bytes = |requests: f64| (requests * (self.sketch as f64 + BYTES_AT_HOME)) as u64;
        // The expected number of distinct segments per document, if its candidates are spread at random.
        let segments = segments(partitions(bytes(most))) as f64;
        let each = most / self.documents.max(1) as f64;
        let places = segments * -(-each / segments).exp_m1();
        let requests = (self.documents as f64 * places).min(most);
        let written = self.sketches()
            + requests * self.sketch as f64
            + most * BYTES_OF_REQUEST
            + self.candidates as f64 * BYTES_AT_HOME;
        JoinCost { join: SketchJoin::Blocks, moved: 2.0 * written, shuffled: bytes(requests) }
    }
}

/// The candidates (a, b) that remain after all search stages.
pub(super) fn remaining_candidates(cx: &StageContext<'_>) -> Result<BoundedRows> {
    BoundedRows::read(cx, candidate_table(cx))
}

/// The remaining candidates (a, b) that are not in [`known_scores`].
pub(super) fn candidates_to_compare(cx: &StageContext<'_>) -> Result<BoundedRows> {
    let found = remaining_candidates(cx)?;
    Ok(match known_scores(cx)? {
        Some(same) => BoundedRows { frame: unscored(found.frame, same)?, ..found },
        None => found,
    })
}

fn candidate_table(cx: &StageContext<'_>) -> WorkTable {
    // Each of these tables is written by the stage of the same name.
    let later = [WorkTable::AGREEING, WorkTable::DENSE_CANDIDATES, WorkTable::ALL_CANDIDATES];
    later.into_iter().find(|table| cx.is_taken(*table)).unwrap_or(WorkTable::CANDIDATES)
}

/// Returns the scores between new documents and reference documents with the same shingles, without reading texts again. They are common,
/// since most documents that a later run reads again have not changed.
///
/// Returns `None` if there are no reference documents. Also returns `None` if documents in the same group are not compared, since copies
/// are in one group.
pub(super) fn known_scores(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    if cx.reference.is_none() || cx.job.candidates.compare == Compare::Across {
        return Ok(None);
    }
    let (copies, group_keys) = (cx.table(WorkTable::COPIES)?, groups::keys(cx)?);
    let representatives = |table: WorkTable, further: &[&str]| {
        let columns = groups::SET.iter().chain(further).map(|column| col(*column)).collect::<Vec<_>>();
        let keys = without_copies(cx.table(table)?.select(columns)?, copies.clone())?;
        match &group_keys {
            Some(groups) => frames::with_columns(keys, groups.clone()),
            None => Ok(keys),
        }
    };
    let new = representatives(WorkTable::KEYS, &[])?;
    let known = representatives(WorkTable::REFERENCE, &["shingle_count"])?;
    scores_of_equal_sets(new, known, cx.job.lsh.bands).map(Some)
}

/// Scores candidates by the sketches of their documents. Also returns the pairs in `scores`, which are computed already.
pub(super) async fn verify<'a>(
    cx: &'a StageContext<'_>,
    documents: BoundedRows,
    candidates: BoundedRows,
    scores: Option<DataFrame>,
) -> Result<Planned<'a>> {
    let job = cx.job;
    let score = move |documents, candidates, join| {
        let compared = scores::scores(documents, candidates, join, &job.score, &job.lsh)?;
        Ok([Some(compared), scores.clone()].into_iter().flatten().collect())
    };
    compare(cx, documents, sketches::average_bytes(cx).await?, compared_sides(cx, candidates)?, score)
}

/// Scores the pairs (a, b), whatever their similarity.
pub(super) async fn score_every<'a>(
    cx: &'a StageContext<'_>,
    documents: BoundedRows,
    pairs: BoundedRows,
) -> Result<Planned<'a>> {
    let every = Score { threshold: 0.0, ..Score::default() };
    let score =
        move |documents, pairs, join| Ok(vec![scores::scores(documents, pairs, join, &every, &cx.job.lsh)?]);
    compare(cx, documents, sketches::average_bytes(cx).await?, pairs, score)
}

/// Drops candidates with signatures that agree in fewer values than the threshold requires.
pub(super) fn agree<'a>(
    cx: &'a StageContext<'_>,
    signatures: BoundedRows,
    candidates: BoundedRows,
) -> Result<Planned<'a>> {
    let job = cx.job;
    let agreeing = move |documents, candidates, join| {
        Ok(vec![scores::agreeing(documents, candidates, join, &job.score, &job.lsh)?])
    };
    compare(cx, signatures, signature_bytes(job), compared_sides(cx, candidates)?, agreeing)
}

/// Whether to drop candidates by their signatures first, which is cheaper if it saves enough shingles.
pub(super) async fn signatures_first(cx: &StageContext<'_>) -> Result<bool> {
    let job = cx.job;
    if !job.score.prefilter && job.score.by != ScoreBy::Signature {
        return Ok(false);
    }
    let Some(signatures) = sketches::signatures(cx)? else { return Ok(false) };
    if cx.is_done(WorkTable::AGREEING).await? {
        // An earlier attempt may have written the positions of the texts of these candidates.
        return Ok(true);
    }
    let candidates = cx.rows(candidate_table(cx));
    // With so few candidates, most can be pairs, and signatures would drop few.
    if candidates < signatures.count {
        return Ok(false);
    }
    let moved = |sketch| {
        let load = Load { documents: signatures.count, candidates, sketch };
        load.cheapest_join(cx.engine()).moved + load.sketches()
    };
    Ok(moved(signature_bytes(job)) * WORTH_A_PASS <= moved(sketches::average_bytes(cx).await?))
}

/// The number of bytes in a document's key and signature.
fn signature_bytes(job: &Job) -> u64 {
    scores::sketch_bytes_without_shingles(&job.minhash)
}

/// Plans the frames that `made` creates from documents and `candidates`. Each sketch takes `bytes`.
fn compare<'a>(
    cx: &'a StageContext<'_>,
    documents: BoundedRows,
    bytes: u64,
    candidates: BoundedRows,
    made: impl Fn(DataFrame, DataFrame, (SketchJoin, usize)) -> Result<Vec<DataFrame>> + Send + Sync + 'a,
) -> Result<Planned<'a>> {
    let count = candidates.count;
    let load =
        Load { documents: documents.count.min(count.saturating_mul(2)), candidates: count, sketch: bytes };
    let candidates = candidates.frame;
    let first = load.cheapest_join(cx.engine());
    let at_first = cx.engine().partitions(first.shuffled);
    let mut named = documents.frame.clone();
    if load.documents.saturating_mul(FEW) <= documents.count {
        named = frames::among(named, frames::needed(candidates.clone())?)?;
    }
    let (join, megabytes) = (first.join, (first.moved / 1e6) as u64);
    let frames = move |partitions| {
        // If the side that is kept in memory did not fit, the runner asks for more partitions. A divided join is then used.
        let divided = || load.cheapest_divided(cx.engine(), partitions).join;
        let join = if partitions == at_first { first.join } else { divided() };
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

/// Keeps the pairs (a, b, ..) that the job compares. Some jobs compare new documents only with reference documents.
fn compared_sides(cx: &StageContext<'_>, pairs: BoundedRows) -> Result<BoundedRows> {
    match cx.reference_docs()? {
        Some(reference) if cx.job.new_pairs() == Some(NewPairs::WithReference) => {
            Ok(BoundedRows { frame: with_reference(pairs.frame, reference)?, ..pairs })
        }
        _ => Ok(pairs),
    }
}

/// Scores every two `documents` (doc, shingles, signature, ..) that the job compares, and keeps scores that reach the threshold. The number
/// of frames is chosen so that the sketches of each frame fit in memory.
pub(super) async fn every_two(cx: &StageContext<'_>, documents: DataFrame) -> Result<Vec<DataFrame>> {
    let job = cx.job;
    let documents = match cx.reference_docs()? {
        Some(known) => mark(documents, known)?,
        None => documents,
    };
    // The sketches of two segments are in memory at once.
    let room = cx.engine().task_bytes() as f64 * HELD_SHARE;
    let bytes = one_number(scores::sketch_bytes(documents.clone(), &job.minhash)?).await? as f64;
    let segments = if bytes <= room { 1 } else { (2.0 * bytes / room).ceil() as u64 };
    tracing::info!(segments, megabytes = (bytes / 1e6) as u64, "sketches to hold while scoring");
    let blocks = PairBlock::all(segments).into_iter().map(|block| {
        let (documents, slices) = (documents.clone(), slices(cx.session())?);
        let scores = scores::scores_of_all(documents, slices, block, &job.score, &job.lsh)?;
        groups::compared(cx, compared_sides(cx, BoundedRows { frame: scores, count: 0 })?.frame)
    });
    blocks.collect()
}

/// Returns (slice, slices), with one row and one batch per slice, in as many partitions as threads.
pub(crate) fn slices(session: &SessionContext) -> Result<DataFrame> {
    let threads = session.state().config().target_partitions();
    let slices = (threads * SLICES_PER_THREAD) as u64;
    let column = |name| Field::new(name, DataType::UInt64, false);
    let schema = Arc::new(Schema::new(vec![column("slice"), column("slices")]));
    let mut partitions = vec![Vec::new(); threads];
    for slice in 0..slices {
        let columns = [slice, slices].map(|number| Arc::new(UInt64Array::from(vec![number])) as ArrayRef);
        partitions[slice as usize % threads]
            .push(RecordBatch::try_new(Arc::clone(&schema), columns.to_vec())?);
    }
    Ok(session.read_table(Arc::new(MemTable::try_new(schema, partitions)?))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Local, session};
    use crate::job;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_join_that_moves_the_fewest_bytes_is_taken() {
        for (memory, documents, each, sketch, expected) in [
            // About 20,000 posts. Each post has 124 candidates.
            (4096, 19_466, 124.0, 12_800, SketchJoin::Held),
            (512, 50_000, 500.0, 2_200, SketchJoin::Held),
            (512, 19_466, 124.0, 12_800, SketchJoin::Segments),
            (512, 200_000, 50.0, 2_200, SketchJoin::Segments),
            (512, 200_000, 500.0, 2_200, SketchJoin::Segments),
            (4096, 1_000_000, 50.0, 2_200, SketchJoin::Segments),
            (512, 600_000, 0.6, 2_200, SketchJoin::Blocks),
            (4096, 100_000_000, 1.5, 1_300, SketchJoin::Blocks),
        ] {
            let settings = job::EngineSettings { threads: 2, ..job::EngineSettings::local(memory * MIB) };
            let engine = Local::new(session::session(&settings).unwrap());
            let load = Load { documents, candidates: (documents as f64 * each) as u64, sketch };
            let cost = load.cheapest_join(&engine);
            assert_eq!(cost.join, expected, "{documents} documents, {each} candidates, {memory} MiB");
            // A sketch is sent once per block instead of once per candidate.
            let at_homes = documents as f64 * each.clamp(10.0, 100.0) * sketch as f64;
            assert!(cost.moved < at_homes, "{} bytes instead of {at_homes}", cost.moved);
        }
    }
}
