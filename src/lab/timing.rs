//! Runs stages on a sample, and measures their seconds. The results stay in memory.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::functions_nested::expr_fn::array_max;
use datafusion::prelude::{DataFrame, SessionContext, col};

use super::sample::{ComparedDocuments, LabSample};
use crate::engine::RunControl;
use crate::error::Result;
use crate::frames;
use crate::frames::scores::{PairBlock, SketchJoin};
use crate::job::{Job, SampleSearch, ShingleHash};
use crate::pipeline::numbers::one_number;
use crate::pipeline::slices;
use crate::pipeline::tables::WorkTable;
use crate::schema::SourceTypes;

/// The number of documents in the discarded warm-up measurement.
const WARM_UP_DOCUMENTS: usize = 20;

/// The name of a search in messages, and its job. All searches over a sample have the same shingles and signatures.
pub(super) type NamedJob = (String, Job);

/// The seconds on a sample, one element per repetition, and the results of the searches.
#[derive(Default)]
pub(super) struct Timed {
    /// The seconds from texts to shingle sets.
    pub(super) shingles: Vec<f64>,
    /// The seconds from shingle sets to signatures.
    pub(super) signatures: Vec<f64>,
    /// The seconds of each repetition, and the result, of each search.
    pub(super) searches: Vec<(Vec<f64>, Searched)>,
}

pub(super) struct Searched {
    pub(super) scores: Vec<RecordBatch>,
    /// The number of candidates, unless the method compares all pairs.
    pub(super) candidates: Option<u64>,
}

pub(super) struct Bench<'a> {
    session: &'a SessionContext,
    control: &'a RunControl,
    sample: &'a LabSample,
    repeat: usize,
    done: usize,
    total: usize,
}

impl<'a> Bench<'a> {
    /// Creates a bench that will measure `searches` on `samples` samples. First runs all steps once on a few documents, so that measured
    /// times exclude one-time work of the process.
    pub(super) async fn new(
        session: &'a SessionContext,
        control: &'a RunControl,
        sample: &'a LabSample,
        repeat: usize,
        (searches, samples): (&[NamedJob], usize),
    ) -> Self {
        let plans = 2 + searches.len();
        let mut bench = Self { session, control, sample, repeat: 1, done: 0, total: plans };
        // Ignores the error: a job for a larger corpus can refuse such a small sample, and any other error occurs again in the
        // measurement.
        let _ = bench.measure(searches, WARM_UP_DOCUMENTS, "warming up").await;
        Self { repeat, done: 0, total: plans * repeat * samples, ..bench }
    }

    /// Computes the shingle sets and signatures of the first `documents` documents, and runs all searches, with all repetitions. `sample`
    /// is the name of the sample in messages.
    pub(super) async fn measure(
        &mut self,
        searches: &[NamedJob],
        documents: usize,
        sample: &str,
    ) -> Result<Timed> {
        let mut timed = Timed::default();
        let Some((_, first)) = searches.first() else { return Ok(timed) };
        for _ in 0..self.repeat {
            let (documents, compared) = self.sample.first(self.session, first, documents)?;
            let work = shingle_sets(self.session, documents, first);
            let (shingles, seconds) = self.time(&format!("{sample}: shingles"), work).await?;
            timed.shingles.push(seconds);
            let work = signatures(self.session, shingles, first);
            let (sketches, seconds) = self.time(&format!("{sample}: signatures"), work).await?;
            timed.signatures.push(seconds);
            for (number, (name, job)) in searches.iter().enumerate() {
                let work = search(self.session, sketches.clone(), &compared, job);
                let (found, seconds) = self.time(&format!("{sample}: {name}"), work).await?;
                match timed.searches.get_mut(number) {
                    None => timed.searches.push((vec![seconds], found)),
                    Some((all, _)) => all.push(seconds),
                }
            }
        }
        Ok(timed)
    }

    /// Runs `work`, which also returns a number of rows. Returns its result and its seconds, including planning.
    async fn time<T>(
        &mut self,
        name: &str,
        work: impl Future<Output = Result<(T, u64)>>,
    ) -> Result<(T, f64)> {
        self.done += 1;
        let step = self.control.step(name, (self.done, self.total), |(_, rows)| *rows, work);
        let ((result, _), seconds) = step.await?;
        Ok((result, seconds))
    }
}

/// Runs `frame`, and returns a frame over its rows in memory, and their number.
async fn in_memory(session: &SessionContext, frame: DataFrame) -> Result<(DataFrame, u64)> {
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let partitions = frame.collect_partitioned().await?;
    let rows = partitions.iter().flatten().map(|batch| batch.num_rows() as u64).sum();
    Ok((session.read_table(Arc::new(MemTable::try_new(schema, partitions)?))?, rows))
}

/// Computes the shingle sets of the documents that can be compared.
async fn shingle_sets(session: &SessionContext, documents: DataFrame, job: &Job) -> Result<(DataFrame, u64)> {
    let cut = frames::sketches::shingles(documents, &job.shingle)?;
    in_memory(session, cut.filter(col("reason").is_null())?).await
}

async fn signatures(session: &SessionContext, shingles: DataFrame, job: &Job) -> Result<(DataFrame, u64)> {
    let dictionary = match job.shingle.hash {
        ShingleHash::Dictionary => {
            // A dictionary numbers its shingles from 1, so the largest number is its size.
            let last = max(array_max(col("shingles"))).alias("last");
            Some(one_number(shingles.clone().aggregate(vec![], vec![last])?).await?)
        }
        ShingleHash::Xxh3 | ShingleHash::Crc32 | ShingleHash::Sha256Mod31 => None,
    };
    in_memory(session, frames::sketches::signatures(shingles, job, dictionary)?).await
}

/// Finds and scores pairs in `sketches` (doc, shingle_count, shingles, signature, ..) with the method of the job. Documents with equal
/// shingle sets are compared like others. Returns the result and the number of scored pairs.
async fn search(
    session: &SessionContext,
    sketches: DataFrame,
    compared: &ComparedDocuments,
    job: &Job,
) -> Result<(Searched, u64)> {
    let candidates = match job.candidates.method.sample_search()? {
        SampleSearch::Buckets => Some(by_buckets(session, &sketches, compared, job).await?),
        SampleSearch::Prefixes => Some(by_prefix(sketches.clone(), compared, job).await?),
        SampleSearch::EveryTwo => None,
    };
    let (scores, candidates) = if let Some(candidates) = candidates {
        let (candidates, count) = in_memory(session, compared.compared(candidates)?).await?;
        let join = (SketchJoin::Held, 1);
        (frames::scores::scores(sketches, candidates, join, &job.score, &job.lsh)?, Some(count))
    } else {
        let (sketches, slices) = (compared.marked(sketches)?, slices(session)?);
        let whole = PairBlock { left: 0, right: 0, segments: 1 };
        let scores = frames::scores::scores_of_all(sketches, slices, whole, &job.score, &job.lsh)?;
        (compared.compared(scores)?, None)
    };
    let scores = scores.collect().await?;
    let pairs = scores.iter().map(|batch| batch.num_rows() as u64).sum();
    Ok((Searched { scores, candidates }, pairs))
}

/// Returns pairs of documents that share a bucket, or in hot buckets one of their rarest shingles.
async fn by_buckets(
    session: &SessionContext,
    sketches: &DataFrame,
    compared: &ComparedDocuments,
    job: &Job,
) -> Result<DataFrame> {
    let keys =
        frames::sketches::bands(sketches.clone(), &job.lsh)?.select(vec![col("doc"), col("buckets")])?;
    let no_copies = RecordBatch::new_empty(WorkTable::COPIES.schema(job, &SourceTypes::default()));
    let (no_copies, reference) = (session.read_batch(no_copies)?, compared.reference.clone());
    let found = frames::candidates::candidates(keys, no_copies, job.lsh.hot_bucket, reference)?;
    let (found, _) = in_memory(session, found).await?;
    let hot = found.clone().filter(col("b").is_null())?;
    let candidates = found.filter(col("b").is_not_null())?;
    if hot.clone().count().await? == 0 {
        return Ok(candidates);
    }
    let hot = frames::prefix::only(sketches.clone(), hot)?;
    Ok(by_prefix(hot, compared, job).await?.union(candidates)?.distinct()?)
}

async fn by_prefix(documents: DataFrame, compared: &ComparedDocuments, job: &Job) -> Result<DataFrame> {
    let permutations = job.minhash.permutations;
    let elements = frames::prefix::elements(documents.clone(), &job.score, permutations)?;
    let join = frames::prefix::Join::new(&job.score, permutations, one_number(elements).await?, false);
    let frequencies = frames::prefix::frequencies(documents.clone(), &join)?;
    frames::prefix::candidates(documents, frequencies, &join, None, compared.reference.clone())
}
