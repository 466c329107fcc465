//! Measures three methods that find similar pairs, on samples of increasing size.

use arrow::array::RecordBatch;
use datafusion::common::cast::as_uint64_array;
use datafusion::prelude::SessionContext;
use serde::Serialize;

use super::sample::LabSample;
use super::timing::{Bench, Searched, Timed};
use crate::engine::RunControl;
use crate::error::counts::count;
use crate::error::{Error, Result};
use crate::job::{self, Job, Score, ScoreBy};
use crate::page::text::{decimal, seconds, sentence};
use crate::page::{Axis, Chart, HtmlPage, HtmlTable, Scale, Section, Series, job_settings, settings_section};

/// The maximum number of documents in a sample, which is held in memory.
pub(crate) const MAX_SAMPLE: usize = 1_000_000_000;
/// The maximum number of repetitions of a measurement.
pub(crate) const MAX_REPEAT: usize = 1_000_000;

/// A method that finds the similar pairs of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComparedMethod {
    /// Computes the exact Jaccard similarity of every two shingle sets. Signatures are not needed.
    Exact,
    /// Computes the share of equal values in every two signatures.
    Signatures,
    /// Scores documents that share a bucket, by the rules of the job.
    Lsh,
}

impl ComparedMethod {
    const ALL: [ComparedMethod; 3] = [ComparedMethod::Exact, ComparedMethod::Signatures, ComparedMethod::Lsh];

    fn name(self) -> &'static str {
        match self {
            ComparedMethod::Exact => "exact Jaccard of all pairs",
            ComparedMethod::Signatures => "signatures of all pairs",
            ComparedMethod::Lsh => "LSH",
        }
    }

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
    /// The job whose source, threshold, shingles, signatures and bands were used.
    pub job: Job,
    /// The number of measurements of each method on each sample. The shortest time is reported.
    pub repeat: usize,
    /// A note if the samples are not as requested.
    pub note: Option<String>,
    /// The measurements on each sample, by ascending size.
    pub samples: Vec<SampleMeasurement>,
    /// The fastest methods by the whole time, from texts to pairs.
    pub whole: FastestMethod,
    /// The fastest methods if only the search counts, from signatures or shingle sets to pairs.
    pub search: FastestMethod,
}

/// The fastest method for each sample size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FastestMethod {
    /// The fastest method on the smallest sample, followed by each method that becomes the fastest on a larger sample.
    pub fastest: Vec<Fastest>,
    /// The sample sizes at which a method overtakes another method.
    pub crossings: Vec<Crossing>,
}

/// The measurements on a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampleMeasurement {
    /// The number of documents, and the maximum number of reference documents, in the sample.
    pub documents: usize,
    /// The seconds from texts to shingle sets, which every method needs.
    pub shingles_seconds: f64,
    /// The seconds from shingle sets to signatures.
    pub signatures_seconds: f64,
    /// The measurements of the methods, in the order exact, signatures, LSH.
    pub methods: Vec<Measurement>,
}

/// The measurement of a method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measurement {
    /// The method.
    pub method: ComparedMethod,
    /// The seconds of the search. For LSH, it computes buckets, candidates and scores.
    pub seconds: f64,
    /// The seconds from texts to pairs: for shingles, for signatures if the method needs them, and for the search.
    pub total_seconds: f64,
    /// The number of pairs of documents that share a bucket; `None` for the other methods.
    pub candidates: Option<u64>,
    /// The number of pairs that the method found.
    pub pairs: u64,
    /// The share of exact pairs that the method found; `None` if there are no exact pairs.
    pub recall: Option<f64>,
    /// The share of found pairs that are exact pairs; `None` if no pair was found.
    pub precision: Option<f64>,
}

/// A sample size from which a method is the fastest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fastest {
    /// The number of documents in the sample.
    pub documents: usize,
    /// The method.
    pub method: ComparedMethod,
    /// The seconds of the method on this sample.
    pub seconds: f64,
}

/// A sample size at which a method overtakes another method.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Crossing {
    /// The number of documents in the larger sample.
    pub documents: usize,
    /// The method that is faster on this sample, but not on the next smaller sample.
    pub method: ComparedMethod,
    /// The method that was at least as fast on the next smaller sample.
    pub overtaken: ComparedMethod,
}

/// Runs the three methods `repeat` times on samples of the job's source. `documents` are the sizes of the samples.
///
/// A sample consists of the first comparable documents in order of (source, position), and of up to as many reference documents. It is in
/// memory with its sketches. Groups and reference documents decide which pairs are compared, as in a run. Documents with equal shingle
/// sets are compared like other documents.
///
/// # Errors
/// Fails if `documents` is empty, if the source cannot be read or has no document that can be compared, or if `control` stops the
/// measurement.
pub async fn compare(
    session: &SessionContext,
    job: &Job,
    documents: &[usize],
    repeat: usize,
    control: &RunControl,
) -> Result<Comparison> {
    let Some(most) = documents.iter().max() else {
        return Err(Error::job("no number of documents is given: expected at least one"));
    };
    let sample = LabSample::read(session, job, &job.shingle, *most).await?;
    let (sizes, note) = sample.sizes(documents);
    let searches = ComparedMethod::ALL.map(|method| (method.name().to_owned(), method.job(job)));
    let mut bench = Bench::new(session, control, &sample, repeat, (&searches, sizes.len())).await;
    let mut samples: Vec<SampleMeasurement> = Vec::with_capacity(sizes.len());
    for size in sizes {
        let timed = bench.measure(&searches, size, &format!("{size} documents")).await?;
        samples.push(SampleMeasurement::new(size, timed)?);
    }
    let whole = FastestMethod::new(&samples, |one| one.total_seconds);
    let search = FastestMethod::new(&samples, |one| one.seconds);
    Ok(Comparison { job: job.clone(), repeat, note, samples, whole, search })
}

impl SampleMeasurement {
    /// Keeps the shortest times, and compares the pairs of each method with the exact ones.
    fn new(documents: usize, timed: Timed) -> Result<Self> {
        let least = |seconds: &[f64]| seconds.iter().copied().fold(f64::INFINITY, f64::min);
        let (shingles_seconds, signatures_seconds) = (least(&timed.shingles), least(&timed.signatures));
        let mut exact = Vec::new();
        let mut methods = Vec::with_capacity(ComparedMethod::ALL.len());
        for (method, (seconds, Searched { scores, candidates })) in
            ComparedMethod::ALL.into_iter().zip(timed.searches)
        {
            let (seconds, found) = (least(&seconds), sorted_pairs(&scores)?);
            let mut building = shingles_seconds;
            if method == ComparedMethod::Exact {
                exact.clone_from(&found);
            } else {
                building += signatures_seconds;
            }
            let both = exact.iter().filter(|pair| found.binary_search(pair).is_ok()).count() as f64;
            let share = |all: usize| (all > 0).then(|| both / all as f64);
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
        Ok(Self { documents, shingles_seconds, signatures_seconds, methods })
    }
}

fn sorted_pairs(scores: &[RecordBatch]) -> Result<Vec<(u64, u64)>> {
    let mut pairs = Vec::new();
    for batch in scores {
        let (a, b) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        pairs.extend(a.values().iter().copied().zip(b.values().iter().copied()));
    }
    pairs.sort_unstable();
    Ok(pairs)
}

impl FastestMethod {
    fn new(samples: &[SampleMeasurement], seconds: fn(&Measurement) -> f64) -> Self {
        let (mut fastest, mut crossings): (Vec<Fastest>, _) = (Vec::new(), Vec::new());
        for sample in samples {
            let first = sample.methods.iter().min_by(|a, b| seconds(a).total_cmp(&seconds(b)));
            if let Some(one) = first
                && fastest.last().is_none_or(|before| before.method != one.method)
            {
                let (method, seconds) = (one.method, seconds(one));
                fastest.push(Fastest { documents: sample.documents, method, seconds });
            }
        }
        for (before, now) in samples.iter().zip(samples.iter().skip(1)) {
            let methods = || now.methods.iter().zip(&before.methods);
            for (method, method_before) in methods() {
                for (other, other_before) in methods() {
                    if seconds(method_before) >= seconds(other_before) && seconds(method) < seconds(other) {
                        let (method, overtaken) = (method.method, other.method);
                        crossings.push(Crossing { documents: now.documents, method, overtaken });
                    }
                }
            }
        }
        Self { fastest, crossings }
    }

    fn crossing_sentences(&self) -> Vec<String> {
        let sentence = |crossing: &Crossing| {
            let (documents, method) = (count(crossing.documents as u64), crossing.method.name());
            format!("At {documents} documents {method} has overtaken {}.", crossing.overtaken.name())
        };
        self.crossings.iter().map(sentence).collect()
    }

    /// Returns sentences about the fastest methods.
    fn fastest_sentences(&self, samples: &[SampleMeasurement]) -> Vec<String> {
        let (Some(smallest), Some(largest)) = (samples.first(), samples.last()) else {
            return Vec::new();
        };
        if let [one] = self.fastest.as_slice() {
            let method = one.method.name();
            let [from, to] = [smallest, largest].map(|sample| count(sample.documents as u64));
            return vec![if from == to {
                format!("At {to} documents the fastest is {method} ({} s).", seconds(one.seconds))
            } else {
                format!(
                    "From {from} to {to} documents the fastest is {method}: no other method overtakes it."
                )
            }];
        }
        let sentence = |first: &Fastest| {
            let (documents, method) = (count(first.documents as u64), first.method.name());
            format!("From {documents} documents on the fastest is {method} ({} s).", seconds(first.seconds))
        };
        self.fastest.iter().map(sentence).collect()
    }
}

/// The columns of [`Comparison::rows`].
pub(crate) const COLUMNS: [&str; 9] = [
    "documents",
    "method",
    "shingles s",
    "signatures s",
    "search s",
    "total s",
    "pairs",
    "recall",
    "precision",
];

impl Comparison {
    /// Returns the charts of the time from texts to pairs and of the search, with the names of their files. `added` are further series of
    /// the first chart.
    pub(crate) fn charts(&self, added: &[Series]) -> [(&'static str, Chart); 2] {
        let others = others(added);
        let mut whole = self.chart(
            "Seconds from texts to pairs, by number of documents",
            &format!(
                "including the time to build what it needs. Where two lines cross, one method overtakes the other.{others}"
            ),
            &self.whole,
            |one| one.total_seconds,
        );
        whole.series.extend(added.iter().cloned());
        let search = self.chart(
            "Seconds of the search alone, by number of documents",
            "after the shingles, and the signatures if it needs them, were built.",
            &self.search,
            |one| one.seconds,
        );
        [("compare", whole), ("compare-search", search)]
    }

    /// Returns a chart of seconds by number of documents, with logarithmic axes and a line for each method.
    fn chart(
        &self,
        title: &str,
        included: &str,
        verdict: &FastestMethod,
        seconds: fn(&Measurement) -> f64,
    ) -> Chart {
        let line = |method: ComparedMethod| {
            let point = |sample: &SampleMeasurement| {
                let one = sample.methods.iter().find(|one| one.method == method)?;
                Some((sample.documents as f64, seconds(one)))
            };
            Series::new(method.name(), self.samples.iter().filter_map(point).collect())
        };
        Chart {
            title: title.into(),
            caption: format!(
                "Each line is a method that finds the pairs of similarity {} or more, {included} {}",
                self.job.score.threshold,
                verdict.fastest_sentences(&self.samples).join(" "),
            ),
            x: Axis::new("documents (logarithmic)", Scale::Log),
            y: Axis::new("seconds (logarithmic)", Scale::Log),
            series: ComparedMethod::ALL.into_iter().map(line).collect(),
        }
    }

    /// Returns sentences about the fastest methods and about crossings, for the time from texts to pairs and for the search.
    pub(crate) fn verdicts(&self) -> [(&'static str, Vec<String>); 2] {
        let sentences = |verdict: &FastestMethod| {
            [verdict.fastest_sentences(&self.samples), verdict.crossing_sentences()]
        };
        [("From texts to pairs", &self.whole), ("The search alone", &self.search)]
            .map(|(heading, verdict)| (heading, sentences(verdict).concat()))
    }

    pub(crate) fn rows(&self) -> Vec<Vec<String>> {
        let share = |share: Option<f64>| share.map_or("-".into(), |share| decimal(share, 4));
        let row = |sample: &SampleMeasurement, one: &Measurement| {
            let signatures = match one.method {
                ComparedMethod::Exact => "-".into(),
                ComparedMethod::Signatures | ComparedMethod::Lsh => seconds(sample.signatures_seconds),
            };
            vec![
                count(sample.documents as u64),
                one.method.name().to_owned(),
                seconds(sample.shingles_seconds),
                signatures,
                seconds(one.seconds),
                seconds(one.total_seconds),
                count(one.pairs),
                share(one.recall),
                share(one.precision),
            ]
        };
        let rows = self.samples.iter();
        rows.flat_map(|sample| sample.methods.iter().map(move |one| row(sample, one))).collect()
    }

    /// Returns the page. `added` are further series of the first chart.
    pub(crate) fn page(&self, added: &[Series]) -> HtmlPage {
        let mut intro = vec![
            format!(
                "Three methods find the same pairs in growing samples: the first documents of the source that can be \
                 compared, in order of file and position. Each time is the shortest of {}. It includes planning, and \
                 samples and sketches are in memory.",
                self.repeat
            ),
            "Shingles: texts to shingle sets, which every method needs. Signatures: shingle sets to signatures, which exact \
             Jaccard does not need. Search: what the method itself does; for LSH, these are buckets, candidates and their \
             scores. Recall and precision are relative to the exact pairs."
                .to_owned(),
        ];
        intro.extend(self.note.as_deref().map(sentence));
        let measurements = HtmlTable {
            caption: "Every measurement, in seconds.".into(),
            header: COLUMNS.map(str::to_owned).to_vec(),
            rows: self.rows(),
        };
        let [(_, whole), (_, search)] = self.charts(added);
        // The caption of the chart already names the fastest methods.
        let section = |heading: &str, verdict: &FastestMethod, chart: Chart| Section {
            heading: heading.into(),
            text: verdict.crossing_sentences(),
            charts: vec![chart],
            tables: vec![],
        };
        let sections = vec![
            section("From texts to pairs", &self.whole, whole),
            section("The search alone", &self.search, search),
            Section { heading: "Measurements".into(), tables: vec![measurements], ..Section::default() },
            settings_section(job_settings(&self.job)),
        ];
        HtmlPage { title: format!("{}: three methods for the same pairs", self.job.name), intro, sections }
    }
}

/// Returns a sentence for captions if `added` contains series for other programs.
pub(super) fn others(added: &[Series]) -> &'static str {
    if added.is_empty() { "" } else { " The times of other programs were given, not measured here." }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(documents: usize, shingles: f64, signatures: f64, searches: [f64; 3]) -> SampleMeasurement {
        let measured = |(method, seconds): (ComparedMethod, f64)| {
            let before = if method == ComparedMethod::Exact { shingles } else { shingles + signatures };
            let (total_seconds, candidates, recall, precision) = (before + seconds, None, None, None);
            Measurement { method, seconds, total_seconds, candidates, pairs: 0, recall, precision }
        };
        let methods = ComparedMethod::ALL.into_iter().zip(searches).map(measured).collect();
        SampleMeasurement { documents, shingles_seconds: shingles, signatures_seconds: signatures, methods }
    }

    #[test]
    fn crossings_are_where_another_method_takes_over() {
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
        assert_eq!(FastestMethod::new(&[], |one| one.seconds).fastest, []);
        let found: Vec<_> = whole.crossings.iter().map(|c| (c.documents, c.method, c.overtaken)).collect();
        // The totals of the three methods on each sample: 2, 3, 7; 12, 13, 10.5; 23, 21, 14.
        let expected = [
            (500, ComparedMethod::Lsh, ComparedMethod::Exact),
            (500, ComparedMethod::Lsh, ComparedMethod::Signatures),
            (1000, ComparedMethod::Signatures, ComparedMethod::Exact),
        ];
        assert_eq!(found, expected);
        // The searches of the three methods on each sample: 1, 1, 5; 10, 9, 6.5; 20, 15, 8.
        let search = FastestMethod::new(&samples, |one| one.seconds);
        assert_eq!(firsts(&search), [(100, ComparedMethod::Exact, 1.0), (500, ComparedMethod::Lsh, 6.5)]);
        assert!(search.crossings.iter().all(|crossing| crossing.documents == 500));
    }
}
