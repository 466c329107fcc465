//! The rows that a run must write, by comparing all with all.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use super::Files;
use super::settings::{Method, Settings};
use super::sketch::{Functions, buckets, kept, number, shingles};

/// A row of `pairs`.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub ids: (String, String),
    pub jaccard: f64,
    pub estimate: f64,
    pub containments: (f64, f64),
    pub shared: u64,
    pub shingles: (u64, u64),
    pub shared_bands: u16,
}

impl Eq for Pair {}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.ids.cmp(&other.ids)
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A row of `clusters`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cluster {
    pub id: String,
    pub cluster_id: String,
    pub size: u64,
    pub representative: bool,
}

/// A row of `rejects`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reject {
    pub source: String,
    pub position: u64,
    pub id: String,
    pub reason: String,
}

/// The rows of every table, sorted.
#[derive(Default)]
pub struct Answer {
    pub pairs: Vec<Pair>,
    pub clusters: Vec<Cluster>,
    pub rejects: Vec<Reject>,
    /// Signature and shingles by id.
    pub documents: BTreeMap<String, (Vec<u32>, Vec<u64>)>,
    /// Documents that normalisation makes empty, by source and position: they may be called empty, or too short.
    pub emptied: BTreeSet<(String, u64)>,
    /// Distinct shingles of the collection.
    pub dictionary: usize,
}

/// The id of a document, and its shingles.
type Cut = (String, BTreeSet<Vec<u8>>);

/// A document that is compared.
struct Compared {
    id: String,
    set: BTreeSet<u64>,
    signature: Vec<u32>,
    buckets: BTreeSet<u64>,
}

/// The rows that a run over these files must write; the id of a document that is too short to be compared, where others have it
/// too.
pub fn answer(files: &Files, settings: &Settings) -> Result<Answer, String> {
    let mut answer = Answer::default();
    let cut = cut(files, settings, &mut answer)?;
    let texts: BTreeSet<&Vec<u8>> = cut.iter().flat_map(|(_, shingles)| shingles).collect();
    let mut dictionary: Vec<(u64, Vec<u8>)> =
        texts.into_iter().map(|text| (xxh3_64(text), text.clone())).collect();
    dictionary.sort();
    answer.dictionary = dictionary.len();
    let functions = Functions::new(settings, dictionary.len());
    let compared: Vec<Compared> = cut
        .into_iter()
        .map(|(id, shingles)| {
            let set: BTreeSet<u64> =
                shingles.iter().map(|shingle| number(shingle, settings.hash, &dictionary)).collect();
            let minima = functions.signature(&set.iter().copied().collect::<Vec<_>>());
            let signature: Vec<u32> = minima.into_iter().map(|minimum| kept(minimum, settings)).collect();
            let buckets = buckets(&signature, settings).into_iter().collect();
            Compared { id, set, signature, buckets }
        })
        .collect();
    for document in &compared {
        let set = document.set.iter().copied().collect();
        answer.documents.insert(document.id.clone(), (document.signature.clone(), set));
    }
    let similar = similar(&compared, settings);
    answer.clusters = clusters(&compared, &similar);
    answer.pairs = shown(&compared, similar, settings);
    Ok(answer)
}

/// The documents that are compared, each with its shingles; the others are rejected.
fn cut(files: &Files, settings: &Settings, answer: &mut Answer) -> Result<Vec<Cut>, String> {
    let (mut cut, mut rejects) = (Vec::new(), Vec::new());
    let mut known: BTreeMap<String, bool> = BTreeMap::new();
    for (source, documents) in files {
        for (position, document) in (0..).zip(documents) {
            let mut reject = |reason: &str| {
                let id = document.id.clone().unwrap_or_else(|| "<null>".into());
                rejects.push(Reject { source: source.clone(), position, id, reason: reason.into() });
            };
            let Some(id) = &document.id else {
                reject("missing_id");
                continue;
            };
            let Some(text) = &document.text else {
                reject("missing_text");
                continue;
            };
            if text.trim_matches([' ', '\t', '\r', '\n']).is_empty() {
                reject("empty_text");
                continue;
            }
            let (normalized, shingles) = shingles(text, settings);
            if normalized.trim().is_empty() {
                answer.emptied.insert((source.clone(), position));
            }
            match known.get(id) {
                // Whether such a document comes before others is not what is tested here.
                Some(false) => return Err(id.clone()),
                Some(true) if shingles.is_empty() => return Err(id.clone()),
                Some(true) => {
                    reject("duplicate_id");
                    continue;
                }
                None => known.insert(id.clone(), !shingles.is_empty()),
            };
            if shingles.is_empty() {
                reject("too_short");
            } else {
                cut.push((id.clone(), shingles));
            }
        }
    }
    rejects.sort();
    answer.rejects = rejects;
    Ok(cut)
}

/// Every pair that the method finds and that reaches the threshold, whatever is then shown of them.
fn similar(compared: &[Compared], settings: &Settings) -> Vec<(usize, usize, Pair)> {
    // A group of equal sets goes through the buckets as one document.
    let mut members: BTreeMap<u64, BTreeSet<&BTreeSet<u64>>> = BTreeMap::new();
    for document in compared {
        for bucket in &document.buckets {
            members.entry(*bucket).or_default().insert(&document.set);
        }
    }
    let is_hot = |bucket: &u64| members[bucket].len() as u64 > settings.hot_bucket;
    let has_hot = |document: &Compared| document.buckets.iter().any(is_hot);
    let meet = |a: &Compared, b: &Compared| match settings.method {
        Method::All | Method::Prefix => true,
        Method::Lsh => {
            a.buckets.intersection(&b.buckets).any(|bucket| !is_hot(bucket)) || has_hot(a) && has_hot(b)
        }
    };
    let mut found = Vec::new();
    for (i, a) in compared.iter().enumerate() {
        for (j, b) in compared.iter().enumerate() {
            if a.id >= b.id {
                continue;
            }
            let pair = pair(a, b, settings);
            let by_estimate = settings.by_signature || settings.prefilter;
            let reaches = (settings.by_signature || pair.jaccard >= settings.threshold)
                && (!by_estimate || pair.estimate >= settings.threshold);
            if a.set == b.set || meet(a, b) && reaches {
                found.push((i, j, pair));
            }
        }
    }
    found
}

fn pair(a: &Compared, b: &Compared, settings: &Settings) -> Pair {
    let shared = a.set.intersection(&b.set).count();
    let union = a.set.union(&b.set).count();
    let equal = a.signature.iter().zip(&b.signature).filter(|(a, b)| a == b).count();
    let bands = |signature: &[u32]| -> Vec<Vec<u32>> {
        signature.chunks(settings.rows).take(settings.bands).map(<[u32]>::to_vec).collect()
    };
    let same_bands = bands(&a.signature).iter().zip(bands(&b.signature)).filter(|(a, b)| *a == b).count();
    let share = equal as f64 / a.signature.len() as f64;
    let chance = if settings.is_short { 0.5_f64.powi(16) } else { 0.0 };
    Pair {
        ids: (a.id.clone(), b.id.clone()),
        jaccard: shared as f64 / union as f64,
        estimate: ((share - chance) / (1.0 - chance)).max(0.0),
        containments: (shared as f64 / a.set.len() as f64, shared as f64 / b.set.len() as f64),
        shared: shared as u64,
        shingles: (a.set.len() as u64, b.set.len() as u64),
        shared_bands: same_bands as u16,
    }
}

/// Of a group of equal sets that is written as a star, the smallest id alone is paired with others.
fn shown(compared: &[Compared], similar: Vec<(usize, usize, Pair)>, settings: &Settings) -> Vec<Pair> {
    let mut groups: BTreeMap<&BTreeSet<u64>, Vec<&str>> = BTreeMap::new();
    for document in compared {
        groups.entry(&document.set).or_default().push(&document.id);
    }
    let is_star = |set: &BTreeSet<u64>| {
        let size = groups[set].len() as u64;
        if settings.star { size > 1 } else { settings.max_expand > 0 && size > settings.max_expand }
    };
    let is_center = |document: &Compared| groups[&document.set].iter().min() == Some(&document.id.as_str());
    let mut shown: Vec<Pair> = similar
        .into_iter()
        .filter(|(i, j, _)| {
            let (a, b) = (&compared[*i], &compared[*j]);
            let visible = |document: &Compared| !is_star(&document.set) || is_center(document);
            if a.set == b.set { visible(a) } else { visible(a) && visible(b) }
        })
        .map(|(_, _, pair)| pair)
        .collect();
    shown.sort();
    shown
}

/// The components of the pairs.
fn clusters(compared: &[Compared], similar: &[(usize, usize, Pair)]) -> Vec<Cluster> {
    let mut parents: Vec<usize> = (0..compared.len()).collect();
    fn root(parents: &[usize], mut at: usize) -> usize {
        while parents[at] != at {
            at = parents[at];
        }
        at
    }
    for (i, j, _) in similar {
        let (i, j) = (root(&parents, *i), root(&parents, *j));
        parents[i] = j;
    }
    let mut members: BTreeMap<usize, Vec<&Compared>> = BTreeMap::new();
    for (at, document) in compared.iter().enumerate() {
        members.entry(root(&parents, at)).or_default().push(document);
    }
    let mut clusters = Vec::new();
    for members in members.values().filter(|members| members.len() > 1) {
        let least = members.iter().map(|member| &member.id).min().unwrap();
        let most = members.iter().map(|member| member.set.len()).max().unwrap();
        let longest = members.iter().filter(|member| member.set.len() == most).map(|member| &member.id).min();
        clusters.extend(members.iter().map(|member| Cluster {
            id: member.id.clone(),
            cluster_id: least.clone(),
            size: members.len() as u64,
            representative: Some(&member.id) == longest,
        }));
    }
    clusters.sort();
    clusters
}
