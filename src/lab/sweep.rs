//! Measures a job with many combinations of shingle size, threshold and number of documents.

use std::collections::BTreeSet;

use arrow::array::RecordBatch;
use datafusion::common::cast::{as_float64_array, as_uint64_array};
use datafusion::prelude::SessionContext;
use serde::Serialize;

use super::compare::{MAX_REPEAT, MAX_SAMPLE, others};
use super::sample::LabSample;
use super::timing::{Bench, NamedJob, Searched};
use crate::engine::RunControl;
use crate::error::counts::count;
use crate::error::{Error, Result};
use crate::job::band_choice::choose_bands;
use crate::job::{Bits, Job, Lsh, MAX_SHINGLE_SIZE, Score, ScoreBy, similarity, whole};
use crate::kernel::measure::jaccard_of;
use crate::page::text::{seconds, sentence};
use crate::page::{
    Axis, Chart, HtmlPage, HtmlTable, Scale, Section, Series, job_settings, settings_section, shingle_name,
};

/// The settings to measure, in every combination.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct Grid {
    /// Thresholds to try: the minimum similarity of a pair; each is greater than 0 and at most 1
    #[arg(long, value_name = "T,..", value_delimiter = ',', default_value = "0.3,0.5,0.7,0.9", value_parser = similarity)]
    pub thresholds: Vec<f64>,
    /// Shingle sizes to try, in the unit of the job (words or characters)
    #[arg(long, value_name = "K,..", value_delimiter = ',', default_value = "3,5,7", value_parser = whole(1..=MAX_SHINGLE_SIZE))]
    pub sizes: Vec<usize>,
    /// Sample sizes: each sample contains the first N documents that can be compared at every shingle size, by file and position
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_value = "100,500,1000", value_parser = whole(1..=MAX_SAMPLE))]
    pub documents: Vec<usize>,
    /// Number of runs for each shingle size and sample
    #[arg(long, value_name = "N", default_value = "3", value_parser = whole(1..=MAX_REPEAT))]
    pub repeat: usize,
}

/// The result of [`sweep`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sweep {
    /// The job, with the lowest threshold and its bands.
    pub job: Job,
    /// The thresholds, ascending.
    pub thresholds: Vec<f64>,
    /// The number of measurements of each shingle size and sample.
    pub repeat: usize,
    /// A note if the samples are not as requested.
    pub note: Option<String>,
    /// The measurements, by shingle size and then by number of documents.
    pub runs: Vec<SweepRun>,
}

/// The measurements of a shingle size on a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SweepRun {
    /// The number of units in a shingle.
    pub size: usize,
    /// The number of documents in the sample.
    pub documents: usize,
    /// The seconds from texts to signatures.
    pub sketches_seconds: Times,
    /// The measurements of the thresholds, ascending.
    pub found: Vec<ThresholdMeasurement>,
}

/// The seconds of repeated measurements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Times {
    /// The mean of the times.
    pub mean: f64,
    /// The shortest time.
    pub least: f64,
    /// All times, in the order of measurement.
    pub each: Vec<f64>,
}

impl Times {
    fn new(each: Vec<f64>) -> Self {
        let mean = each.iter().sum::<f64>() / each.len().max(1) as f64;
        Self { mean, least: each.iter().copied().fold(f64::INFINITY, f64::min), each }
    }
}

/// The measurement of a threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ThresholdMeasurement {
    /// The threshold.
    pub threshold: f64,
    /// The number of bands that a run with this threshold uses.
    pub bands: usize,
    /// The number of rows per band.
    pub rows: usize,
    /// The seconds from signatures to scored pairs. Thresholds with the same bands and rows share one search with the lowest of them.
    pub search_seconds: Times,
    /// The seconds from texts to scored pairs.
    pub seconds: Times,
    /// The number of pairs of documents that share a bucket; `None` if all pairs are compared.
    pub candidates: Option<u64>,
    /// The number of documents with at least one similar document.
    pub documents: u64,
    /// The number of similar pairs.
    pub pairs: u64,
}

/// Runs the stages of a job for every shingle size on every sample. For each threshold, counts the pairs that a run would find.
///
/// If the job has a rule for its bands, they are chosen for each threshold. Signatures are computed once for all thresholds, and
/// thresholds with the same bands share a search.
///
/// A sample consists of the first documents in order of (source, position) that can be compared at the largest shingle size. So all sizes
/// have the same documents. A sample also has up to as many reference documents. It is in memory with its sketches. Documents with equal
/// shingle sets are compared like other documents.
///
/// # Errors
/// Fails if a list in `grid` is empty or contains an invalid value, or if `control` stops the measurement. Also fails if the source cannot
/// be read or has no document that can be compared.
pub async fn sweep(session: &SessionContext, job: &Job, grid: &Grid, control: &RunControl) -> Result<Sweep> {
    let thresholds = sorted_thresholds(&grid.thresholds)?;
    let sizes: BTreeSet<usize> = grid.sizes.iter().copied().collect();
    let (Some(&lowest), Some(&largest), Some(most)) =
        (thresholds.first(), sizes.last(), grid.documents.iter().max())
    else {
        return Err(Error::job(
            "thresholds, sizes and documents are lists of numbers: expected at least one in each",
        ));
    };
    let searches = searches(job, &thresholds)?;
    let mut base =
        Job { score: Score { threshold: lowest, ..job.score }, lsh: searches[0].0.clone(), ..job.clone() };
    if searches.iter().any(|(lsh, _)| lsh.needs_32_bits()) {
        base.minhash.bits = Bits::Of32;
    }
    let jobs = |size: usize| -> Vec<NamedJob> {
        let job = |(lsh, thresholds): &(Lsh, Vec<f64>)| {
            let mut job = Job { lsh: lsh.clone(), ..base.clone() };
            (job.shingle.size, job.score.threshold) = (size, thresholds[0]);
            (format!("search from {} on", thresholds[0]), job)
        };
        searches.iter().map(job).collect()
    };
    let jobs_of_largest = jobs(largest);
    let sample = LabSample::read(session, &base, &jobs_of_largest[0].1.shingle, *most).await?;
    let (documents, note) = sample.sizes(&grid.documents);
    let note = note.map(|note| format!("at a shingle size of {largest} {note}"));
    let count = sizes.len() * documents.len();
    let mut bench = Bench::new(session, control, &sample, grid.repeat, (&jobs_of_largest, count)).await;
    let mut runs = Vec::with_capacity(count);
    for &size in &sizes {
        let jobs = jobs(size);
        for &documents in &documents {
            let timed =
                bench.measure(&jobs, documents, &format!("size {size}, {documents} documents")).await?;
            let sum = |a: &[f64], b: &[f64]| Times::new(a.iter().zip(b).map(|(a, b)| a + b).collect());
            let sketches_seconds = sum(&timed.shingles, &timed.signatures);
            let mut found = Vec::with_capacity(thresholds.len());
            for ((lsh, thresholds), (search, Searched { scores, candidates })) in
                searches.iter().zip(timed.searches)
            {
                let seconds = sum(&sketches_seconds.each, &search);
                let search_seconds = Times::new(search);
                for &threshold in thresholds {
                    let (documents, pairs) = count_matches(&scores, threshold, &base.score)?;
                    found.push(ThresholdMeasurement {
                        threshold,
                        bands: lsh.bands,
                        rows: lsh.rows,
                        search_seconds: search_seconds.clone(),
                        seconds: seconds.clone(),
                        candidates,
                        documents,
                        pairs,
                    });
                }
            }
            found.sort_by(|a, b| a.threshold.total_cmp(&b.threshold));
            runs.push(SweepRun { size, documents, sketches_seconds, found });
        }
    }
    Ok(Sweep { job: base, thresholds, repeat: grid.repeat, note, runs })
}

/// Returns the distinct thresholds, ascending.
fn sorted_thresholds(given: &[f64]) -> Result<Vec<f64>> {
    // This condition also rejects NaN.
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

/// Returns the searches for the thresholds: the bands and rows, and the ascending thresholds that use them. A method without bands needs
/// one search.
fn searches(job: &Job, thresholds: &[f64]) -> Result<Vec<(Lsh, Vec<f64>)>> {
    let mut searches: Vec<(Lsh, Vec<f64>)> = Vec::new();
    let Job { lsh, minhash, candidates, .. } = job;
    for &threshold in thresholds {
        let chosen = choose_bands(lsh.choice, minhash.permutations, threshold, candidates.method);
        let chosen = chosen.map_err(|e| Error::job(format!("`lsh.target_recall` cannot be reached: {e}")))?;
        let mut lsh = lsh.clone();
        if let Some(chosen) = chosen {
            (lsh.bands, lsh.rows) = (chosen.bands, chosen.rows);
        }
        let is_shared = |search: &&mut (Lsh, _)| !candidates.method.uses_buckets() || search.0 == lsh;
        match searches.iter_mut().find(is_shared) {
            Some((_, thresholds)) => thresholds.push(threshold),
            None => searches.push((lsh, vec![threshold])),
        }
    }
    Ok(searches)
}

/// Counts the scored pairs that a job with `score` keeps at `threshold`. Returns the number of documents in them, and of pairs.
fn count_matches(scores: &[RecordBatch], threshold: f64, score: &Score) -> Result<(u64, u64)> {
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

/// The columns of [`Sweep::rows`].
pub(crate) const COLUMNS: [&str; 11] = [
    "size",
    "documents",
    "threshold",
    "bands",
    "rows",
    "with a match",
    "pairs",
    "sketches s",
    "search s",
    "total s",
    "least s",
];

/// An axis is logarithmic if the largest number is more than this many times the smallest one, so that small numbers are visible.
const LOG_RATIO: f64 = 50.0;

impl Sweep {
    pub(crate) fn coverage(&self) -> String {
        let method = self.job.candidates.method;
        let thresholds =
            if method.uses_buckets() { "Thresholds with the same bands and rows" } else { "All thresholds" };
        format!(
            "Each time is that of one run. It goes from texts in memory through shingles to signatures (sketches), and from there {} \
             (search). {thresholds} share one search, at the lowest of them, and its time. Reading the source is not counted. {}",
            method.describe_search(),
            match self.repeat {
                1 => "Each was run once.".to_owned(),
                n => format!("Times are means of {n} runs, with the shortest next to them."),
            }
        )
    }

    /// Returns the charts with the names of their files. `added` are further series of the chart of seconds.
    pub(crate) fn charts(&self, added: &[Series]) -> [(&'static str, Chart); 3] {
        let documents = "documents with one similar document or more";
        [
            ("sweep-seconds", self.seconds_chart(added)),
            ("sweep-documents", self.found_chart("Documents with a match", documents, |f| f.documents)),
            ("sweep-pairs", self.found_chart("Pairs", "similar pairs", |f| f.pairs)),
        ]
    }

    /// Returns a series for each shingle size. `points` returns the points of a sample.
    fn series(&self, points: impl Fn(&SweepRun) -> Vec<(f64, f64)>) -> Vec<Series> {
        let sizes = self.runs.chunk_by(|a, b| a.size == b.size);
        let line = |runs: &[SweepRun]| {
            let points = runs.iter().flat_map(&points).collect();
            Series::new(shingle_name(&self.job, runs[0].size), points)
        };
        sizes.map(line).collect()
    }

    fn seconds_chart(&self, added: &[Series]) -> Chart {
        let lowest = self.thresholds.first().copied().unwrap_or_default();
        let point = |run: &SweepRun| Some((run.documents as f64, run.found.first()?.seconds.mean));
        let mut series = self.series(|run| point(run).into_iter().collect());
        series.extend(added.iter().cloned());
        Chart {
            title: "Seconds by number of documents".into(),
            caption: format!(
                "Seconds from texts in memory to the scored pairs of the lowest threshold, {lowest}, mean of {}, a line for each shingle \
                 size. Both axes begin at 0, so a time that grows with the number of documents is a straight line.{}",
                self.repeat,
                others(added)
            ),
            x: Axis::new("documents", Scale::FromZero),
            y: Axis::new("seconds", Scale::FromZero),
            series,
        }
    }

    /// Returns a chart of a number at each threshold on the largest sample, with a line for each shingle size.
    fn found_chart(&self, title: &str, label: &str, number: fn(&ThresholdMeasurement) -> u64) -> Chart {
        let largest = self.runs.iter().map(|run| run.documents).max().unwrap_or(0);
        let series = self.series(|run| {
            let found = run.found.iter().filter(|_| run.documents == largest);
            found.map(|found| (found.threshold, number(found) as f64)).collect()
        });
        let numbers = || series.iter().flat_map(|s| &s.points).map(|(_, n)| *n);
        let (least, most) = (numbers().fold(f64::INFINITY, f64::min), numbers().fold(0.0, f64::max));
        // A logarithmic axis cannot show 0.
        let (scale, note) = if least > 0.0 && most / least > LOG_RATIO {
            (Scale::Log, " (logarithmic)")
        } else {
            (Scale::FromZero, "")
        };
        let largest = count(largest as u64);
        Chart {
            title: format!("{title} by threshold, among {largest} documents"),
            caption: format!(
                "How many {label} there are among {largest} documents at each threshold, a line for each shingle size."
            ),
            x: Axis::new("threshold", Scale::Linear),
            y: Axis::new(format!("{label}{note}"), scale),
            series,
        }
    }

    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let row = |run: &SweepRun, found: &ThresholdMeasurement| {
            vec![
                run.size.to_string(),
                count(run.documents as u64),
                found.threshold.to_string(),
                found.bands.to_string(),
                found.rows.to_string(),
                count(found.documents),
                count(found.pairs),
                seconds(run.sketches_seconds.mean),
                seconds(found.search_seconds.mean),
                seconds(found.seconds.mean),
                seconds(found.seconds.least),
            ]
        };
        self.runs.iter().flat_map(|run| run.found.iter().map(move |found| row(run, found))).collect()
    }

    /// Returns the page. `added` are further series of the chart of seconds.
    pub(crate) fn page(&self, added: &[Series]) -> HtmlPage {
        let unit = self.job.shingle.unit.plural();
        let mut intro = vec![
            format!(
                "The same corpus with several shingle sizes (in {unit}), thresholds and sample sizes. A sample has the \
                 first documents of the source that can be compared at the largest shingle size, in order of file and \
                 position."
            ),
            self.coverage(),
        ];
        intro.extend(self.note.as_deref().map(sentence));
        let [time, documents, pairs] = self.charts(added).map(|(_, chart)| chart);
        let table = HtmlTable {
            caption: "Every setting.".into(),
            header: COLUMNS.map(str::to_owned).to_vec(),
            rows: self.rows(),
        };
        // The measurements vary the shingle size, the threshold and the bands, so the list omits them.
        let mut settings = job_settings(&self.job);
        settings.retain(|(name, _)| !matches!(*name, "shingles" | "threshold"));
        for (_, value) in settings.iter_mut().filter(|(name, _)| *name == "candidates") {
            if self.job.candidates.method.uses_buckets() {
                *value = "documents that share a bucket, by the bands and rows of each threshold".into();
            }
        }
        let sections = vec![
            Section { heading: "Time".into(), charts: vec![time], ..Section::default() },
            Section { heading: "What is found".into(), charts: vec![documents, pairs], ..Section::default() },
            Section { heading: "Measurements".into(), tables: vec![table], ..Section::default() },
            settings_section(settings),
        ];
        HtmlPage { title: format!("{}: shingle sizes and thresholds", self.job.name), intro, sections }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_mean_and_a_least() {
        let times = Times::new(vec![3.0, 1.0, 2.0]);
        assert_eq!((times.mean, times.least), (2.0, 1.0));
    }
}
