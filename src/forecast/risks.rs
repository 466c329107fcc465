//! What may cost more than it should, or give another result than was meant, with an example of the texts.

use std::path::PathBuf;

use xxhash_rust::xxh3::xxh3_64;

use super::sample::SourceSample;
use super::templates::{self, FEWEST, ShingleCounts, beginning};
use super::view::{Forecast, Risk, RiskKind, Template};
use crate::error::Result;
use crate::job::{Job, Shingle, ShingleHash, Short};
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::shingle_texts::shingle_texts;
use crate::machine;

/// The share of documents with one shingle above which it is frequent.
const FREQUENT: f64 = 0.05;
/// The part of the share of the rarest listed passage that `shingle.max_frequency` is set to, and the least value that is
/// suggested.
const BELOW: f64 = 0.5;
const LEAST: f64 = 0.001;
/// A document of fewer shingles is short, and the share of short ones above which they are a risk.
const SHORT: usize = 4;
const MANY_SHORT: f64 = 0.05;
/// A document above this share of the memory is large.
const LARGE: f64 = 0.01;
/// Candidates for each pair, and for each document, above which bands cost much.
const OF_PAIR: f64 = 20.0;
const OF_DOCUMENT: f64 = 2.0;
/// Characters of an example.
const EXAMPLE: usize = 100;

/// The texts of a sample.
#[derive(Default)]
struct SampleTexts {
    /// For each shingle its documents, by a hash of it.
    documents: ShingleCounts,
    short: u64,
    short_example: Option<String>,
}

/// The risks of a job, and the passages that many documents of its sample have.
///
/// # Errors
/// When the sample cannot be read.
pub(super) fn of(
    job: &Job,
    sample: &SourceSample,
    forecast: &Forecast,
) -> Result<(Vec<Risk>, Vec<Template>)> {
    let shingle = Shingle { hash: ShingleHash::Dictionary, ..job.shingle.clone() };
    let mut texts = SampleTexts::count(&sample.texts, &shingle)?;
    if let Some(share) = job.max_frequency {
        // More frequent shingles do not count.
        let most = share * sample.texts.len() as f64;
        texts.documents.retain(|_, documents| *documents as f64 <= most);
    }
    let templates = templates::of(&sample.texts, &shingle, &texts.documents)?;
    let risks = [
        texts.frequent(sample.texts.len(), &templates),
        texts.short(sample.texts.len(), &shingle),
        large(job, sample),
        many_candidates(job, forecast),
        low_recall(job),
        too_many_pairs(job, forecast),
        little_disk(job, forecast),
        little_memory(forecast),
    ];
    Ok((risks.into_iter().flatten().collect(), templates))
}

fn risk(kind: RiskKind, text: String, example: Option<String>, set: &[String]) -> Risk {
    Risk { kind, text, example, set: set.to_vec() }
}

/// The next number below that is 1, 2 or 5 times a power of ten; of numbers under 1.
fn round_down(share: f64) -> f64 {
    let steps = [0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002];
    steps.into_iter().find(|step| *step <= share).unwrap_or(LEAST)
}

impl SampleTexts {
    fn count(texts: &[String], shingle: &Shingle) -> Result<Self> {
        let (mut counted, mut scratch) = (Self::default(), CutScratch::default());
        for text in texts {
            let set = shingle_texts(text, shingle, &mut scratch)?;
            if set.len() < SHORT {
                counted.short += 1;
                counted.short_example.get_or_insert_with(|| beginning(text, EXAMPLE));
            }
            for one in &set {
                *counted.documents.entry(xxh3_64(one.as_bytes())).or_default() += 1;
            }
        }
        Ok(counted)
    }

    /// The shingles that many documents have, with the most frequent passage.
    fn frequent(&self, counted: usize, templates: &[Template]) -> Option<Risk> {
        let counted = counted as f64;
        let least = FEWEST.max((FREQUENT * counted).ceil() as u64);
        let most = self.documents.values().copied().max().filter(|most| *most >= least)?;
        let frequent = self.documents.values().filter(|documents| **documents >= least).count();
        let text = format!(
            "{:.0} % of the documents have a shingle in common, and {frequent} shingles are in {:.0} % or more of them: a header, a \
             licence or a menu, which makes documents similar that are not",
            100.0 * most as f64 / counted,
            100.0 * FREQUENT,
        );
        let rarest = templates.iter().map(|template| template.share).filter(|share| *share >= FREQUENT);
        let below = round_down(BELOW * rarest.fold(1.0, f64::min)).max(LEAST);
        let set = [
            format!("shingle.max_frequency={below}"),
            "passages.unit=line".to_owned(),
            "clusters.contained=0.98".to_owned(),
        ];
        let example = templates.first().map(|template| beginning(&template.text, EXAMPLE));
        Some(risk(RiskKind::FrequentShingles, text, example, &set))
    }

    fn short(&self, counted: usize, shingle: &Shingle) -> Option<Risk> {
        let share = self.short as f64 / counted.max(1) as f64;
        (share >= MANY_SHORT).then(|| {
            let unit = shingle.unit.plural();
            let text = format!(
                "{:.0} % of the documents have fewer than {SHORT} shingles of {} {unit}: they are rejected, or one shingle decides on \
                 their similarity",
                100.0 * share,
                shingle.size,
            );
            let smaller = shingle.size.saturating_sub(2).max(1);
            let set = (smaller < shingle.size).then(|| format!("shingle.size={smaller}"));
            risk(RiskKind::ShortDocuments, text, self.short_example.clone(), &Vec::from_iter(set))
        })
    }
}

fn large(job: &Job, sample: &SourceSample) -> Option<Risk> {
    let (bytes, example) = sample.largest.clone();
    (bytes as f64 > LARGE * job.engine.memory_bytes() as f64).then(|| {
        let text = format!(
            "a document has {} MiB, and the memory of the run is {} MiB: its text and its shingles are held whole",
            bytes >> 20,
            job.engine.memory_bytes() >> 20
        );
        let set = format!("engine.memory={}MiB", (bytes as f64 / LARGE) as u64 >> 20);
        risk(RiskKind::LargeDocument, text, Some(example), &[set])
    })
}

fn many_candidates(job: &Job, forecast: &Forecast) -> Option<Risk> {
    let candidates = forecast.candidates?.value as f64;
    let of_document = candidates / forecast.documents.value.max(1) as f64;
    let of_pair = candidates / forecast.pairs.value.max(1) as f64;
    let costs = job.candidates.method.uses_buckets() && of_document > OF_DOCUMENT && of_pair > OF_PAIR;
    costs.then(|| {
        let text = format!(
            "{of_document:.0} candidates are expected for each document, and one in {of_pair:.0} is a pair: {} bands of {} rows are loose \
             for a threshold of {}",
            job.lsh.bands, job.lsh.rows, job.score.threshold
        );
        let set = ["candidates.method=prefix".to_owned(), "lsh.target_recall=0.95".to_owned()];
        risk(RiskKind::ManyCandidates, text, None, &set)
    })
}

fn low_recall(job: &Job) -> Option<Risk> {
    let candidates = ["candidates.method=prefix", "lsh.target_recall=0.99"];
    // Each is valid alone; the scores of empty documents need several keys at once.
    let exact = job.keys_for_exact_scores().into_iter().filter(|_| job.shingle.short != Short::Empty);
    let set: Vec<String> = exact.chain(candidates).map(str::to_owned).collect();
    job.low_recall().map(|text| risk(RiskKind::LowRecall, text, None, &set))
}

fn too_many_pairs(job: &Job, forecast: &Forecast) -> Option<Risk> {
    let (pairs, most) = (forecast.pairs, job.output.max_pairs);
    (pairs.high > most).then(|| {
        let text = format!(
            "{} pairs are expected, and as many as {} are possible: a run that would write more than output.max_pairs, which is {most}, \
             ends before it does",
            pairs.value, pairs.high
        );
        let set = ["output.expand=star".to_owned(), format!("output.max_pairs={}", pairs.high)];
        risk(RiskKind::TooManyPairs, text, None, &set)
    })
}

fn little_disk(job: &Job, forecast: &Forecast) -> Option<Risk> {
    let folder = std::path::absolute(&job.output.url).ok()?;
    let there: PathBuf = folder.ancestors().find(|folder| folder.is_dir())?.to_owned();
    let free = machine::free_bytes(&there)?;
    let needed = forecast.most_disk_bytes;
    (needed.high > free).then(|| {
        let text = format!(
            "the run needs about {} MiB of disk at once, {} MiB at most, and the disk of {} has {} MiB free",
            needed.value >> 20,
            needed.high >> 20,
            there.display(),
            free >> 20
        );
        let set = ["output.keep=none".to_owned(), "output.expand=star".to_owned()];
        risk(RiskKind::LittleDisk, text, None, &set)
    })
}

fn little_memory(forecast: &Forecast) -> Option<Risk> {
    let (peak, there) = (forecast.peak_memory_bytes?, machine::memory()?);
    (peak.high > there).then(|| {
        let text = format!(
            "the process may need {} MiB of memory, and this machine or its container has {} MiB",
            peak.high >> 20,
            there >> 20
        );
        risk(RiskKind::LittleMemory, text, None, &["engine.memory=25%".to_owned()])
    })
}
