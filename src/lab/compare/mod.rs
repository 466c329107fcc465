//! Times three methods that find the same pairs, on growing samples.

pub(crate) mod page;

use std::num::NonZeroUsize;

use arrow::array::RecordBatch;
use datafusion::common::cast::as_uint64_array;
use datafusion::prelude::SessionContext;
use serde::Serialize;

use crate::engine::RunControl;
use crate::error::{Error, Result};
use crate::job::{self, Job, Score, ScoreBy};
use crate::lab::sample::LabSample;
use crate::lab::timing::{Bench, Searched, Timed};

/// A method that finds the similar pairs of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComparedMethod {
    /// The exact Jaccard similarity of every two shingle sets. Needs no signatures.
    Exact,
    /// The share of equal values in every two signatures.
    Signatures,
    /// The documents that share a bucket, scored by the job's rules.
    Lsh,
}

impl ComparedMethod {
    /// All methods.
    pub(crate) const ALL: [ComparedMethod; 3] =
        [ComparedMethod::Exact, ComparedMethod::Signatures, ComparedMethod::Lsh];

    /// Its name in tables and charts.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ComparedMethod::Exact => "exact Jaccard of all pairs",
            ComparedMethod::Signatures => "signatures of all pairs",
            ComparedMethod::Lsh => "LSH",
        }
    }

    /// The job that finds pairs by it.
    fn job(self, job: &Job) -> Job {
        let all_by = |by| (job::Method::All, Score { by, prefilter: false, ..job.score });
        let (method, score) = match self {
            ComparedMethod::Exact => all_by(ScoreBy::Shingles),
            ComparedMethod::Signatures => all_by(ScoreBy::Signature),
            ComparedMethod::Lsh => (job::Method::Lsh, job.score),
        };
        let mut job = job.clone();
        (job.candidates.method, job.score) = (method, score);
        job
    }
}

/// The result of [`compare`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The job, whose source, threshold, shingles, signatures and bands were used.
    pub job: Job,
    /// The number of measurements; every time is the shortest of them.
    pub repeat: usize,
    /// A note on the samples, if there is one.
    pub note: Option<String>,
    /// By growing sample.
    pub samples: Vec<SampleMeasurement>,
    /// By the seconds from texts to pairs.
    pub whole: FastestMethod,
    /// By the seconds of the search alone, from signatures or shingle sets to pairs.
    pub search: FastestMethod,
}

/// Which method is the fastest on which samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FastestMethod {
    /// The fastest method on the smallest sample, and each that replaces it as the fastest on a larger one.
    pub fastest: Vec<Fastest>,
    /// Sample sizes at which a method becomes faster than another one.
    pub crossings: Vec<Crossing>,
}

impl FastestMethod {
    /// The verdict over `samples` by the `seconds` of a method.
    fn new(samples: &[SampleMeasurement], seconds: fn(&Measurement) -> f64) -> Self {
        Self { fastest: fastest(samples, seconds), crossings: crossings(samples, seconds) }
    }
}

/// The measurements on a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampleMeasurement {
    /// Documents in the sample; there are at most as many reference documents.
    pub documents: usize,
    /// Seconds from texts to shingle sets, which every method needs.
    pub shingles_seconds: f64,
    /// Seconds from shingle sets to signatures.
    pub signatures_seconds: f64,
    /// In the order of `Method::ALL`.
    pub methods: Vec<Measurement>,
}

/// The measurement of a method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// The method.
    pub method: ComparedMethod,
    /// Seconds of the search alone: for LSH from signatures over buckets and candidates to scores.
    pub seconds: f64,
    /// Seconds from texts to pairs: shingles, signatures if the method needs them, and the search.
    pub total_seconds: f64,
    /// Pairs of documents that share a bucket; only for LSH.
    pub candidates: Option<u64>,
    /// Pairs found.
    pub pairs: u64,
    /// The share of the exact pairs that was found; `None` if there are no exact pairs.
    pub recall: Option<f64>,
    /// The share of the found pairs that are exact pairs; `None` if none was found.
    pub precision: Option<f64>,
}

/// The sample size from which a method is the fastest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fastest {
    /// Documents in the sample.
    pub documents: usize,
    /// The method.
    pub method: ComparedMethod,
    /// Its seconds there.
    pub seconds: f64,
}

/// A change between two samples: a method became faster than another one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crossing {
    /// Documents in the larger sample.
    pub documents: usize,
    /// The method that is faster there, and was not on the next smaller sample.
    pub method: ComparedMethod,
    /// The method that was faster before.
    pub overtaken: ComparedMethod,
}

/// Runs the three methods on the first documents of the job's source, for each size of `documents`, `repeat` times.
///
/// A sample has the first documents, in order of (source, position), that can be compared, and as many reference
/// documents if the job names any. Samples and their sketches are held in memory. Groups and reference documents decide
/// which pairs are compared, as in the job; copies are compared like every document.
///
/// # Errors
/// When `documents` is empty, the source cannot be read or has nothing to compare, or `control` stopped it.
pub async fn compare(
    session: &SessionContext,
    job: &Job,
    documents: &[NonZeroUsize],
    repeat: NonZeroUsize,
    control: &RunControl,
) -> Result<Comparison> {
    let Some(most) = documents.iter().max() else {
        return Err(Error::job("no number of documents is given: expected at least one"));
    };
    let sample = LabSample::take(session, job, &job.shingle, most.get()).await?;
    let (sizes, note) = sample.sizes(documents);
    let searches = ComparedMethod::ALL.map(|method| (method.name().to_owned(), method.job(job)));
    let mut bench = Bench::new(session, control, &sample, repeat, (&searches, sizes.len())).await;
    let mut samples: Vec<SampleMeasurement> = Vec::with_capacity(sizes.len());
    for size in sizes {
        let timed = bench.measure(&searches, size, &format!("{size} documents")).await?;
        samples.push(SampleMeasurement::new(timed)?);
    }
    let whole = FastestMethod::new(&samples, |one| one.total_seconds);
    let search = FastestMethod::new(&samples, |one| one.seconds);
    Ok(Comparison { job: job.clone(), repeat: repeat.get(), note, samples, whole, search })
}

type PairList = Vec<(u64, u64)>;

impl SampleMeasurement {
    /// The shortest times, and what the methods found in comparison with the first one.
    fn new(timed: Timed) -> Result<Self> {
        let least = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let (shingles_seconds, signatures_seconds) = (least(&timed.shingles), least(&timed.signatures));
        let mut exact: PairList = Vec::new();
        let mut methods = Vec::with_capacity(ComparedMethod::ALL.len());
        for (method, (seconds, Searched { scores, candidates })) in
            ComparedMethod::ALL.into_iter().zip(timed.searches)
        {
            let (seconds, found) = (least(&seconds), pairs(&scores)?);
            if method == ComparedMethod::Exact {
                exact.clone_from(&found);
            }
            let right = in_both(&exact, &found) as f64;
            let share = |of: usize| (of > 0).then(|| right / of as f64);
            let building =
                shingles_seconds + if method == ComparedMethod::Exact { 0.0 } else { signatures_seconds };
            methods.push(Measurement {
                method,
                seconds,
                total_seconds: building + seconds,
                candidates,
                pairs: found.len() as u64,
                recall: share(exact.len()),
                precision: share(found.len()),
            });
        }
        Ok(Self { documents: timed.documents, shingles_seconds, signatures_seconds, methods })
    }
}

/// The scored pairs, in order.
fn pairs(scores: &[RecordBatch]) -> Result<PairList> {
    let mut pairs = Vec::new();
    for batch in scores {
        let (a, b) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        pairs.extend(a.values().iter().copied().zip(b.values().iter().copied()));
    }
    pairs.sort_unstable();
    Ok(pairs)
}

/// The number of pairs in both, each in order and without repeats.
fn in_both(a: &PairList, b: &PairList) -> usize {
    a.iter().filter(|pair| b.binary_search(pair).is_ok()).count()
}

/// The fastest method on the smallest sample, and each that replaces it as the fastest.
fn fastest(samples: &[SampleMeasurement], seconds: fn(&Measurement) -> f64) -> Vec<Fastest> {
    let mut fastest: Vec<Fastest> = Vec::new();
    for sample in samples {
        let first = sample.methods.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
        if let Some(one) = first
            && fastest.last().is_none_or(|before| before.method != one.method)
        {
            fastest.push(Fastest { documents: sample.documents, method: one.method, seconds: seconds(one) });
        }
    }
    fastest
}

/// The changes of order between neighbouring samples, for every two methods.
fn crossings(samples: &[SampleMeasurement], seconds: fn(&Measurement) -> f64) -> Vec<Crossing> {
    let mut crossings = Vec::new();
    for (before, now) in samples.iter().zip(samples.iter().skip(1)) {
        for (method, method_before) in now.methods.iter().zip(&before.methods) {
            for (other, other_before) in now.methods.iter().zip(&before.methods) {
                let was_slower = seconds(method_before) >= seconds(other_before);
                if was_slower && seconds(method) < seconds(other) {
                    let documents = now.documents;
                    crossings.push(Crossing { documents, method: method.method, overtaken: other.method });
                }
            }
        }
    }
    crossings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(documents: usize, shingles: f64, signatures: f64, searches: [f64; 3]) -> SampleMeasurement {
        let methods = ComparedMethod::ALL.into_iter().zip(searches).map(|(method, seconds)| Measurement {
            method,
            seconds,
            total_seconds: shingles
                + if method == ComparedMethod::Exact { 0.0 } else { signatures }
                + seconds,
            candidates: None,
            pairs: 0,
            recall: None,
            precision: None,
        });
        SampleMeasurement {
            documents,
            shingles_seconds: shingles,
            signatures_seconds: signatures,
            methods: methods.collect(),
        }
    }

    #[test]
    fn crossings_are_where_another_way_takes_over() {
        let samples = [
            measured(100, 1.0, 1.0, [1.0, 1.0, 5.0]),
            measured(500, 2.0, 2.0, [10.0, 9.0, 6.5]),
            measured(1000, 3.0, 3.0, [20.0, 15.0, 8.0]),
        ];
        let firsts = |verdict: &FastestMethod| {
            verdict.fastest.iter().map(|f| (f.documents, f.method, f.seconds)).collect::<Vec<_>>()
        };
        let whole = FastestMethod::new(&samples, |one| one.total_seconds);
        assert_eq!(firsts(&whole), [(100, ComparedMethod::Exact, 2.0), (500, ComparedMethod::Lsh, 10.5)]);
        assert_eq!(fastest(&[], |one| one.seconds), []);
        let found: Vec<_> = whole.crossings.iter().map(|c| (c.documents, c.method, c.overtaken)).collect();
        // Totals: 2, 3, 7; 12, 13, 10.5; 23, 21, 14.
        let expected = [
            (500, ComparedMethod::Lsh, ComparedMethod::Exact),
            (500, ComparedMethod::Lsh, ComparedMethod::Signatures),
            (1000, ComparedMethod::Signatures, ComparedMethod::Exact),
        ];
        assert_eq!(found, expected);
        // Searches: 1, 1, 5; 10, 9, 6.5; 20, 15, 8.
        let search = FastestMethod::new(&samples, |one| one.seconds);
        assert_eq!(firsts(&search), [(100, ComparedMethod::Exact, 1.0), (500, ComparedMethod::Lsh, 6.5)]);
        assert!(search.crossings.iter().all(|crossing| crossing.documents == 500));
    }

    #[test]
    fn pairs_in_both() {
        assert_eq!(in_both(&vec![(1, 2), (1, 3), (4, 5)], &vec![(1, 3), (4, 5), (6, 7)]), 2);
        assert_eq!(in_both(&vec![], &vec![(1, 3)]), 0);
    }
}
