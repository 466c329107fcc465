//! Extrapolates the costs of runs over two samples to a run over the whole source.
//!
//! - **Rows** grow in proportion to the documents if the two samples show this. Otherwise [`in_source`] estimates them.
//! - **Bytes** lie on the line through both runs, as a function of the rows. If a table is small in both runs, each further row takes a
//!   typical number of bytes.
//! - **Seconds** are linear in the documents. Many stages take only milliseconds for a sample, and most of this time is noise. So the
//!   forecast combines measured and typical seconds, weighted by their certainty. Rows that grow faster than the documents take typical
//!   seconds. A text that a later stage reads again takes as long as in the first stage.
//!
//! A random sample with a share p of the documents contains both documents of a pair with probability p². But some pairs grow in proportion
//! to the documents. These are pairs with reference documents, and pairs in very large groups, where a run pairs each document with only a
//! few others. So for `A + B` pairs in the source, a sample has `A p² + B p` pairs, and two samples determine A and B.

use std::collections::BTreeSet;

use super::measurement::RunMeasurement;
use super::sample::{SourceSample, is_remote};
use super::view::{Amount, Forecast, OnCluster, Requests, SampleView, StageForecast, TableForecast};
use crate::engine::session;
use crate::evaluate::Estimate;
use crate::job::Job;
use crate::output::manifest::StageTime;
use crate::source::format_of;

/// The random error of a stage's seconds in the quickest of several runs, measured with 500 and 10,000 documents.
const NOISE: f64 = 0.005;
/// A difference is significant if it exceeds this number of standard deviations, which cover 95 % of a normal distribution.
const DEVIATIONS: f64 = 2.0;
/// The number of rows that a sample can miss by chance: if 3 rows are expected, it contains none with probability 0.05.
const UNSEEN: f64 = 3.0;
/// Typical seconds per document in a stage without texts.
const DOCUMENT_SECONDS: f64 = 0.1e-6;
/// Typical seconds per row that a stage writes.
const ROW_SECONDS: f64 = 0.9e-6;
/// Typical bytes per row, for two runs whose files differ by less than [`SMALL`] bytes. Small files consist mostly of footers.
const ROW_BYTES: f64 = 16.0;
const SMALL: f64 = 16_384.0;
/// The exponent of the slowdown per row, because more rows exceed more caches. Each row takes 10 % longer with ten times as many rows,
/// and 17 % longer with fifty times as many. Measured with generated documents.
const CACHES: f64 = 0.04;
/// Factors for the value, the lower end and the upper end of a range. Seconds vary more than bytes, because machines also do other work.
const SECONDS: [f64; 3] = [1.0, 0.75, 1.3];
const BYTES: [f64; 3] = [1.0, 0.93, 1.07];
/// The memory of the process per byte that operators would reserve without a limit. Below 1, because operators reserve in advance and at
/// different times. Measurements with a million documents in 1 to 4 GiB gave 0.5 to 0.55.
const RESIDENT: f64 = 0.5;
/// The maximum memory of the process per byte in the memory pool, if the pool is always full. Measurements with 256 and 512 MiB gave 0.8
/// and 1.15.
const FULL_POOL: f64 = 1.1;
const LESS_RESIDENT: f64 = 0.75;
const MORE_RESIDENT: f64 = 1.6;
/// The factor by which a cluster increases the CPU time.
const CLUSTER_FACTOR: f64 = 1.4;
const CLUSTER_STAGE: f64 = 0.3;

/// Stages and tables with up to one row per pair of documents. [`in_source`] limits all others to one row per document.
const ROW_FOR_TWO: [&str; 6] = ["candidates", "all_candidates", "agreeing", "scores", "pairs", "components"];

/// The job, the sample, and the runs over both samples.
pub(super) struct SampleRuns<'a> {
    pub(super) job: &'a Job,
    pub(super) sample: &'a SourceSample,
    pub(super) small: RunMeasurement,
    pub(super) large: RunMeasurement,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Share {
    /// The number of documents in the smaller and in the larger sample.
    documents: [f64; 2],
    /// The share of the source's documents in the larger sample, above 0 and at most 1.
    of_all: f64,
    /// The share of the source's documents that were read for the larger sample. If the share is below 1, neighbouring documents are more
    /// often drawn together.
    read: f64,
    /// The mean number of rows that are drawn or missed together. A group of k documents has k (k - 1) / 2 pairs, so the variance grows
    /// with the cube of k.
    together: f64,
    /// Whether rows are assumed to grow in proportion to the documents, and not with their square, if the samples do not show it. True
    /// for jobs with reference documents, since most pairs contain one.
    is_linear: bool,
}

impl Share {
    /// Returns the number of rows in the larger sample that grow in proportion to the documents, and its standard deviation. `together`
    /// is the mean number of rows that are drawn together.
    fn linear(&self, [small, large]: [f64; 2], together: f64) -> (f64, f64) {
        let times = self.documents[1] / self.documents[0].max(1.0);
        let (square, more) = (times * times, (times - 1.0).max(0.5));
        let deviation = ((square * square * small + large) * together).sqrt() / more;
        ((square * small - large) / more, deviation)
    }
}

/// Extrapolates `rows`, the numbers of rows in the two samples, to the source: the value and both ends of its range, each at most `most`.
/// If the samples do not show how rows grow, [`Share::is_linear`] decides.
fn in_source(rows: [f64; 2], share: Share, most: f64) -> [f64; 3] {
    let (p, large) = (share.of_all, rows[1]);
    if p >= 1.0 {
        return [large; 3];
    }
    let (part, off) = share.linear(rows, share.together);
    let [least, greatest] = [-1.0, 1.0].map(|sign| (part + sign * DEVIATIONS * off).clamp(0.0, large));
    let part = match (least > 0.0, greatest < large) {
        (true, true) => part,
        (true, false) => large,
        (false, true) => 0.0,
        (false, false) => f64::from(u8::from(share.is_linear)) * large,
    };
    let (square, deviation) = (p * p, DEVIATIONS * (large * share.together).sqrt());
    let value = (large - part) / square + part / p;
    let low = (large - greatest - deviation).max((large - deviation).max(0.0) * p) * share.read / square;
    let high = (large - least + deviation + UNSEEN) / square;
    [value, low.min(value), high.max(value)].map(|rows| rows.min(most))
}

struct Growth<'a> {
    runs: &'a SampleRuns<'a>,
    share: Share,
    whole: [f64; 3],
    /// The seconds to read a text and compute its shingles.
    cut: f64,
}

/// Returns the forecast without risks, requests and the seconds on a cluster.
pub(super) fn forecast(runs: &SampleRuns<'_>) -> Forecast {
    let SampleRuns { job, sample, small, large } = runs;
    let growth = Growth::new(runs);
    let mut seen = BTreeSet::new();
    let stages = large.stages.iter().filter(|stage| seen.insert(&stage.name));
    let stages: Vec<StageForecast> = stages
        .map(|stage| {
            let none = StageTime { seconds: 0.0, rows: 0, bytes: 0, ..stage.clone() };
            let before = small.stage(&stage.name).unwrap_or(&none);
            let [value, low, high] = [0, 1, 2].map(|end| growth.seconds(before, stage, end));
            StageForecast {
                name: stage.name.clone(),
                seconds: Estimate { value, low, high },
                written_bytes: growth.bytes(&stage.name, [before, stage].map(|of| (of.rows, of.bytes))),
            }
        })
        .collect();
    let tables = large.tables.iter().map(|(name, of)| {
        let before = small.tables.get(name).copied().unwrap_or_default();
        TableForecast { name: name.clone(), bytes: growth.bytes(name, [before, *of]) }
    });
    let tables: Vec<TableForecast> = tables.collect();
    let written_bytes: Amount = stages.iter().map(|stage| stage.written_bytes).sum();
    let (spilled_bytes, peak_memory_bytes) = growth.memory();
    let on_disk = if is_remote(&job.output.url) { Amount::default() } else { written_bytes };
    let scale = 1.0 / sample.share();
    let rejects = large.counts.rejects as f64;
    let off = DEVIATIONS * rejects.sqrt();
    Forecast {
        name: job.name.clone(),
        sample: SampleView {
            documents: sample.rows,
            seed: 0,
            files: sample.files_read,
            of_files: sample.files.len() as u64,
            documents_read: sample.read,
        },
        documents: sample.documents,
        rejects: if scale > 1.0 {
            Amount::ranged([rejects, rejects - off, rejects + off + UNSEEN].map(|rows| rows * scale))
        } else {
            Amount::exact(rejects as u64)
        },
        candidates: large
            .counts
            .candidates
            .map(|_| growth.pair_count(|run| run.counts.candidates.unwrap_or(0))),
        pairs: growth.pair_count(|run| run.counts.pairs),
        seconds: stages.iter().map(|stage| stage.seconds).sum(),
        peak_memory_bytes,
        written_bytes,
        output_bytes: tables.iter().map(|table| table.bytes).sum(),
        spilled_bytes,
        most_disk_bytes: [on_disk, spilled_bytes].into_iter().sum(),
        stages,
        tables,
        notes: runs.notes(),
        ..Forecast::default()
    }
}

/// Returns the seconds on a cluster with `tasks` concurrent tasks.
pub(super) fn on_cluster(forecast: &Forecast, job: &Job, tasks: u64) -> OnCluster {
    let threads = job.engine.thread_count() as f64;
    let stages = CLUSTER_STAGE * forecast.stages.len() as f64;
    let of = |seconds: f64, factor: f64| seconds * threads * factor / tasks as f64 + stages;
    let Estimate { value, low, high } = forecast.seconds;
    let seconds = Estimate {
        value: of(value, CLUSTER_FACTOR),
        low: of(low, 1.0),
        high: of(high, 2.0 * CLUSTER_FACTOR) + stages,
    };
    OnCluster { tasks, seconds }
}

/// Returns the value at `at` on the line through two points (at, value). If the line falls, it is replaced by a level line through the
/// second point.
fn line([(from, first), (to, last)]: [(f64, f64); 2], at: f64) -> f64 {
    let of_one = if to > from { ((last - first) / (to - from)).max(0.0) } else { 0.0 };
    last + of_one * (at - to)
}

/// Returns the seconds per document in a stage that took `seconds` longer for `more` further documents.
fn seconds_per_document(seconds: f64, more: f64) -> f64 {
    let measured = seconds / more.max(1.0);
    if seconds > 2.0 * DEVIATIONS * NOISE {
        return measured;
    }
    // Weights are inverse variances. The difference between two runs has twice the variance of a run. The standard deviation of the
    // typical seconds is assumed to equal their value.
    let (trust, of_typical) = ((more / NOISE).powi(2) / 2.0, DOCUMENT_SECONDS.powi(-2));
    ((trust * measured + of_typical * DOCUMENT_SECONDS) / (trust + of_typical)).max(0.0)
}

impl<'a> Growth<'a> {
    fn new(runs: &'a SampleRuns<'a>) -> Self {
        let SampleRuns { job, sample, small, large } = runs;
        let Amount { value, low, high } = sample.documents;
        let counts = &large.counts;
        let partners = 2.0 * counts.pairs as f64 / counts.clustered_documents.max(1) as f64;
        let documents = [small, large].map(RunMeasurement::documents);
        let [first, last] =
            [small, large].map(|run| run.stage("sketches").map_or(0.0, |stage| stage.seconds));
        Self {
            runs,
            share: Share {
                documents,
                of_all: sample.share(),
                read: sample.read as f64 / value.max(1) as f64,
                together: 2.0 * partners.max(1.0) - 1.0,
                is_linear: job.reference().is_some(),
            },
            whole: [value, low, high].map(|number| number as f64),
            cut: seconds_per_document(last - first, documents[1] - documents[0]),
        }
    }

    /// Returns the number of documents in the source divided by the number in the larger sample. `end` is 0 for the value, 1 for the
    /// lower end of its range, and 2 for the upper end.
    fn times(&self, end: usize) -> f64 {
        self.whole[end] / self.share.documents[1].max(1.0)
    }

    /// Extrapolates the number of pairs or candidates, which `count` reads from a run.
    fn pair_count(&self, count: impl Fn(&RunMeasurement) -> u64) -> Amount {
        let rows = [&self.runs.small, &self.runs.large].map(|run| count(run) as f64);
        Amount::ranged(in_source(rows, self.share, self.whole[0] * (self.whole[0] - 1.0) / 2.0))
    }

    /// Extrapolates the rows of a stage or table from the rows in both runs.
    fn rows(&self, name: &str, rows: [u64; 2], end: usize) -> f64 {
        let (rows, all) = (rows.map(|rows| rows as f64), self.whole[end]);
        let (part, deviation) = self.share.linear(rows, 1.0);
        if part > DEVIATIONS * deviation {
            return rows[1] * self.times(end);
        }
        let most = if ROW_FOR_TWO.contains(&name) { all * (all - 1.0) / 2.0 } else { all };
        in_source(rows, self.share, most.max(rows[1]))[end]
    }

    /// Extrapolates the bytes of a stage or table. `runs` contains (rows, bytes) for both runs.
    fn bytes(&self, name: &str, runs: [(u64, u64); 2]) -> Amount {
        if self.whole == [self.share.documents[1]; 3] {
            return Amount::exact(runs[1].1);
        }
        let points = runs.map(|(rows, bytes)| (rows as f64, bytes as f64));
        let [few, many] = points;
        Amount::ranged([0, 1, 2].map(|end| {
            let rows = self.rows(name, runs.map(|(rows, _)| rows), end);
            let is_small = rows > many.0 && many.1 - few.1 < SMALL;
            BYTES[end] * if is_small { many.1 + ROW_BYTES * (rows - many.0) } else { line(points, rows) }
        }))
    }

    fn seconds(&self, small: &StageTime, large: &StageTime, end: usize) -> f64 {
        let name = large.name.as_str();
        let [few, many] = self.share.documents;
        let is_of_two = name == "scores" && self.runs.job.candidates.method.compares_every_two();
        let [few, many, all] = [few, many, self.whole[end]]
            .map(|documents| if is_of_two { documents * documents } else { documents });
        let least = small.seconds.min(large.seconds);
        let documents = large.seconds - least
            + seconds_per_document(large.seconds - small.seconds, many - few) * (all - many);
        let more = documents.max(0.0)
            + ROW_SECONDS * self.more_rows(small, large, end)
            + self.cut * self.read_again(name, end);
        least + more * (all / many.max(1.0)).max(1.0).powf(CACHES) * SECONDS[end]
    }

    /// Returns how many rows of a stage exceed growth in proportion to the documents.
    fn more_rows(&self, small: &StageTime, large: &StageTime, end: usize) -> f64 {
        let rows = self.rows(&large.name, [small.rows, large.rows], end);
        (rows - large.rows as f64 * self.times(end)).max(0.0)
    }

    /// Returns how many texts that a stage reads again exceed growth in proportion to the documents.
    fn read_again(&self, name: &str, end: usize) -> f64 {
        let SampleRuns { job, small, large, .. } = self.runs;
        let is_cut = job.candidates.method.uses_buckets() && !job.output.keep.shingles();
        let places = match name {
            "scores" if is_cut => "positions",
            "texts" => "text_positions",
            _ => return 0.0,
        };
        let stages = small.stage(places).zip(large.stage(places));
        stages.map_or(0.0, |(small, large)| self.more_rows(small, large, end))
    }

    /// Returns the spilled bytes, and the peak memory if the system reports it.
    fn memory(&self) -> (Amount, Option<Amount>) {
        let SampleRuns { job, small, large, .. } = self.runs;
        let pool = session::pool_bytes(job.engine.memory_bytes()) as f64;
        let (had, [few, many]) = (large.reserved as f64, self.share.documents);
        let reserved = line([(few, small.reserved as f64), (many, had)], self.whole[0]);
        let over = (reserved - pool).max(0.0);
        let spilled = Amount::ranged([over, 0.5 * over, 2.0 * (1.3 * reserved - pool).max(0.0)]);
        let memory = large.memory.map(|memory| {
            let memory = memory as f64;
            let more = (RESIDENT * (reserved - had)).min(FULL_POOL * pool - had).max(0.0);
            let value = memory + more;
            let most = (MORE_RESIDENT * value).min(memory + pool + 0.3 * memory);
            Amount::ranged([value, LESS_RESIDENT * value, most])
        });
        (spilled, memory)
    }
}

impl SampleRuns<'_> {
    fn notes(&self) -> Vec<String> {
        let mut notes = self.sample.notes.clone();
        let share = self.sample.share();
        if share < 1.0 {
            let seen = self.large.counts.pairs;
            notes.push(format!(
                "the sample has {:.3} % of the documents, and so about {:.5} % of the pairs: {seen} were found; their number grows at \
                 least with the documents and at most with the square of them",
                100.0 * share,
                100.0 * share * share
            ));
            if self.job.reference().is_some() {
                notes.push(
                    "pairs with reference documents are in proportion to the sample, which is compared with all reference documents"
                        .to_owned(),
                );
            }
        }
        notes
    }
}

/// The number of files that one listing request returns.
const LISTED: u64 = 1_000;
/// The number of bytes that one write request sends.
const PART: u64 = 8 << 20;
/// The number of bytes that one read request returns.
const READ: u64 = 32 << 20;
/// The number of requests that a run needs for its claim, manifests and checks.
const OF_RUN: u64 = 30;
/// The number of additional requests per stage.
const OF_STAGE: u64 = 4;
/// The number of read requests per file of a stage: later stages read its size, footer and columns.
const OF_FILE: u64 = 8;
const FEWER: f64 = 0.3;
const MORE: f64 = 3.0;

/// Returns the requests of a run to object stores, if the source or the output is in one.
pub(super) fn requests(job: &Job, sample: &SourceSample, forecast: &Forecast) -> Option<Requests> {
    let output = is_remote(&job.output.url);
    if !sample.is_remote && !output {
        return None;
    }
    let (mut reads, mut writes) = (0, 0);
    if sample.is_remote {
        // If there are pairs, the texts of candidates are read a second time.
        let passes = if forecast.pairs.value > 0 { 2 } else { 1 };
        let parquet = format_of(job.source.format).is_parquet();
        let of_file = |(bytes, groups): &(u64, u64)| {
            if parquet { 1 + passes * groups } else { passes * bytes.div_ceil(READ).max(1) }
        };
        reads += job.source.urls.len() as u64 + sample.files.len() as u64 / LISTED;
        reads += sample.files.iter().map(of_file).sum::<u64>();
    }
    if output {
        let files = job.engine.thread_count() as u64;
        for stage in &forecast.stages {
            let bytes = stage.written_bytes.value;
            let parts = bytes.div_ceil(PART);
            // An upload in parts takes a request to begin, one per part, and one to complete.
            writes += if parts > files { parts + 2 * files } else { files } + OF_STAGE;
            reads += OF_FILE * files + parts + OF_STAGE;
        }
        reads += OF_RUN;
        writes += OF_RUN;
    }
    let about = |number: u64| Amount::ranged([1.0, FEWER, MORE].map(|factor| factor * number as f64));
    Some(Requests { reads: about(reads), writes: about(writes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::hash::SplitMix64;

    const SHARE: Share =
        Share { documents: [2_500.0, 10_000.0], of_all: 0.1, read: 1.0, together: 1.0, is_linear: false };

    /// Draws two samples from groups of `size` similar documents. Returns the number of pairs in each, and a [`Share`] with `together` of
    /// the larger sample. In a group with more than `most` documents, only the first one is paired with the others.
    fn sampled(groups: u64, size: u64, most: f64, seed: u64) -> ([f64; 2], Share) {
        let mut random = SplitMix64(seed);
        let pairs = |there: u64, share: f64| {
            let all = (there * there.saturating_sub(1) / 2) as f64;
            if there as f64 > (most * share).max(16.0) { there as f64 - 1.0 } else { all }
        };
        let (mut rows, mut documents) = ([0.0; 2], 0.0);
        for _ in 0..groups {
            let drawn: Vec<f64> = (0..size).map(|_| random.next() as f64 / 2f64.powi(64)).collect();
            let there = |share: f64| drawn.iter().filter(|one| **one < share).count() as u64;
            for (rows, share) in rows.iter_mut().zip([SHARE.of_all / 4.0, SHARE.of_all]) {
                *rows += pairs(there(share), share);
            }
            documents += if there(SHARE.of_all) > 1 { there(SHARE.of_all) as f64 } else { 0.0 };
        }
        let together = 2.0 * (2.0 * rows[1] / f64::max(documents, 1.0)).max(1.0) - 1.0;
        (rows, Share { together, ..SHARE })
    }

    #[test]
    fn the_range_holds_the_pairs_of_groups_of_any_size() {
        for (groups, size) in [(5_000, 2), (2_000, 5), (200, 50), (10, 1_000)] {
            let truth = (groups * size * (size - 1) / 2) as f64;
            let found = |seed| {
                let (rows, share) = sampled(groups, size, f64::MAX, seed);
                in_source(rows, share, f64::MAX)
            };
            let held = (1..=100).map(found).filter(|[_, low, high]| *low <= truth && truth <= *high).count();
            assert!(held >= 90, "{groups} groups of {size}: {held}");
        }
    }

    #[test]
    fn pairs_of_large_groups_and_of_reference_documents_grow_as_the_documents() {
        let (rows, share) = sampled(5, 4_000, 1_000.0, 3);
        let found = in_source(rows, share, f64::MAX);
        assert!((found[0] / 20_000.0 - 1.0).abs() < 0.2, "{rows:?} {found:?}");
        let references = Share { is_linear: true, ..SHARE };
        assert_eq!(in_source([3.0, 10.0], references, f64::MAX)[0].round(), 100.0);
        assert_eq!(in_source([3.0, 10.0], SHARE, f64::MAX)[0].round(), 1_000.0);
        assert_eq!(in_source([0.0, 9.0], Share { of_all: 1.0, ..SHARE }, f64::MAX), [9.0; 3]);
        assert_eq!(in_source([0.0; 2], SHARE, f64::MAX).map(f64::round), [0.0, 0.0, 300.0]);
    }

    #[test]
    fn what_does_not_grow_stays() {
        assert_eq!(line([(10.0, 250.0), (110.0, 450.0)], 1_110.0), 2_450.0);
        assert_eq!(line([(10.0, 30.0), (110.0, 20.0)], 1_110.0), 20.0);
    }

    #[test]
    fn typical_seconds_count_where_chance_decides() {
        assert!((39.0..41.0).contains(&(1e6 * seconds_per_document(0.4, 10_000.0))));
        assert!((0.05..0.3).contains(&(1e6 * seconds_per_document(0.004, 10_000.0))));
    }
}
