//! One corpus under many settings: shingle sizes, thresholds, and numbers of documents.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;

use datafusion::arrow::array::RecordBatch;
use datafusion::common::cast::{as_float64_array, as_uint64_array};
use datafusion::prelude::{DataFrame, SessionContext, col};
use serde::Serialize;

use super::sample::{self, Sample};
use super::timing::{self, Bench, Step};
use crate::engine::RunControl;
use crate::error::{Error, Result};
use crate::job::{Choice, Job, Lsh, Method, Score, ScoreBy, choose};
use crate::udf::jaccard::jaccard_of;

/// The settings that are tried, each with each.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Least similarities of a pair, each over 0 and at most 1.
    pub thresholds: Vec<f64>,
    /// Units in a shingle, in place of the job's.
    pub sizes: Vec<NonZeroUsize>,
    /// Documents in a sample.
    pub documents: Vec<NonZeroUsize>,
    /// How often each shingle size is run on each sample.
    pub repeat: NonZeroUsize,
}

/// What [`sweep`] found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// The job, whose source and other settings were used. Its bands are those of the lowest threshold.
    pub job: Job,
    /// From low to high. Each run is one at the lowest, whose scores serve the others.
    pub thresholds: Vec<f64>,
    /// How often each run was made.
    pub repeat: usize,
    /// What is to be known of the samples, if anything.
    pub note: Option<String>,
    /// By shingle size, then by number of documents.
    pub runs: Vec<Run>,
}

/// A shingle size on a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Run {
    /// Units in a shingle.
    pub size: usize,
    /// Documents in the sample.
    pub documents: usize,
    /// Seconds from texts to signatures.
    pub sketches_seconds: Times,
    /// Seconds from signatures to the scored pairs of the lowest threshold.
    pub search_seconds: Times,
    /// Both.
    pub seconds: Times,
    /// Documents that share a bucket, two by two; none where all are compared with all.
    pub candidates: Option<u64>,
    /// By threshold, from low to high.
    pub found: Vec<Found>,
}

/// Seconds of repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Times {
    /// Their mean.
    pub mean: f64,
    /// The least of them.
    pub least: f64,
    /// Each, in the order in which they were run.
    pub each: Vec<f64>,
}

impl Times {
    fn new(each: Vec<f64>) -> Self {
        let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
        Self { mean, least: each.iter().copied().fold(f64::INFINITY, f64::min), each }
    }
}

/// What a threshold leaves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Found {
    /// The least similarity of a pair.
    pub threshold: f64,
    /// Documents with one similar document or more.
    pub documents: u64,
    /// Similar pairs.
    pub pairs: u64,
}

/// Runs the job's stages for every shingle size on every sample, at the lowest threshold, and counts what each
/// threshold leaves of the scored pairs.
///
/// Samples are the first documents, in order of (source, position), that can be compared at the largest shingle size, so
/// that every size sees the same ones. They, and what is made of them, are held in memory; nothing that was made for
/// one run is used in another. Bands are chosen anew for the lowest threshold, by the job's rule; bands and rows that the
/// job gives stay. Copies are compared like every document.
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
            "thresholds, sizes and documents are lists of numbers: expected one at least in each",
        ));
    };
    let lsh = bands(job, lowest)?;
    let base = Job { score: Score { threshold: lowest, ..job.score }, lsh, ..job.clone() };
    let sample = Sample::take(session, &of_size(&base, largest), most.get()).await?;
    let (documents, note) = sample::sizes(&grid.documents, sample.len());
    let note = note.map(|note| format!("at a shingle size of {largest} {note}"));
    let repeat = grid.repeat.get();
    // What is only done once in a process must not be counted to whoever comes first. A corpus this small may be
    // refused by a job that suits a larger one; whatever else fails will fail again.
    let mut warming = Bench::new(session, control, STEPS);
    let _ =
        measure(&mut warming, &of_size(&base, largest), sample.first(session, WARMING)?, "warming up").await;

    let mut bench = Bench::new(session, control, STEPS * repeat * sizes.len() * documents.len());
    let mut runs = Vec::with_capacity(sizes.len() * documents.len());
    for size in &sizes {
        let job = of_size(&base, *size);
        for &documents in &documents {
            let (mut sketching, mut searching, mut last) = (Vec::new(), Vec::new(), None);
            for _ in 0..repeat {
                let called = format!("size {size}, {documents} documents");
                let once = measure(&mut bench, &job, sample.first(session, documents)?, &called).await?;
                sketching.push(once.sketches_seconds);
                searching.push(once.search_seconds);
                last = Some(once);
            }
            let Some(Once { scores, candidates, .. }) = last else { continue };
            let both = sketching.iter().zip(&searching).map(|(a, b)| a + b).collect();
            runs.push(Run {
                size: size.get(),
                documents,
                sketches_seconds: Times::new(sketching),
                search_seconds: Times::new(searching),
                seconds: Times::new(both),
                candidates,
                found: thresholds.iter().map(|t| found(&scores, *t, &job.score)).collect::<Result<_>>()?,
            });
        }
    }
    Ok(Sweep { job: base, thresholds, repeat, note, runs })
}

/// Plans that [`measure`] runs.
const STEPS: usize = 2;

/// Documents that everything is tried on first.
const WARMING: usize = 20;

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

/// The bands that the job's rule chooses for another threshold.
fn bands(job: &Job, threshold: f64) -> Result<Lsh> {
    let permutations = job.minhash.permutations;
    let found = match job.lsh.choice {
        Choice::Given => return Ok(job.lsh.clone()),
        Choice::Nearest => choose::nearest(permutations, threshold),
        Choice::Balanced => choose::balanced(permutations, threshold),
        Choice::Recall => choose::recall(permutations, threshold),
        Choice::Precision => choose::precision(permutations, threshold),
        Choice::TargetRecall(target) => match choose::target_recall(permutations, threshold, target) {
            Err(_) if job.candidates.method != Method::Lsh => choose::loosest(permutations),
            Err(e) => {
                return Err(Error::job(format!(
                    "`lsh.target_recall` is out of reach at the lowest threshold: {e}"
                )));
            }
            Ok(found) => found,
        },
    };
    let mut lsh = job.lsh.clone();
    (lsh.bands, lsh.rows) = (found.bands, found.rows);
    Ok(lsh)
}

/// What one repetition gives.
struct Once {
    sketches_seconds: f64,
    search_seconds: f64,
    scores: Vec<RecordBatch>,
    candidates: Option<u64>,
}

async fn measure(bench: &mut Bench<'_>, job: &Job, documents: DataFrame, called: &str) -> Result<Once> {
    let session = bench.session;
    let sketch = async {
        let shingles = timing::stage(Step::Shingles, documents, job).await?;
        let (shingles, _) = timing::in_memory(session, shingles.filter(col("reason").is_null())?).await?;
        let signatures = timing::stage(Step::Signatures, shingles, job).await?;
        timing::in_memory(session, signatures).await
    };
    let (sketches, sketches_seconds) = bench.time(&format!("{called}: sketches"), sketch).await?;
    let search = async {
        let (scores, candidates) = match job.candidates.method {
            Method::All => (timing::search_all(session, sketches, &job.score, &job.lsh).await?, None),
            Method::Lsh => {
                let (scores, candidates) = timing::search_lsh(session, sketches, job).await?;
                (scores, Some(candidates))
            }
            Method::Prefix => {
                let (scores, candidates) = timing::search_prefix(session, sketches, job).await?;
                (scores, Some(candidates))
            }
        };
        let pairs = scores.iter().map(|batch| batch.num_rows() as u64).sum();
        Ok(((scores, candidates), pairs))
    };
    let ((scores, candidates), search_seconds) = bench.time(&format!("{called}: search"), search).await?;
    Ok(Once { sketches_seconds, search_seconds, scores, candidates })
}

/// Counts the scored pairs that reach a threshold as `score` has it.
fn found(scores: &[RecordBatch], threshold: f64, score: &Score) -> Result<Found> {
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
    Ok(Found { threshold, documents: matched.len() as u64, pairs })
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
