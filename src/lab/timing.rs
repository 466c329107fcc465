//! Runs and times stages over a sample. Their results stay in memory.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::functions_nested::expr_fn::array_max;
use datafusion::prelude::{DataFrame, SessionContext, col};

use super::sample::compared::Compared;
use crate::engine::RunControl;
use crate::error::{Error, Kind, Result};
use crate::frames;
use crate::frames::scores::{Block, SketchJoin};
use crate::job::{Job, ShingleHash};
use crate::pipeline::numbers::one_number;
use crate::pipeline::stage;
use crate::pipeline::tables;
use crate::schema::SourceTypes;

/// The stages that read one document at a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    Shingles,
    Signatures,
    Bands,
}

/// The frame of a stage over the frame of the stage before it. For [`Phase::Signatures`] that one must be in memory,
/// since the number of entries of the job's dictionary is read from it.
pub(super) async fn stage(phase: Phase, before: DataFrame, job: &Job) -> Result<DataFrame> {
    match phase {
        Phase::Shingles => frames::shingles::shingles(before, &job.shingle),
        Phase::Signatures => {
            let dictionary = match job.shingle.hash {
                ShingleHash::Dictionary => Some(entries(before.clone()).await?),
                ShingleHash::Xxh3 | ShingleHash::Crc32 | ShingleHash::Sha256Mod31 => None,
            };
            frames::signatures::signatures(before, job, dictionary)
        }
        Phase::Bands => frames::bands::bands(before, &job.lsh),
    }
}

/// The number of entries of a dictionary, whose numbers start at 1.
async fn entries(shingles: DataFrame) -> Result<u64> {
    one_number(shingles.aggregate(vec![], vec![max(array_max(col("shingles"))).alias("last")])?).await
}

/// Runs plans one after the other, times them, and reports progress.
pub(super) struct Bench<'a> {
    pub(super) session: &'a SessionContext,
    control: &'a RunControl,
    done: usize,
    total: usize,
}

impl<'a> Bench<'a> {
    /// A bench for `total` plans.
    pub(super) fn new(session: &'a SessionContext, control: &'a RunControl, total: usize) -> Self {
        Self { session, control, done: 0, total }
    }

    /// The result of `work`, and its seconds with planning. `work` also returns its number of rows.
    pub(super) async fn time<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = Result<(T, u64)>>,
    ) -> Result<(T, f64)> {
        if self.control.stop.is_cancelled() {
            return Err(stopped());
        }
        self.done += 1;
        self.control.progress.stage_begins(name, self.done, self.total);
        let began = Instant::now();
        let (made, rows) = work.await?;
        let seconds = began.elapsed().as_secs_f64();
        self.control.progress.stage_ends(name, rows, seconds, false);
        Ok((made, seconds))
    }
}

/// The error of a measurement that was stopped: no part of it is kept.
pub(super) fn stopped() -> Error {
    Error::new(Kind::Interrupted, "stopped; nothing was written")
}

/// Runs a frame, and returns a frame over its rows in memory, and their number.
pub(super) async fn in_memory(session: &SessionContext, frame: DataFrame) -> Result<(DataFrame, u64)> {
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let partitions = frame.collect_partitioned().await?;
    let rows = partitions.iter().flatten().map(|batch| batch.num_rows() as u64).sum();
    Ok((session.read_table(Arc::new(MemTable::try_new(schema, partitions)?))?, rows))
}

/// The pairs of documents that a search scored, and the number of its candidates; `None` if it compared all pairs.
pub(super) struct Searched {
    pub(super) scores: Vec<RecordBatch>,
    pub(super) candidates: Option<u64>,
}

/// Scores the documents of `sketches` (doc, shingle_count, shingles, signature, ..) that are compared and reach the threshold,
/// by the job's method. Copies are compared like every document. Returns the pairs with their number.
pub(super) async fn search(
    session: &SessionContext,
    sketches: DataFrame,
    compared: &Compared,
    job: &Job,
) -> Result<(Searched, u64)> {
    let method = job.candidates.method;
    let (scores, candidates) = if method.has_candidates() {
        let candidates = if method.joins_all() {
            by_prefix(&sketches, None, compared, job).await?
        } else {
            by_buckets(session, &sketches, compared, job).await?
        };
        let (candidates, count) = in_memory(session, compared.only(candidates)?).await?;
        let join = (SketchJoin::Held, 1);
        (frames::scores::scores(sketches, candidates, join, &job.score, &job.lsh)?, Some(count))
    } else {
        let (sketches, slices) = (compared.marked(sketches)?, tables::slices(session)?);
        let whole = Block { left: 0, right: 0, segments: 1 };
        let scores = frames::scores::scores_of_all(sketches, slices, whole, &job.score, &job.lsh)?;
        (compared.only(scores)?, None)
    };
    let scores = scores.collect().await?;
    let pairs = scores.iter().map(|batch| batch.num_rows() as u64).sum();
    Ok((Searched { scores, candidates }, pairs))
}

/// The documents that share a bucket; documents of hot buckets by their rarest shingles.
async fn by_buckets(
    session: &SessionContext,
    sketches: &DataFrame,
    compared: &Compared,
    job: &Job,
) -> Result<DataFrame> {
    let keys = stage(Phase::Bands, sketches.clone(), job).await?.select(vec![col("doc"), col("buckets")])?;
    let (copies, hot) = (no_copies(session, job)?, job.lsh.hot_bucket);
    let found = stage::search::candidates(keys, copies, hot, compared.known())?;
    let (found, _) = in_memory(session, found).await?;
    let hot = found.clone().filter(col("b").is_null())?;
    let candidates = found.filter(col("b").is_not_null())?;
    match hot.clone().count().await? {
        0 => Ok(candidates),
        _ => Ok(by_prefix(sketches, Some(hot), compared, job).await?.union(candidates)?.distinct()?),
    }
}

async fn by_prefix(
    sketches: &DataFrame,
    hot: Option<DataFrame>,
    compared: &Compared,
    job: &Job,
) -> Result<DataFrame> {
    let documents = match hot {
        Some(hot) => frames::prefix::only(sketches.clone(), hot)?,
        None => sketches.clone(),
    };
    let elements = frames::prefix::elements(documents.clone(), &job.score, job.minhash.permutations)?;
    let join =
        frames::prefix::Join::new(&job.score, job.minhash.permutations, one_number(elements).await?, false);
    let frequencies = frames::prefix::frequencies(documents.clone(), &join)?;
    frames::prefix::candidates(documents, frequencies, &join, None, compared.known())
}

fn no_copies(session: &SessionContext, job: &Job) -> Result<DataFrame> {
    let groups = tables::WorkTable::COPIES.schema(job, &SourceTypes::default());
    Ok(session.read_table(Arc::new(MemTable::try_new(groups, vec![vec![]])?))?)
}
