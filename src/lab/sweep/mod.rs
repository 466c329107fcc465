//! Measures one corpus under many settings: shingle sizes, thresholds, and numbers of documents.

pub(crate) mod page;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use arrow::array::RecordBatch;
use datafusion::common::cast::{as_float64_array, as_uint64_array};
use datafusion::prelude::SessionContext;
use serde::Serialize;

use crate::engine::RunControl;
use crate::error::{Error, Result};
use crate::job::curve::choose_bands;
use crate::job::{Bits, Job, Lsh, Score, ScoreBy};
use crate::kernel::measure::jaccard_of;
use crate::lab::sample::LabSample;
use crate::lab::timing::{Bench, NamedJob, Searched};

/// The settings. Every combination is measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Least similarities of a pair, each over 0 and at most 1.
    pub thresholds: Vec<f64>,
    /// Units in a shingle, instead of the job's.
    pub sizes: Vec<NonZeroUsize>,
    /// Documents in a sample.
    pub documents: Vec<NonZeroUsize>,
    /// The number of runs of each shingle size on each sample.
    pub repeat: NonZeroUsize,
}

/// The result of [`sweep`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// The job with the settings that are not in the grid. Its threshold and bands are those of the lowest threshold.
    pub job: Job,
    /// From low to high.
    pub thresholds: Vec<f64>,
    /// The number of repetitions of each run.
    pub repeat: usize,
    /// A note on the samples, if there is one.
    pub note: Option<String>,
    /// By shingle size, then by number of documents.
    pub runs: Vec<SweepRun>,
}

/// A shingle size on a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepRun {
    /// Units in a shingle.
    pub size: usize,
    /// Documents in the sample.
    pub documents: usize,
    /// Seconds from texts to signatures.
    pub sketches_seconds: Times,
    /// By threshold, from low to high.
    pub found: Vec<ThresholdMeasurement>,
}

/// Seconds of repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Times {
    /// Their mean.
    pub mean: f64,
    /// The shortest.
    pub least: f64,
    /// All, in their order.
    pub each: Vec<f64>,
}

impl Times {
    fn new(each: Vec<f64>) -> Self {
        let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
        Self { mean, least: each.iter().copied().fold(f64::INFINITY, f64::min), each }
    }
}

/// The measurement at a threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThresholdMeasurement {
    /// The least similarity of a pair.
    pub threshold: f64,
    /// Bands of a run at this threshold.
    pub bands: usize,
    /// Rows of each.
    pub rows: usize,
    /// Seconds from signatures to scored pairs. Thresholds with the same bands and rows share one search, at the lowest of
    /// them.
    pub search_seconds: Times,
    /// Seconds from texts to scored pairs.
    pub seconds: Times,
    /// Pairs of documents that share a bucket; `None` if all pairs are compared.
    pub candidates: Option<u64>,
    /// Documents with one similar document or more.
    pub documents: u64,
    /// Similar pairs.
    pub pairs: u64,
}

/// Runs the job's stages for every shingle size on every sample, and counts for each threshold what a run with it would
/// find.
///
/// If the job has a rule for its bands, they are chosen for each threshold; given bands and rows stay. Signatures are made
/// once for all thresholds, and thresholds with the same bands share one search.
///
/// A sample has the first documents, in order of (source, position), that can be compared at the largest shingle size,
/// so that all sizes have the same documents; and as many reference documents if the job names any. Samples and their
/// sketches are held in memory, and no run uses results of another. Copies are compared like every document.
///
/// # Errors
/// When the grid has no setting or one that is not allowed, the source cannot be read or has nothing to compare, or
/// `control` stopped it.
pub async fn sweep(session: &SessionContext, job: &Job, grid: &Grid, control: &RunControl) -> Result<Sweep> {
    let thresholds = thresholds(&grid.thresholds)?;
    let sizes: BTreeSet<NonZeroUsize> = grid.sizes.iter().copied().collect();
    let (Some(&lowest), Some(&largest), Some(most)) =
        (thresholds.first(), sizes.last(), grid.documents.iter().max())
    else {
        return Err(Error::job(
            "thresholds, sizes and documents are lists of numbers: expected at least one in each",
        ));
    };
    let searches = searches(job, &thresholds)?;
    let mut base =
        Job { score: Score { threshold: lowest, ..job.score }, lsh: searches[0].lsh.clone(), ..job.clone() };
    if searches.iter().any(|search| search.lsh.needs_32_bits()) {
        base.minhash.bits = Bits::Of32;
    }
    let sample = LabSample::take(session, &base, &of_size(&base, largest).shingle, most.get()).await?;
    let (documents, note) = sample.sizes(&grid.documents);
    let note = note.map(|note| format!("at a shingle size of {largest} {note}"));
    let jobs = |size: NonZeroUsize| -> Vec<NamedJob> {
        let job = |search: &ThresholdSearch| {
            let lowest = search.thresholds.first().copied().unwrap_or(lowest);
            let score = Score { threshold: lowest, ..base.score };
            (
                format!("search from {lowest} on"),
                Job { score, lsh: search.lsh.clone(), ..of_size(&base, size) },
            )
        };
        searches.iter().map(job).collect()
    };
    let count = sizes.len() * documents.len();
    let mut bench = Bench::new(session, control, &sample, grid.repeat, (&jobs(largest), count)).await;
    let mut runs = Vec::with_capacity(count);
    for &size in &sizes {
        for &documents in &documents {
            let called = format!("size {size}, {documents} documents");
            let timed = bench.measure(&jobs(size), documents, &called).await?;
            let sketches = timed.shingles.iter().zip(&timed.signatures).map(|(a, b)| a + b);
            let sketches_seconds = Times::new(sketches.collect());
            let mut found = Vec::with_capacity(thresholds.len());
            for (search, (seconds, Searched { scores, candidates })) in searches.iter().zip(timed.searches) {
                let both = sketches_seconds.each.iter().zip(&seconds).map(|(a, b)| a + b);
                let (search_seconds, seconds) = (Times::new(seconds.clone()), Times::new(both.collect()));
                for &threshold in &search.thresholds {
                    let (documents, pairs) = reached(&scores, threshold, &base.score)?;
                    found.push(ThresholdMeasurement {
                        threshold,
                        bands: search.lsh.bands,
                        rows: search.lsh.rows,
                        search_seconds: search_seconds.clone(),
                        seconds: seconds.clone(),
                        candidates,
                        documents,
                        pairs,
                    });
                }
            }
            found.sort_by(|a, b| a.threshold.total_cmp(&b.threshold));
            runs.push(SweepRun { size: size.get(), documents, sketches_seconds, found });
        }
    }
    Ok(Sweep { job: base, thresholds, repeat: grid.repeat.get(), note, runs })
}

/// In order, each once.
fn thresholds(given: &[f64]) -> Result<Vec<f64>> {
    // Written so that NaN fails too.
    if let Some(wrong) = given.iter().find(|t| !(**t > 0.0 && **t <= 1.0)) {
        return Err(Error::job(format!(
            "{wrong} is among the thresholds: expected numbers over 0 and at most 1"
        )));
    }
    let mut thresholds = given.to_vec();
    thresholds.sort_by(f64::total_cmp);
    thresholds.dedup();
    Ok(thresholds)
}

fn of_size(job: &Job, size: NonZeroUsize) -> Job {
    let mut job = job.clone();
    job.shingle.size = size.get();
    job
}

/// Thresholds that share one search.
struct ThresholdSearch {
    lsh: Lsh,
    /// From low to high.
    thresholds: Vec<f64>,
}

/// The searches for `thresholds`, which are sorted: one for each choice of bands and rows, and a single one if the
/// method needs no bands.
fn searches(job: &Job, thresholds: &[f64]) -> Result<Vec<ThresholdSearch>> {
    let mut searches: Vec<ThresholdSearch> = Vec::new();
    for &threshold in thresholds {
        let Job { lsh, minhash, candidates, .. } = job;
        let found = choose_bands(lsh.choice, minhash.permutations, threshold, candidates.method);
        let found = found.map_err(|e| Error::job(format!("`lsh.target_recall` cannot be reached: {e}")))?;
        let mut lsh = lsh.clone();
        if let Some(found) = found {
            (lsh.bands, lsh.rows) = (found.bands, found.rows);
        }
        let serves = |search: &&mut ThresholdSearch| !candidates.method.uses_buckets() || search.lsh == lsh;
        match searches.iter_mut().find(serves) {
            Some(search) => search.thresholds.push(threshold),
            None => searches.push(ThresholdSearch { lsh, thresholds: vec![threshold] }),
        }
    }
    Ok(searches)
}

/// The number of documents in scored pairs that reach a threshold by the rules of `score`, and of those pairs.
fn reached(scores: &[RecordBatch], threshold: f64, score: &Score) -> Result<(u64, u64)> {
    let mut matched = BTreeSet::new();
    let mut pairs = 0;
    for batch in scores {
        let number = |i: usize| as_uint64_array(batch.column(i)).map(|column| column.values());
        let (a, b, shared, shingles_a, shingles_b) =
            (number(0)?, number(1)?, number(2)?, number(3)?, number(4)?);
        let estimates = as_float64_array(batch.column(5))?.values();
        for row in 0..batch.num_rows() {
            let by_estimate = estimates[row] >= threshold;
            let reached = match score.by {
                ScoreBy::Signature => by_estimate,
                ScoreBy::Shingles => {
                    jaccard_of(shared[row], shingles_a[row], shingles_b[row]) >= threshold
                        && (by_estimate || !score.prefilter)
                }
            };
            if reached {
                pairs += 1;
                matched.extend([a[row], b[row]]);
            }
        }
    }
    Ok((matched.len() as u64, pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_in_order_and_allowed() {
        assert_eq!(thresholds(&[0.9, 0.3, 0.9]).unwrap(), [0.3, 0.9]);
        for wrong in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            let said = thresholds(&[0.5, wrong]).unwrap_err().to_string();
            assert!(said.contains("over 0 and at most 1"), "{said}");
        }
    }

    #[test]
    fn times_have_a_mean_and_a_least() {
        let times = Times::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((times.mean, times.least), (2.0, 1.0));
    }
}
