//! The brute force: every two documents are compared by plain sets of words, and clusters are walked.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::settings::{Compare, Keep, Settings};
use crate::support::walk::least_reachable;

/// A document by its side and its id: of two documents of one id, the known one is that of a second source.
pub type Name = (bool, String);

/// What the program may know of a document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub set: BTreeSet<String>,
    pub group: Option<&'static str>,
    /// The run that read it.
    pub run: usize,
    /// Its place among reference documents and new ones: the least represents others.
    pub place: usize,
}

pub type Documents = BTreeMap<Name, Document>;

/// The shingles that two documents share, and those of each.
pub type Sizes = (usize, usize, usize);

/// A row of the table of clusters: the cluster by all of its documents, the one that represents it, and how well the two are
/// connected: their similarity, and that on the best way between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub cluster: BTreeSet<Name>,
    pub representative: Name,
    pub jaccard: Option<f64>,
    pub weakest: Option<f64>,
}

/// What a run should write.
pub struct Answer {
    /// Every pair, as (a, b): the smaller id first, and a new document before a known one.
    pub pairs: BTreeMap<(Name, Name), Sizes>,
    /// Those of them that are written.
    pub written: BTreeSet<(Name, Name)>,
    pub rows: BTreeMap<Name, Row>,
    /// Different shingle sets among the new documents.
    pub sets: usize,
}

pub fn jaccard((shared, a, b): Sizes) -> f64 {
    shared as f64 / (a + b - shared) as f64
}

/// The answer of run number `run` over `documents`; those of earlier runs or of a second source are known.
pub fn answer(documents: &Documents, run: usize, settings: &Settings) -> Answer {
    let is_new = |name: &Name| !name.0 && documents[name].run == run;
    let (mut pairs, mut edges) = (BTreeMap::new(), BTreeMap::new());
    let names: Vec<&Name> = documents.keys().collect();
    for (at, x) in names.iter().enumerate() {
        for y in &names[at + 1..] {
            let Some(sizes) = similar(&documents[*x], &documents[*y], settings) else { continue };
            // The run that read the later one found the pair, unless that run reads a second source.
            let (news, is_known) = (usize::from(is_new(x)) + usize::from(is_new(y)), x.0 && y.0);
            if is_known || news == 2 && settings.new_old {
                continue;
            }
            edges.insert(((*x).clone(), (*y).clone()), jaccard(sizes));
            if news > 0 {
                let in_order = is_new(x) && (!is_new(y) || x.1 < y.1);
                let (shared, of_x, of_y) = sizes;
                match in_order {
                    true => pairs.insert(((*x).clone(), (*y).clone()), sizes),
                    false => pairs.insert(((*y).clone(), (*x).clone()), (shared, of_y, of_x)),
                };
            }
        }
    }
    let written = written(documents, &pairs, &is_new, settings);
    let rows = match settings.representative {
        true => greedy(documents, &edges, settings),
        false => components(documents, &edges, settings),
    };
    let with_new = rows.into_iter().filter(|(_, row)| row.cluster.iter().any(is_new)).collect();
    let sets: BTreeSet<_> =
        documents.iter().filter(|(name, _)| is_new(name)).map(|(_, document)| &document.set).collect();
    Answer { pairs, written, rows: with_new, sets: sets.len() }
}

/// What two documents share, if they are compared and similar.
fn similar(x: &Document, y: &Document, settings: &Settings) -> Option<Sizes> {
    let compared = match settings.compare {
        Compare::All => true,
        Compare::Within => x.group == y.group,
        Compare::Across => x.group != y.group,
    };
    let (shared, of_x, of_y) = (x.set.intersection(&y.set).count(), x.set.len(), y.set.len());
    let over = if settings.containment { of_x.min(of_y) } else { of_x + of_y - shared };
    (compared && shared as f64 / over as f64 >= settings.threshold).then_some((shared, of_x, of_y))
}

/// The pairs that are written: all, except for those of large groups of copies, which are written as stars.
fn written(
    documents: &Documents,
    pairs: &BTreeMap<(Name, Name), Sizes>,
    is_new: &impl Fn(&Name) -> bool,
    settings: &Settings,
) -> BTreeSet<(Name, Name)> {
    // Copies are documents of one set, one side and, where groups are compared, one group.
    let copies = |name: &Name| -> Vec<&Name> {
        let (of, new) = (&documents[name], is_new(name));
        let same = |other: &Document| {
            other.set == of.set && (settings.compare == Compare::All || other.group == of.group)
        };
        documents.iter().filter(|(name, other)| is_new(name) == new && same(other)).map(|(n, _)| n).collect()
    };
    let keeps = |x: &Name, y: &Name| {
        let (of_x, of_y) = (copies(x), copies(y));
        let large = |copies: &[&Name]| {
            settings.compare != Compare::Across
                && match settings.star {
                    true => copies.len() > 1,
                    false => settings.max_expand > 0 && copies.len() > settings.max_expand,
                }
        };
        let least = |name: &Name, copies: &[&Name]| copies.iter().all(|copy| name.1 <= copy.1);
        if of_x.contains(&y) {
            return !large(&of_x) || least(x, &of_x) || least(y, &of_x);
        }
        let shown = (!large(&of_x) || least(x, &of_x)) && (!large(&of_y) || least(y, &of_y));
        // A new copy is not a pair with the least new one, so it is written with the least known one.
        let alone = |name: &Name, other: &Name, others: &[&Name]| {
            settings.new_old && is_new(name) && !is_new(other) && least(other, others)
        };
        shown || alone(x, y, &of_y) || alone(y, x, &of_x)
    };
    pairs.keys().filter(|(x, y)| keeps(x, y)).cloned().collect()
}

/// The documents in the order in which they are wanted: by their places, unless the job says when these decide.
fn order<'a>(
    documents: &'a Documents,
    names: impl Iterator<Item = &'a Name>,
    settings: &Settings,
) -> Vec<&'a Name> {
    let mut names: Vec<&Name> = names.collect();
    match settings.keep {
        Keep::Longest => names.sort_by_key(|name| (Reverse(documents[*name].set.len()), &name.1)),
        Keep::LongestThenReference => names.sort_by_key(|name| {
            let document = &documents[*name];
            (Reverse(document.set.len()), document.place, &name.1)
        }),
        Keep::LastId => names.sort_by_key(|name| Reverse(&name.1)),
        Keep::SouthThenNorth => names.sort_by_key(|name| {
            // All other groups come behind these, and no group last.
            let place = documents[*name].group.map_or(3, |group| match group {
                "s" => 0,
                "n" => 1,
                _ => 2,
            });
            (place, &name.1)
        }),
    }
    if settings.keep != Keep::LongestThenReference {
        names.sort_by_key(|name| documents[*name].place);
    }
    names
}

/// Connected documents. Each is connected with the one that represents them by the way whose weakest pair is the strongest.
fn components(
    documents: &Documents,
    edges: &BTreeMap<(Name, Name), f64>,
    settings: &Settings,
) -> BTreeMap<Name, Row> {
    let mut clusters: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
    for (name, least) in least_reachable(edges.keys().cloned()) {
        clusters.entry(least).or_default().insert(name);
    }
    let mut strengths: Vec<f64> = edges.values().copied().collect();
    strengths.sort_by(|a, b| b.total_cmp(a));
    strengths.dedup();
    let levels: Vec<(f64, BTreeMap<Name, Name>)> = strengths
        .into_iter()
        .map(|level| {
            let strong = edges.iter().filter(|(_, jaccard)| **jaccard >= level);
            (level, least_reachable(strong.map(|(edge, _)| edge.clone())))
        })
        .collect();
    let mut rows = BTreeMap::new();
    for cluster in clusters.into_values() {
        let representative = order(documents, cluster.iter(), settings)[0].clone();
        for name in &cluster {
            let together = |roots: &BTreeMap<Name, Name>| {
                roots.contains_key(name) && roots.get(name) == roots.get(&representative)
            };
            let weakest = match *name == representative {
                true => Some(1.0),
                false => levels.iter().find(|(_, roots)| together(roots)).map(|(level, _)| *level),
            };
            let (cluster, representative) = (cluster.clone(), representative.clone());
            let jaccard = similarity(edges, name, &representative);
            rows.insert(name.clone(), Row { cluster, representative, jaccard, weakest });
        }
    }
    rows
}

/// One document after the other: it goes to the first before it that stays and that it is a pair with, or stays.
fn greedy(
    documents: &Documents,
    edges: &BTreeMap<(Name, Name), f64>,
    settings: &Settings,
) -> BTreeMap<Name, Row> {
    let paired: BTreeSet<&Name> = edges.keys().flat_map(|(x, y)| [x, y]).collect();
    let mut stays: Vec<&Name> = Vec::new();
    let mut of: BTreeMap<&Name, &Name> = BTreeMap::new();
    for name in order(documents, paired.into_iter(), settings) {
        let first = stays.iter().find(|stay| similarity(edges, name, stay).is_some()).copied();
        if first.is_none() {
            stays.push(name);
        }
        of.insert(name, first.unwrap_or(name));
    }
    let row = |(name, representative): (&&Name, &&Name)| {
        let members = of.iter().filter(|(_, other)| *other == representative);
        let row = Row {
            cluster: members.map(|(member, _)| (*member).clone()).collect(),
            representative: (*representative).clone(),
            jaccard: similarity(edges, name, representative),
            weakest: None,
        };
        ((*name).clone(), row)
    };
    of.iter().map(row).collect()
}

/// How similar two documents are, if they are a pair; a document is wholly similar to itself.
fn similarity(edges: &BTreeMap<(Name, Name), f64>, x: &Name, y: &Name) -> Option<f64> {
    let key = if x < y { (x.clone(), y.clone()) } else { (y.clone(), x.clone()) };
    if x == y { Some(1.0) } else { edges.get(&key).copied() }
}
