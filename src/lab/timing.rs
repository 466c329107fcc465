//! Runs and times stages over a sample. Their results stay in memory.

use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::functions_nested::expr_fn::array_max;
use datafusion::prelude::{DataFrame, SessionContext, col};

use super::sample::{ComparedDocuments, LabSample, SampledDocuments};
use crate::engine::RunControl;
use crate::error::Result;
use crate::frames;
use crate::frames::scores::{PairBlock, SketchJoin};
use crate::job::{Job, ShingleHash};
use crate::pipeline::numbers::one_number;
use crate::pipeline::slices;
use crate::pipeline::tables::WorkTable;
use crate::schema::SourceTypes;

/// The number of entries of a dictionary, whose numbers start at 1.
async fn entries(shingles: DataFrame) -> Result<u64> {
    one_number(shingles.aggregate(vec![], vec![max(array_max(col("shingles"))).alias("last")])?).await
}

/// Documents of the first measurement, which is discarded.
const WARMING: usize = 20;

/// The job of a search for similar documents, with its name in messages. Searches over one sample have the same shingles and
/// signatures.
pub(super) type NamedJob = (String, Job);

/// The seconds of each repetition of the searches over a sample, and their results.
pub(super) struct Timed {
    /// Documents in the sample.
    pub(super) documents: usize,
    /// From texts to shingle sets, which every search needs.
    pub(super) shingles: Vec<f64>,
    /// From shingle sets to signatures.
    pub(super) signatures: Vec<f64>,
    /// The searches, in their order.
    pub(super) searches: Vec<(Vec<f64>, Searched)>,
}

/// Runs plans one after the other over the first documents of a sample, times them, and reports progress.
pub(super) struct Bench<'a> {
    session: &'a SessionContext,
    control: &'a RunControl,
    sample: &'a LabSample,
    repeat: usize,
    done: usize,
    total: usize,
}

impl<'a> Bench<'a> {
    /// A bench that measures `searches` on `samples` samples. Work that a process does only once is done before, so that it is not
    /// part of the first time.
    pub(super) async fn new(
        session: &'a SessionContext,
        control: &'a RunControl,
        sample: &'a LabSample,
        repeat: NonZeroUsize,
        (searches, samples): (&[NamedJob], usize),
    ) -> Self {
        let plans = 2 + searches.len();
        let mut warming = Self { session, control, sample, repeat: 1, done: 0, total: plans };
        // A job that suits a larger corpus may refuse one this small; any other error would come again.
        let _ = warming.measure(searches, WARMING, "warming up").await;
        let repeat = repeat.get();
        Self { session, control, sample, repeat, done: 0, total: plans * repeat * samples }
    }

    /// Makes the signatures of the first `documents`, and runs all searches, as often as the bench repeats that. `called` is the name of
    /// the sample in messages.
    pub(super) async fn measure(
        &mut self,
        searches: &[NamedJob],
        documents: usize,
        called: &str,
    ) -> Result<Timed> {
        let mut timed = Timed { documents, shingles: vec![], signatures: vec![], searches: vec![] };
        for _ in 0..self.repeat {
            let Some((_, first)) = searches.first() else { break };
            let SampledDocuments { frame, compared } = self.sample.first(self.session, first, documents)?;
            let (sketches, [shingles, signatures]) = self.signatures(first, frame, called).await?;
            timed.shingles.push(shingles);
            timed.signatures.push(signatures);
            for (number, (name, job)) in searches.iter().enumerate() {
                let search = search(self.session, sketches.clone(), &compared, job);
                let (found, seconds) = self.time(&format!("{called}: {name}"), search).await?;
                match timed.searches.get_mut(number) {
                    None => timed.searches.push((vec![seconds], found)),
                    Some((all, _)) => all.push(seconds),
                }
            }
        }
        Ok(timed)
    }

    /// The result of `work`, and its seconds with planning. `work` also returns its number of rows.
    async fn time<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = Result<(T, u64)>>,
    ) -> Result<(T, f64)> {
        self.done += 1;
        let step = self.control.step(name, (self.done, self.total), |(_, rows)| *rows, work);
        let ((made, _), seconds) = step.await?;
        Ok((made, seconds))
    }

    /// The signatures of documents, and the seconds of their shingles and of the signatures. `called` is their name in messages.
    async fn signatures(
        &mut self,
        job: &Job,
        documents: DataFrame,
        called: &str,
    ) -> Result<(DataFrame, [f64; 2])> {
        let session = self.session;
        let cut = async {
            let cut = frames::shingles::shingles(documents, &job.shingle)?;
            in_memory(session, cut.filter(col("reason").is_null())?).await
        };
        let (shingles, cut) = self.time(&format!("{called}: shingles"), cut).await?;
        let sign = async {
            let dictionary = match job.shingle.hash {
                ShingleHash::Dictionary => Some(entries(shingles.clone()).await?),
                ShingleHash::Xxh3 | ShingleHash::Crc32 | ShingleHash::Sha256Mod31 => None,
            };
            in_memory(session, frames::sketches::signatures(shingles, job, dictionary)?).await
        };
        let (signatures, signed) = self.time(&format!("{called}: signatures"), sign).await?;
        Ok((signatures, [cut, signed]))
    }
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
async fn search(
    session: &SessionContext,
    sketches: DataFrame,
    compared: &ComparedDocuments,
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
        let (sketches, slices) = (compared.marked(sketches)?, slices(session)?);
        let whole = PairBlock { left: 0, right: 0, segments: 1 };
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
    compared: &ComparedDocuments,
    job: &Job,
) -> Result<DataFrame> {
    let keys =
        frames::sketches::bands(sketches.clone(), &job.lsh)?.select(vec![col("doc"), col("buckets")])?;
    let (copies, hot) = (no_copies(session, job)?, job.lsh.hot_bucket);
    let found = frames::candidates::candidates(keys, copies, hot, compared.known())?;
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
    compared: &ComparedDocuments,
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
    let groups = WorkTable::COPIES.schema(job, &SourceTypes::default());
    Ok(session.read_table(Arc::new(MemTable::try_new(groups, vec![vec![]])?))?)
}
