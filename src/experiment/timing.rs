//! The stages over a sample, each run by itself and timed, with what it makes kept in memory.

use std::sync::Arc;
use std::time::Instant;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::functions_nested::expr_fn::array_max;
use datafusion::prelude::{DataFrame, SessionContext, col};

use super::compared::Compared;
use crate::engine::RunControl;
use crate::error::{Error, Kind, Result};
use crate::job::{Job, Lsh, Score, ShingleHash};
use crate::pipeline::numbers::one_number;
use crate::pipeline::tables;
use crate::schema::SourceTypes;
use crate::stage;
use crate::stage::scores::{Block, Road};

/// The stages that look at one document at a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Shingles,
    Signatures,
    Bands,
}

/// The frame of a stage over the frame of the stage before it, which for [`Step::Signatures`] is one in memory: where
/// the job has a dictionary, it is read to know how many entries that has.
pub(super) async fn stage(step: Step, before: DataFrame, job: &Job) -> Result<DataFrame> {
    match step {
        Step::Shingles => stage::shingles::shingles(before, &job.shingle),
        Step::Signatures => {
            let dictionary = match job.shingle.hash {
                ShingleHash::Dictionary => Some(entries(before.clone()).await?),
                ShingleHash::Xxh3 | ShingleHash::Crc32 | ShingleHash::Sha256Mod31 => None,
            };
            stage::signatures::signatures(before, job, dictionary)
        }
        Step::Bands => stage::bands::bands(before, &job.lsh),
    }
}

/// The number of entries of a dictionary, which counts them from 1.
async fn entries(shingles: DataFrame) -> Result<u64> {
    one_number(shingles.aggregate(vec![], vec![max(array_max(col("shingles"))).alias("last")])?).await
}

/// Runs plans one after the other, times them, and says how far it is.
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

    /// What `work` gives, and the seconds that it took, planning included.
    pub(super) async fn time<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = Result<(T, u64)>>,
    ) -> Result<(T, f64)> {
        if self.control.stop.is_cancelled() {
            return Err(stopped());
        }
        self.done += 1;
        self.control.progress.step_begins(name, self.done, self.total);
        let began = Instant::now();
        let (made, rows) = work.await?;
        let seconds = began.elapsed().as_secs_f64();
        self.control.progress.step_ends(name, rows, seconds, false);
        Ok((made, seconds))
    }
}

/// Somebody stopped the measurement, of which nothing is kept.
pub(super) fn stopped() -> Error {
    Error::new(Kind::Interrupted, "stopped; nothing was written")
}

/// Runs the frame, and gives a frame over what came out, and its rows.
pub(super) async fn in_memory(session: &SessionContext, frame: DataFrame) -> Result<(DataFrame, u64)> {
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let partitions = frame.collect_partitioned().await?;
    let rows = partitions.iter().flatten().map(|batch| batch.num_rows() as u64).sum();
    Ok((session.read_table(Arc::new(MemTable::try_new(schema, partitions)?))?, rows))
}

/// Every two documents of `sketches` (doc, shingles, signature, ..) that are compared and reach the threshold, by looking at all.
pub(super) async fn search_all(
    session: &SessionContext,
    sketches: DataFrame,
    compared: &Compared,
    score: &Score,
    lsh: &Lsh,
) -> Result<Vec<RecordBatch>> {
    let (sketches, slices) = (compared.marked(sketches)?, tables::slices(session)?);
    let scores = stage::scores::scores_of_all(sketches, slices, whole(), score, lsh)?;
    Ok(compared.only(scores)?.collect().await?)
}

/// Every two documents of `sketches` (doc, shingle_count, shingles, signature, ..) that share a bucket and reach the
/// threshold, and the number of those that share a bucket. Copies take part like every document.
pub(super) async fn search_lsh(
    session: &SessionContext,
    sketches: DataFrame,
    compared: &Compared,
    job: &Job,
) -> Result<(Vec<RecordBatch>, u64)> {
    let keys = stage(Step::Bands, sketches.clone(), job).await?.select(vec![col("doc"), col("buckets")])?;
    let (copies, hot) = (no_copies(session)?, job.lsh.hot_bucket);
    let found = stage::candidates::candidates(keys, copies, hot, compared.known())?;
    let (found, _) = in_memory(session, found).await?;
    let hot = found.clone().filter(col("b").is_null())?;
    let mut candidates = found.filter(col("b").is_not_null())?;
    if hot.clone().count().await? > 0 {
        candidates = by_prefix(&sketches, Some(hot), compared, job).await?.union(candidates)?.distinct()?;
    }
    scored(session, sketches, compared.only(candidates)?, job).await
}

/// Every two documents of `sketches` (doc, shingle_count, shingles, signature, ..) that reach the threshold, and the
/// number of those that share one of their rarest shingles. Copies take part like every document.
pub(super) async fn search_prefix(
    session: &SessionContext,
    sketches: DataFrame,
    compared: &Compared,
    job: &Job,
) -> Result<(Vec<RecordBatch>, u64)> {
    let candidates = by_prefix(&sketches, None, compared, job).await?;
    scored(session, sketches, compared.only(candidates)?, job).await
}

async fn by_prefix(
    sketches: &DataFrame,
    hot: Option<DataFrame>,
    compared: &Compared,
    job: &Job,
) -> Result<DataFrame> {
    let documents = match hot {
        Some(hot) => stage::prefix::only(sketches.clone(), hot)?,
        None => sketches.clone(),
    };
    let elements = stage::prefix::elements(documents.clone(), &job.score, job.minhash.permutations)?;
    let join =
        stage::prefix::Join::new(&job.score, job.minhash.permutations, one_number(elements).await?, false);
    let frequencies = stage::prefix::frequencies(documents.clone(), &join)?;
    // This measures the search for all pairs.
    stage::prefix::candidates(documents, frequencies, &join, None, compared.known())
}

async fn scored(
    session: &SessionContext,
    sketches: DataFrame,
    candidates: DataFrame,
    job: &Job,
) -> Result<(Vec<RecordBatch>, u64)> {
    let (candidates, count) = in_memory(session, candidates).await?;
    let scores = stage::scores::scores(sketches, candidates, (Road::Held, 1), &job.score, &job.lsh)?;
    Ok((scores.collect().await?, count))
}

fn no_copies(session: &SessionContext) -> Result<DataFrame> {
    let groups = tables::WorkTable::Copies.schema(&SourceTypes::default());
    Ok(session.read_table(Arc::new(MemTable::try_new(groups, vec![vec![]])?))?)
}

fn whole() -> Block {
    Block { left: 0, right: 0, segments: 1 }
}
