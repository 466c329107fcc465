//! Finds risks of a job, with examples from the sample, and passages that many texts in the sample share.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::path::PathBuf;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

use super::sample::{SourceSample, beginning};
use super::view::{Forecast, Risk, RiskKind, Template};
use crate::error::Result;
use crate::error::counts::either;
use crate::job::{Job, Shingle, ShingleHash, Short};
use crate::kernel::text::cut::CutScratch;
use crate::kernel::text::shingles::{shingle_texts, shingles_in_order};
use crate::machine;

/// A shingle is a risk if at least this share of documents contains it.
const FREQUENT: f64 = 0.05;
/// The suggested `shingle.max_frequency` is this fraction of the lowest share among the passages that are a risk.
const BELOW: f64 = 0.5;
/// The lowest suggestion for `shingle.max_frequency`.
const LEAST: f64 = 0.001;
/// A document with fewer shingles than this is short.
const SHORT: usize = 4;
/// Short documents are a risk if they are at least this share of the documents.
const MANY_SHORT: f64 = 0.05;
/// A document is large if its size exceeds this share of the memory.
const LARGE: f64 = 0.01;
/// Bands are loose if there are more candidates per pair than this, and more per document than [`OF_DOCUMENT`].
const OF_PAIR: f64 = 20.0;
const OF_DOCUMENT: f64 = 2.0;
const EXAMPLE: usize = 100;

#[derive(Default)]
struct SampleTexts {
    documents: ShingleCounts,
    short: u64,
    short_example: Option<String>,
}

pub(super) fn risks(
    job: &Job,
    sample: &SourceSample,
    forecast: &Forecast,
) -> Result<(Vec<Risk>, Vec<Template>)> {
    let shingle = Shingle { hash: ShingleHash::Dictionary, ..job.shingle.clone() };
    let mut texts = SampleTexts::count(&sample.texts, &shingle)?;
    if let Some(share) = job.max_frequency {
        // The run ignores shingles that are in a larger share of the documents.
        let most = share * sample.texts.len() as f64;
        texts.documents.retain(|_, documents| *documents as f64 <= most);
    }
    let templates = templates(&sample.texts, &shingle, &texts.documents)?;
    let found = [
        texts.frequent(sample.texts.len(), &templates),
        texts.short(sample.texts.len(), &shingle),
        large(job, sample),
        many_candidates(job, forecast),
        low_recall(job),
        too_many_pairs(job, forecast),
        little_disk(job, forecast),
        little_memory(forecast),
    ];
    Ok((found.into_iter().flatten().collect(), templates))
}

fn risk(kind: RiskKind, text: String, example: Option<String>, set: &[String]) -> Risk {
    Risk { kind, text, example, set: set.to_vec() }
}

/// Rounds a share below 1 down to 1, 2 or 5 times a power of ten.
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

    /// Returns a risk if many documents share a shingle, with the most frequent passage as its example.
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
            "{of_document:.0} candidates are expected for each document, and one in {of_pair:.0} is a pair: {} {} loose for a threshold of {}",
            job.lsh.bands_of_rows(),
            either(job.lsh.bands as u64, "is", "are"),
            job.score.threshold
        );
        let set = ["candidates.method=prefix".to_owned(), "lsh.target_recall=0.95".to_owned()];
        risk(RiskKind::ManyCandidates, text, None, &set)
    })
}

fn low_recall(job: &Job) -> Option<Risk> {
    let method = job.candidates.method;
    let prefix = (!method.finds_all_pairs()).then_some("candidates.method=prefix");
    let candidates = [prefix, method.uses_buckets().then_some("lsh.target_recall=0.99")];
    // Each suggestion must be valid alone. Exact scores are not suggested if empty documents are compared, because they would need
    // several keys.
    let exact = job.keys_for_exact_scores().into_iter().filter(|_| job.shingle.short != Short::Empty);
    let set: Vec<String> = exact.chain(candidates.into_iter().flatten()).map(str::to_owned).collect();
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

/// Passages are formed from this number of the most frequent shingles.
const SHINGLES: usize = 50;
/// The maximum number of these shingles, if others are as frequent as the last one.
const MOST_SHINGLES: usize = 2_000;
/// Only shingles in at least this number of documents are joined into passages.
const FEWEST: u64 = 20;
/// Only shingles in at least this share of the documents are joined into passages.
const LEAST_SHARE: f64 = 0.01;
const TEXT: usize = 400;

/// The number of documents that contain a shingle, by the hash of the shingle's text.
type ShingleCounts = HashMap<u64, u64, BuildHasherDefault<Xxh3Default>>;

/// Joins the most frequent shingles in `texts` into passages, in descending order of the number of documents. `counts` contains the
/// number of documents for each shingle.
fn templates(texts: &[String], shingle: &Shingle, counts: &ShingleCounts) -> Result<Vec<Template>> {
    let counted = texts.len() as u64;
    let least = FEWEST.max((LEAST_SHARE * counted as f64).ceil() as u64);
    let mut frequent: Vec<u64> = counts.values().copied().filter(|documents| *documents >= least).collect();
    frequent.sort_unstable_by(|a, b| b.cmp(a));
    let Some(&last) = frequent.get(SHINGLES - 1).or(frequent.last()) else { return Ok(Vec::new()) };
    let is_listed = |documents: u64| documents >= last && documents >= least;
    let mut left: HashSet<u64> =
        counts.iter().filter(|(_, documents)| is_listed(**documents)).map(|(hash, _)| *hash).collect();
    if left.len() > MOST_SHINGLES {
        left.retain(|hash| counts.get(hash).is_some_and(|documents| *documents > last));
    }
    let (mut found, mut scratch) = (Vec::new(), CutScratch::default());
    for text in texts {
        if left.is_empty() {
            break;
        }
        let shingles = shingles_in_order(text, shingle, &mut scratch)?;
        passages(&shingles, counts, counted, &mut left, &mut found);
    }
    // The order by text makes the list reproducible.
    found.sort_by(|a: &Template, b| b.documents.cmp(&a.documents).then_with(|| a.text.cmp(&b.text)));
    Ok(found)
}

/// Adds the passages in a document, which are runs of adjacent shingles in `left`, as long as possible. Removes these shingles from
/// `left`.
fn passages(
    shingles: &[String],
    counts: &ShingleCounts,
    counted: u64,
    left: &mut HashSet<u64>,
    found: &mut Vec<Template>,
) {
    let hashes: Vec<u64> = shingles.iter().map(|shingle| xxh3_64(shingle.as_bytes())).collect();
    let taken: BTreeSet<u64> = hashes.iter().copied().filter(|hash| left.contains(hash)).collect();
    let mut at = 0;
    while at < hashes.len() {
        let length = hashes[at..].iter().take_while(|hash| taken.contains(hash)).count();
        if length == 0 {
            at += 1;
            continue;
        }
        let run = at..at + length;
        at = run.end;
        let own: BTreeSet<u64> =
            hashes[run.clone()].iter().copied().filter(|hash| left.remove(hash)).collect();
        // This passage only repeats shingles of an earlier one in the document.
        if own.is_empty() {
            continue;
        }
        let documents = own.iter().filter_map(|hash| counts.get(hash)).copied().max().unwrap_or_default();
        found.push(Template {
            text: beginning(&joined(&shingles[run]), TEXT),
            shingles: own.len() as u64,
            documents,
            share: documents as f64 / counted.max(1) as f64,
        });
    }
}

/// Joins consecutive shingles into a text without their overlaps.
fn joined(shingles: &[String]) -> String {
    let Some(first) = shingles.first() else { return String::new() };
    let mut text = first.clone();
    for pair in shingles.windows(2) {
        let (before, next) = (&pair[0], &pair[1]);
        let common = before.char_indices().skip(1).map(|(at, _)| before.len() - at);
        let common = common.into_iter().find(|length| next.starts_with(&before[before.len() - length..]));
        match common {
            Some(common) => text.push_str(&next[common..]),
            // Shingles of one unit do not overlap.
            None => text.extend([" ", next]),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| text.to_string()).collect()
    }

    #[test]
    fn shingles_that_follow_each_other_are_one_text() {
        let found = joined(&texts(&["all rights are", "rights are reserved", "are reserved by"]));
        assert_eq!(found, "all rights are reserved by");
        assert_eq!(joined(&texts(&["la la la", "la la la", "la la lo"])), "la la la la lo");
        assert_eq!(joined(&texts(&["né", "él"])), "nél");
        assert_eq!(joined(&[]), "");
    }

    #[test]
    fn runs_of_frequent_shingles_are_passages() {
        let shingles = texts(&["a b", "b c", "c x", "x a", "a b", "b d"]);
        let count = |shingle: &str, documents| (xxh3_64(shingle.as_bytes()), documents);
        let counts: ShingleCounts =
            [count("a b", 30), count("b c", 40), count("b d", 25), count("c x", 1)].into_iter().collect();
        let mut left: HashSet<u64> = ["a b", "b c", "b d"].map(|shingle| xxh3_64(shingle.as_bytes())).into();
        let mut found = Vec::new();
        passages(&shingles, &counts, 80, &mut left, &mut found);
        let found: Vec<_> =
            found.into_iter().map(|one| (one.text, one.shingles, one.documents, one.share)).collect();
        assert_eq!(found, [("a b c".to_owned(), 2, 40, 0.5), ("a b d".to_owned(), 1, 25, 25.0 / 80.0)]);
        assert!(left.is_empty());
    }
}
