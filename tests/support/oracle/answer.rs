//! The pairs and clusters that a run must write: every two documents are compared, and clusters are walked.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};

use xxhash_rust::xxh3::xxh3_64;

use super::corpus::Sorted;
use super::decisions::Decisions;
use super::losses::{Losses, losses};
use super::settings::{From, Settings};
use super::sketch::{Functions, buckets, kept, number};
use crate::support::walk::least_reachable;

/// A document by its side and its id: of two documents of one id, the known one is that of a second source.
pub type Name = (bool, String);

/// The data of a document that the program may use.
#[derive(Debug, Clone, Default)]
pub struct Document {
    pub set: BTreeSet<u64>,
    pub signature: Vec<u32>,
    pub buckets: BTreeSet<u64>,
    pub group: Option<&'static str>,
    pub year: Option<i64>,
    pub run: usize,
    /// Its place among reference documents and new ones: the least represents others.
    pub place: usize,
}

pub type Documents = BTreeMap<Name, Document>;

/// Adds the documents of a source that can be compared; returns all of their shingles, in the order of the dictionary.
pub fn add(
    documents: &mut Documents,
    sorted: &Sorted,
    settings: &Settings,
    second: bool,
    run: usize,
) -> Vec<Vec<u8>> {
    let texts: BTreeSet<&Vec<u8>> = sorted.compared.iter().flat_map(|(_, shingles)| shingles).collect();
    let mut dictionary: Vec<(u64, Vec<u8>)> =
        texts.into_iter().map(|text| (xxh3_64(text), text.clone())).collect();
    dictionary.sort();
    let functions = Functions::new(settings, dictionary.len());
    for (text, shingles) in &sorted.compared {
        let set: BTreeSet<u64> =
            shingles.iter().map(|shingle| number(shingle, settings.hash, &dictionary)).collect();
        let minima = functions.signature(&set.iter().copied().collect::<Vec<_>>());
        let signature: Vec<u32> = minima.into_iter().map(|minimum| kept(minimum, settings)).collect();
        let buckets = buckets(&signature, settings).into_iter().collect();
        let group = text.group.filter(|_| settings.compare.is_some());
        // A second source carries no columns.
        let year = text.year.filter(|_| !second);
        let place = if settings.from == From::TwoSources { usize::from(!second) } else { run };
        let document = Document { set, signature, buckets, group, year, run, place };
        documents.insert((second, text.id.clone().unwrap()), document);
    }
    dictionary.into_iter().map(|(_, shingle)| shingle).collect()
}

#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub jaccard: f64,
    pub estimate: f64,
    pub containments: (f64, f64),
    pub shared: u64,
    pub shingles: (u64, u64),
    pub shared_bands: u64,
    pub groups: (Option<String>, Option<String>),
    pub decision: Option<String>,
}

/// Pairs by (a, b): the smaller id first, and a new document before a known one.
pub type Pairs = BTreeMap<(Name, Name), Pair>;

/// The similarity of two documents that are a pair, by the smaller name first.
pub type Edges = BTreeMap<(Name, Name), f64>;

/// A row of `clusters`: all documents of the cluster, the one that represents it, the similarity with that, and the least one on the best
/// way to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub cluster: BTreeSet<Name>,
    pub representative: Name,
    pub jaccard: Option<f64>,
    pub weakest: Option<f64>,
}

pub struct Answer {
    pub pairs: Pairs,
    pub written: Pairs,
    pub clusters: BTreeMap<Name, Row>,
    /// Documents that represent a cluster, less the clusters that pairs connect.
    pub chained: usize,
    /// The clusters at each of `clusters.thresholds`.
    pub levels: Vec<(f64, BTreeMap<Name, Row>)>,
    pub losses: Losses,
    /// Different shingle sets among the new documents.
    pub sets: usize,
}

/// The answer of run number `run` over `documents`. Documents of earlier runs or of a second source are reference documents.
pub fn answer(documents: &Documents, run: usize, settings: &Settings) -> Answer {
    let is_new = |name: &Name| !name.0 && documents[name].run == run;
    let meet = meeting(documents, settings);
    let (mut pairs, mut edges) = (Pairs::new(), Edges::new());
    let all: Vec<(&Name, &Document)> = documents.iter().collect();
    for (at, (x, of_x)) in all.iter().enumerate() {
        for (y, of_y) in &all[at + 1..] {
            // The run that read the later one found the pair, unless that run reads a second source.
            let news = usize::from(is_new(x)) + usize::from(is_new(y));
            let is_same =
                |(a, b, same): &(Name, Name, bool)| *same && (a == *x && b == *y || a == *y && b == *x);
            let named = settings.decisions.iter().flat_map(|decisions| &decisions.0).any(is_same);
            if x.0 && y.0 || news == 2 && settings.new_old && !named {
                continue;
            }
            let (a, of_a, b, of_b) = if is_new(x) { (x, of_x, y, of_y) } else { (y, of_y, x, of_x) };
            let mut pair = pair(of_a, of_b, settings);
            let judge = |decisions: &Decisions| decisions.verdict(x, y);
            let verdict = settings.decisions.as_ref().and_then(judge);
            pair.decision = verdict.map(|same| if same { "same" } else { "different" }.to_owned());
            if named || is_similar(of_a, of_b, &pair, settings, &meet) {
                if verdict != Some(false) {
                    edges.insert(((*x).clone(), (*y).clone()), pair.jaccard);
                }
                if news > 0 {
                    pairs.insert(((*a).clone(), (*b).clone()), pair);
                }
            }
        }
    }
    let written = written(documents, &pairs, &is_new, settings);
    let with_new = |edges: &Edges, settings: &Settings| -> Vec<Vec<Name>> {
        let clusters = clusters(documents, edges, settings);
        clusters.into_iter().filter(|cluster| cluster.iter().any(is_new)).collect()
    };
    let own = with_new(&edges, settings);
    let connected = with_new(&edges, &Settings { representative: false, ..settings.clone() });
    let levels = settings.thresholds.iter().map(|&threshold| {
        let strong = edges.iter().filter(|(_, jaccard)| **jaccard >= threshold);
        let strong = strong.map(|(edge, jaccard)| (edge.clone(), *jaccard)).collect();
        (threshold, rows(&with_new(&strong, settings), &strong, settings))
    });
    let new = documents.iter().filter(|(name, _)| is_new(name));
    Answer {
        levels: levels.collect(),
        losses: losses(documents, &edges, &own, run, settings),
        clusters: rows(&own, &edges, settings),
        chained: own.len() - connected.len(),
        sets: new.map(|(_, document)| &document.set).collect::<BTreeSet<_>>().len(),
        pairs,
        written,
    }
}

fn meeting<'a>(
    documents: &'a Documents,
    settings: &'a Settings,
) -> impl Fn(&Document, &Document) -> bool + 'a {
    // A group of equal sets goes through the buckets as one document.
    let mut members: BTreeMap<u64, BTreeSet<&BTreeSet<u64>>> = BTreeMap::new();
    for document in documents.values() {
        for bucket in &document.buckets {
            members.entry(*bucket).or_default().insert(&document.set);
        }
    }
    move |x, y| {
        let is_hot = |bucket: &u64| members[bucket].len() > settings.hot_bucket;
        settings.finds_all()
            || x.buckets.intersection(&y.buckets).any(|bucket| !is_hot(bucket))
            || x.buckets.iter().any(is_hot) && y.buckets.iter().any(is_hot)
    }
}

fn is_similar(
    x: &Document,
    y: &Document,
    pair: &Pair,
    settings: &Settings,
    meet: &impl Fn(&Document, &Document) -> bool,
) -> bool {
    let is_compared = match settings.compare {
        Some("within") => x.group == y.group,
        Some("across") => x.group != y.group,
        _ => true,
    };
    let smaller = x.set.len().min(y.set.len());
    let similarity = if settings.containment { pair.shared as f64 / smaller as f64 } else { pair.jaccard };
    let by_estimate = settings.by_signature || settings.prefilter;
    let reaches = (settings.by_signature || similarity >= settings.threshold)
        && (!by_estimate || pair.estimate >= settings.threshold)
        && pair.shared as usize >= smaller.min(settings.min_shared);
    is_compared && (x.set == y.set || meet(x, y) && reaches)
}

pub fn pair(a: &Document, b: &Document, settings: &Settings) -> Pair {
    let shared = a.set.intersection(&b.set).count();
    let union = a.set.union(&b.set).count();
    let equal = a.signature.iter().zip(&b.signature).filter(|(a, b)| a == b).count();
    let bands = a.signature.chunks(settings.rows).zip(b.signature.chunks(settings.rows)).take(settings.bands);
    let share = equal as f64 / a.signature.len() as f64;
    let chance = if settings.is_short() { 0.5_f64.powi(16) } else { 0.0 };
    Pair {
        jaccard: shared as f64 / union as f64,
        estimate: ((share - chance) / (1.0 - chance)).max(0.0),
        containments: (shared as f64 / a.set.len() as f64, shared as f64 / b.set.len() as f64),
        shared: shared as u64,
        shingles: (a.set.len() as u64, b.set.len() as u64),
        shared_bands: bands.filter(|(a, b)| a == b).count() as u64,
        groups: (a.group.map(str::to_owned), b.group.map(str::to_owned)),
        decision: None,
    }
}

/// The written pairs. Large groups of copies are written as stars.
fn written(
    documents: &Documents,
    pairs: &Pairs,
    is_new: &impl Fn(&Name) -> bool,
    settings: &Settings,
) -> Pairs {
    let is_across = settings.compare == Some("across");
    // Copies are documents of one set, one side and, where groups are compared, one group.
    let by_group = matches!(settings.compare, Some("within" | "across"));
    let is_judged = |name: &Name| settings.decisions.as_ref().is_some_and(|all| all.is_judged(name));
    let copies = |name: &Name| -> Vec<&Name> {
        if is_judged(name) {
            return Vec::new();
        }
        let (of, new) = (&documents[name], is_new(name));
        let same = |other: &Document| other.set == of.set && (!by_group || other.group == of.group);
        let is_copy =
            |(name, other): &(&Name, &Document)| is_new(name) == new && same(other) && !is_judged(name);
        documents.iter().filter(is_copy).map(|(name, _)| name).collect()
    };
    let is_large = |copies: &[&Name]| {
        let most = if settings.star { 1 } else { settings.max_expand };
        !is_across && most > 0 && copies.len() > most
    };
    let is_least = |name: &Name, copies: &[&Name]| copies.iter().all(|copy| name.1 <= copy.1);
    let is_written = |x: &Name, y: &Name| {
        let (of_x, of_y) = (copies(x), copies(y));
        if of_x.contains(&y) {
            return !is_large(&of_x) || is_least(x, &of_x) || is_least(y, &of_x);
        }
        let shown = (!is_large(&of_x) || is_least(x, &of_x)) && (!is_large(&of_y) || is_least(y, &of_y));
        // A new copy is not a pair with the least new one, so it is written with the least known one.
        let alone = |name: &Name, other: &Name, others: &[&Name]| {
            settings.new_old && is_new(name) && !is_new(other) && is_least(other, others)
        };
        shown || alone(x, y, &of_y) || alone(y, x, &of_x)
    };
    let written = pairs.iter().filter(|((x, y), _)| is_written(x, y));
    written.map(|(ids, pair)| (ids.clone(), pair.clone())).collect()
}

fn prefer(by: &str, (x, of_x): (&Name, &Document), (y, of_y): (&Name, &Document)) -> Ordering {
    match by {
        "reference" => of_x.place.cmp(&of_y.place),
        "length desc" => of_y.set.len().cmp(&of_x.set.len()),
        "length asc" => of_x.set.len().cmp(&of_y.set.len()),
        "id" => x.1.cmp(&y.1),
        "id desc" => y.1.cmp(&x.1),
        "year" => (of_x.year.is_none(), of_x.year).cmp(&(of_y.year.is_none(), of_y.year)),
        "year desc" => {
            (of_x.year.is_none(), Reverse(of_x.year)).cmp(&(of_y.year.is_none(), Reverse(of_y.year)))
        }
        "group in (s, n)" => {
            // All other groups come behind these, and no group last.
            let place = |of: &Document| {
                of.group.map_or(3, |group| ["s", "n"].iter().position(|one| *one == group).unwrap_or(2))
            };
            place(of_x).cmp(&place(of_y))
        }
        other => unreachable!("no preference {other}"),
    }
}

/// The clusters of these edges, each with its documents as `clusters.keep` wants them: the first one represents it.
pub fn clusters(documents: &Documents, edges: &Edges, settings: &Settings) -> Vec<Vec<Name>> {
    let list = settings.keep.trim_matches(['[', ']', '\'']);
    let mut preferences: Vec<&str> =
        if list.is_empty() { vec!["length desc"] } else { list.split("', '").collect() };
    if !preferences.contains(&"reference") {
        preferences.insert(0, "reference");
    }
    preferences.push("id");
    let paired: BTreeSet<&Name> = edges.keys().flat_map(|(x, y)| [x, y]).collect();
    let mut order: Vec<&Name> = paired.into_iter().collect();
    order.sort_by(|x, y| {
        let by = |by: &&str| prefer(by, (x, &documents[*x]), (y, &documents[*y]));
        preferences.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let connected = least_reachable(edges.keys().cloned());
    let mut clusters: Vec<Vec<Name>> = Vec::new();
    let units = settings.decisions.as_ref().map(Decisions::units).unwrap_or_default();
    let unit = |name: &Name| units.get(name).unwrap_or(name).clone();
    for name in order {
        // The first of the documents that are the same decides for the others.
        let first = |cluster: &&mut Vec<Name>| cluster.iter().any(|other| unit(other) == unit(name));
        if let Some(cluster) = clusters.iter_mut().find(first) {
            cluster.push(name.clone());
            continue;
        }
        // A representative takes all that it is a pair with, unless one before it did.
        let joins = |cluster: &&mut Vec<Name>| match settings.representative {
            true => similarity(edges, name, &cluster[0]).is_some(),
            false => connected[name] == connected[&cluster[0]],
        };
        match clusters.iter_mut().find(joins) {
            Some(cluster) => cluster.push(name.clone()),
            None => clusters.push(vec![name.clone()]),
        }
    }
    clusters
}

pub fn rows(clusters: &[Vec<Name>], edges: &Edges, settings: &Settings) -> BTreeMap<Name, Row> {
    let connected = least_reachable(edges.keys().cloned());
    let mut parts: BTreeMap<&Name, Edges> = BTreeMap::new();
    for (edge, jaccard) in edges {
        parts.entry(&connected[&edge.0]).or_default().insert(edge.clone(), *jaccard);
    }
    let mut rows = BTreeMap::new();
    for cluster in clusters {
        let representative = &cluster[0];
        let strengths = strengths(&parts[&connected[representative]], representative);
        for name in cluster {
            let row = Row {
                cluster: cluster.iter().cloned().collect(),
                representative: representative.clone(),
                jaccard: similarity(edges, name, representative),
                weakest: (!settings.representative).then(|| strengths[name]),
            };
            rows.insert(name.clone(), row);
        }
    }
    rows
}

/// The least similarity on the best way from `first` to each document: no better way is found until nothing changes.
fn strengths<'a>(edges: &'a Edges, first: &'a Name) -> BTreeMap<&'a Name, f64> {
    let mut strengths = BTreeMap::from([(first, 1.0)]);
    loop {
        let before = strengths.clone();
        for ((x, y), &jaccard) in edges {
            for (from, to) in [(x, y), (y, x)] {
                let Some(path) = strengths.get(from).map(|strength: &f64| strength.min(jaccard)) else {
                    continue;
                };
                let best = strengths.entry(to).or_insert(path);
                *best = best.max(path);
            }
        }
        if strengths == before {
            return strengths;
        }
    }
}

/// How similar two documents are, if they are a pair; a document is wholly similar to itself.
pub fn similarity(edges: &Edges, x: &Name, y: &Name) -> Option<f64> {
    if x == y { Some(1.0) } else { edges.get(&(x.min(y).clone(), x.max(y).clone())).copied() }
}
