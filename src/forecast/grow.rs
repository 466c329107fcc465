//! From the costs of samples to those of the whole source.
//!
//! A cost is a line through two runs: one over few documents, and one over a sample with as many pairs for each document as the
//! source. What grows is the number of documents, of candidates or of pairs, by stage.

use std::collections::BTreeSet;

use super::measure::Measured;
use super::pairs::{Expected, PairsOf};
use super::sample::{Sample, is_remote};
use super::view::{Amount, Forecast, OnCluster, Sampled, Seconds, StageForecast, TableForecast};
use crate::engine::session;
use crate::job::{Job, Method};

/// How far the seconds of a stage are off by chance, also of the quickest of some runs. Measured with 500 and 10,000 documents.
const NOISE: f64 = 0.005;
/// More rows fill more caches: ten times as many take 10 % longer each, fifty times as many 17 %. Measured with generated
/// documents.
const CACHES: f64 = 0.04;
/// How far seconds may be off, as machines are busy with other things too.
const FASTER: f64 = 0.75;
const SLOWER: f64 = 1.3;
/// How far bytes may be off.
const FEWER_BYTES: f64 = 0.93;
const MORE_BYTES: f64 = 1.07;
/// Bytes of the process for a byte that operators would reserve if there was enough: they reserve before they need, and not all
/// at the same time. Measured with a million generated documents and news, in 1 to 4 GiB: between 0.5 and 0.55.
const RESIDENT: f64 = 0.5;
/// The most bytes of the process for a byte of the pool, when that is full all the time. Measured in 256 and 512 MiB: 0.8 and 1.15.
const FULL_POOL: f64 = 1.1;
/// How far the memory may be off.
const LESS_RESIDENT: f64 = 0.75;
const MORE_RESIDENT: f64 = 1.3;
/// What a cluster adds to the processors' time, and seconds for each of its stages.
const CLUSTER_FACTOR: f64 = 1.4;
const CLUSTER_STAGE: f64 = 0.3;
/// The name of the end of a run.
const END: &str = "check and publish";

/// Stages whose cost grows with the documents. That of others grows with candidates or pairs.
const OF_DOCUMENTS: [&str; 23] = [
    "left_out",
    "duplicates",
    "group_sizes",
    "frequent",
    "cuts",
    "dictionary",
    "sketches",
    "frequencies",
    "units",
    "run_fingerprints",
    "run_fingerprint_hits",
    "hit_positions",
    "windows",
    "repeated_windows",
    "spans",
    "passage_positions",
    "passages",
    "reference",
    "copies",
    "candidates",
    "totals",
    "buckets",
    END,
];
/// Stages whose cost grows with the candidates.
const OF_CANDIDATES: [&str; 7] =
    ["positions", "scores", "agreeing", "hot_positions", "hot_sketches", "all_candidates", "prefixes"];

/// The runs over samples.
pub(super) struct Runs<'a> {
    pub(super) job: &'a Job,
    pub(super) sample: &'a Sample,
    /// Over a few documents.
    pub(super) few: Measured,
    /// Over the sample.
    pub(super) plain: Measured,
    /// Over the sample with as many pairs as the source has.
    pub(super) full: Measured,
    pub(super) expected: Expected,
}

/// What a cost grows with: in the run over a few documents, in that over the sample, and in the whole source.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Growth {
    few: f64,
    full: f64,
    whole: f64,
    low: f64,
    high: f64,
    /// The seconds of one more in typical runs, where a sample says little about the stage; `None` for other stages.
    typical: Option<f64>,
}

/// The seconds that a stage takes in typical runs for one more document, candidate or pair; `None` for stages that read texts,
/// whose cost depends on these.
fn typical(stage: &str) -> Option<f64> {
    match stage {
        "totals" | "copies" => Some(0.2e-6),
        END => Some(0.01e-6),
        "candidates" => Some(0.8e-6),
        name if OF_DOCUMENTS.contains(&name) => None,
        name if OF_CANDIDATES.contains(&name) => Some(4e-6),
        _ => Some(1e-6),
    }
}

/// The forecast, without risks, requests and a cluster.
pub(super) fn forecast(runs: &Runs<'_>) -> Forecast {
    let Runs { job, sample, few, plain, full, .. } = runs;
    let scale = sample.documents.value as f64 / ((sample.rows + sample.unreadable).max(1) as f64);
    let documents = runs.documents();
    let candidates =
        runs.growth(&runs.expected.candidates, |run| run.counts.candidates.unwrap_or_default(), scale);
    let pairs = runs.growth(&runs.expected.pairs, |run| run.counts.pairs, scale);
    let of = |name: &str| match name {
        "scores" if job.candidates.method == Method::All => documents.squared(),
        name if OF_DOCUMENTS.contains(&name) => documents,
        name if OF_CANDIDATES.contains(&name) => candidates,
        _ => pairs,
    };
    let mut stages: Vec<StageForecast> = Vec::new();
    let mut seen = BTreeSet::new();
    for stage in &full.stages {
        if !seen.insert(stage.name.as_str()) {
            continue;
        }
        let before = few.stage(&stage.name);
        let growth = Growth { typical: typical(&stage.name), ..of(&stage.name) };
        stages.push(StageForecast {
            name: stage.name.clone(),
            seconds: growth.seconds(before.map_or(0.0, |before| before.seconds), stage.seconds),
            written_bytes: growth.bytes(before.map_or(0, |before| before.bytes), stage.bytes),
        });
    }
    let seconds = Growth { typical: typical(END), ..documents }.seconds(few.end, full.end);
    stages.push(StageForecast { name: END.to_owned(), seconds, written_bytes: Amount::default() });
    let tables = full.tables.iter().map(|(name, bytes)| {
        let growth = if is_of_documents(name) { documents } else { pairs };
        let before = few.tables.get(name).copied().unwrap_or_default();
        TableForecast { name: name.clone(), bytes: growth.bytes(before, *bytes) }
    });
    let tables: Vec<TableForecast> = tables.collect();
    let written_bytes = sum(stages.iter().map(|stage| stage.written_bytes));
    let (spilled_bytes, peak_memory_bytes) = runs.memory(documents);
    let on_disk = if is_remote(&job.output.url) { Amount::default() } else { written_bytes };
    let rejects = (plain.counts.rejects + sample.unreadable) as f64;
    let off = 2.0 * rejects.sqrt();
    Forecast {
        name: job.name.clone(),
        sample: Sampled {
            documents: sample.rows + sample.unreadable,
            seed: 0,
            files: sample.files_read,
            of_files: sample.files.len() as u64,
            documents_read: sample.read,
        },
        documents: sample.documents,
        rejects: match scale > 1.0 {
            true => Amount::ranged(rejects * scale, (rejects - off) * scale, (rejects + off + 3.0) * scale),
            false => Amount::exact(rejects as u64),
        },
        candidates: plain.counts.candidates.map(|_| candidates.amount()),
        pairs: pairs.amount(),
        seconds: Seconds::sum(stages.iter().map(|stage| stage.seconds)),
        cluster: None,
        peak_memory_bytes,
        written_bytes,
        output_bytes: sum(tables.iter().map(|table| table.bytes)),
        spilled_bytes,
        most_disk_bytes: sum([on_disk, spilled_bytes].into_iter()),
        requests: None,
        stages,
        tables,
        risks: Vec::new(),
        templates: Vec::new(),
        notes: runs.notes(scale),
    }
}

/// The seconds on a cluster of so many tasks.
pub(super) fn on_cluster(forecast: &Forecast, job: &Job, tasks: u64) -> OnCluster {
    let threads = job.engine.thread_count() as f64;
    let stages = CLUSTER_STAGE * forecast.stages.len() as f64;
    let of = |seconds: f64, factor: f64| seconds * threads * factor / tasks as f64 + stages;
    let Seconds { value, low, high } = forecast.seconds;
    let seconds = Seconds {
        value: of(value, CLUSTER_FACTOR),
        low: of(low, 1.0),
        high: of(high, 2.0 * CLUSTER_FACTOR) + stages,
    };
    OnCluster { tasks, seconds }
}

fn is_of_documents(table: &str) -> bool {
    ["documents", "buckets", "rejects", "spans", "passages", "dictionary"].contains(&table)
}

fn sum(all: impl Iterator<Item = Amount>) -> Amount {
    all.fold(Amount::default(), |sum, one| Amount {
        value: sum.value + one.value,
        low: sum.low + one.low,
        high: sum.high + one.high,
    })
}

impl Runs<'_> {
    fn documents(&self) -> Growth {
        let Amount { value, low, high } = self.sample.documents;
        // The sample files lack what no parser can read.
        let readable = self.sample.rows as f64 / ((self.sample.rows + self.sample.unreadable).max(1) as f64);
        let of = |number: u64| number as f64 * readable;
        Growth {
            few: self.few.documents(),
            full: self.full.documents(),
            whole: of(value),
            low: of(low),
            high: of(high),
            typical: None,
        }
    }

    /// The growth of a number of pairs. Those of groups that are so dense that a run pairs their documents with leaders alone
    /// grow as the documents.
    fn growth(&self, of: &PairsOf, count: impl Fn(&Measured) -> u64, scale: f64) -> Growth {
        let (few, full) = (count(&self.few) as f64, count(&self.full) as f64);
        let output = &self.job.output;
        let largest = output.most_expanded().unwrap_or(u64::MAX).min(self.job.lsh.hot_bucket) as f64;
        let linear = full * scale;
        let whole = if of.partners > largest { linear.min(of.value) } else { of.value };
        Growth { few, full, whole, low: of.low.min(whole), high: of.high, typical: None }
    }

    /// Bytes of spills, and the most memory.
    fn memory(&self, documents: Growth) -> (Amount, Option<Amount>) {
        let pool = session::pool_bytes(self.job.engine.memory) as f64;
        let reserved = documents.line(self.few.reserved as f64, self.full.reserved as f64, documents.whole);
        let over = (reserved - pool).max(0.0);
        let spilled = Amount::ranged(over, 0.5 * over, 2.0 * (1.3 * reserved - pool).max(0.0));
        let memory = self.full.memory.map(|memory| {
            let memory = memory as f64;
            let had = self.full.reserved as f64;
            let more = (RESIDENT * (reserved - had)).min(FULL_POOL * pool - had).max(0.0);
            let value = memory + more;
            Amount::ranged(
                value,
                LESS_RESIDENT * value,
                (MORE_RESIDENT * value).min(memory + pool + 0.3 * memory),
            )
        });
        (spilled, memory)
    }

    fn notes(&self, scale: f64) -> Vec<String> {
        let mut notes = self.sample.notes.clone();
        if scale > 1.0 {
            let (share, seen) = (100.0 * self.expected.share, self.plain.counts.pairs);
            notes.push(format!(
                "the sample has {share:.3} % of the documents, and so about {:.5} % of the pairs: {seen} were found; their number grows at \
                 least with the documents and at most with the square of them",
                share * share / 100.0
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

impl Growth {
    fn squared(self) -> Self {
        let square = |number: f64| number * number;
        Self {
            few: square(self.few),
            full: square(self.full),
            whole: square(self.whole),
            low: square(self.low),
            high: square(self.high),
            typical: None,
        }
    }

    fn amount(self) -> Amount {
        Amount::ranged(self.whole, self.low, self.high)
    }

    /// The cost at `at`, on the line through those of both runs; that of the larger run if it did not grow.
    fn line(self, few: f64, full: f64, at: f64) -> f64 {
        match self.full > self.few {
            true => full + (full - few).max(0.0) / (self.full - self.few) * (at - self.full),
            false => full,
        }
    }

    /// The seconds of one more: those between both runs, and the typical ones, each by how certain they are. Typical seconds may
    /// be twice as many or none.
    fn of_one(self, few: f64, full: f64) -> f64 {
        let more = self.full - self.few;
        let measured = if more > 0.0 { (full - few) / more } else { 0.0 };
        let Some(typical) = self.typical else { return measured.max(0.0) };
        // The inverse of a variance. The noise is that of both runs.
        let (trust, of_typical) = ((more.max(0.0) / NOISE).powi(2) / 2.0, typical.powi(-2));
        ((trust * measured + of_typical * typical) / (trust + of_typical)).max(0.0)
    }

    fn seconds(self, few: f64, full: f64) -> Seconds {
        let (of_one, least) = (self.of_one(few, full), few.min(full));
        let at = |at: f64, factor: f64| {
            let caches = (at / self.full.max(1.0)).max(1.0).powf(CACHES);
            least + (full - least + of_one * (at - self.full)).max(0.0) * caches * factor
        };
        Seconds { value: at(self.whole, 1.0), low: at(self.low, FASTER), high: at(self.high, SLOWER) }
    }

    fn bytes(self, few: u64, full: u64) -> Amount {
        let at = |at: f64| self.line(few as f64, full as f64, at);
        match self.whole == self.full {
            true => Amount::exact(full),
            false => Amount::ranged(at(self.whole), FEWER_BYTES * at(self.low), MORE_BYTES * at(self.high)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROWTH: Growth =
        Growth { few: 100.0, full: 1_100.0, whole: 11_100.0, low: 10_000.0, high: 12_000.0, typical: None };

    #[test]
    fn bytes_are_on_a_line() {
        // 50 bytes whatever there is, and 2 for each.
        let Amount { value, low, high } = GROWTH.bytes(250, 2_250);
        assert_eq!(value, 22_250);
        assert!(low < 20_050 && high > 24_050, "{low} {high}");
    }

    #[test]
    fn what_does_not_grow_stays() {
        assert_eq!(GROWTH.bytes(300, 300).value, 300);
        let seconds = GROWTH.seconds(0.2, 0.1);
        assert_eq!((seconds.value, seconds.low, seconds.high), (0.1, 0.1, 0.1));
    }

    #[test]
    fn typical_seconds_count_where_chance_decides() {
        let typical = Some(1e-6);
        let growth = Growth { few: 10.0, full: 1_000.0, whole: 100_000.0, low: 0.0, high: 2e5, typical };
        // The 4 ms more that the larger run took would be 0.4 s.
        let Seconds { value, .. } = growth.seconds(0.010, 0.014);
        assert!((0.1..0.15).contains(&value), "{value}");
        // Those of a hundred times as many are seen.
        let growth = Growth { full: 100_000.0, whole: 10_000_000.0, ..growth };
        let Seconds { value, .. } = growth.seconds(0.010, 0.410);
        assert!((40.0..50.0).contains(&value), "{value}");
    }

    #[test]
    fn seconds_grow_a_little_more_than_documents() {
        let Seconds { value, low, high } = GROWTH.seconds(0.1, 1.1);
        assert!(value > 11.1 && value < 12.5, "{value}");
        assert!(low < 10.0 && high > 13.0, "{low} {high}");
    }
}
