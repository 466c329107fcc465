//! Which documents stay, by plain code: every two documents are compared.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

use super::{Case, Mode};
use crate::support::{strings, table};

/// A document with its shingles.
#[derive(Debug, Clone)]
pub struct Sided {
    pub id: String,
    pub reference: bool,
    pub group: Option<&'static str>,
    pub text: String,
    pub shingles: BTreeSet<String>,
}

/// A row of the table spared.
#[derive(Debug, Clone, PartialEq)]
pub struct Spared {
    pub representative: String,
    pub jaccard: Option<f64>,
    pub containment: Option<f64>,
    pub reason: String,
    pub lost: Option<u64>,
}

/// What is kept and lost.
#[derive(Debug, Default)]
pub struct Expected {
    pub spared: BTreeMap<(String, bool), Spared>,
    /// The documents of the table spared_copies, with those that stay instead.
    pub copies: BTreeMap<(String, bool), (String, bool)>,
    /// The ids of the source's documents that go, sorted.
    pub removed: Vec<String>,
    pub lossy: u64,
    pub gone: u64,
}

/// A document, as numbers of shingles.
struct Node {
    id: String,
    reference: bool,
    shingles: BTreeSet<u64>,
}

fn shared(a: &Node, b: &Node) -> usize {
    let (small, large) = if a.shingles.len() < b.shingles.len() { (a, b) } else { (b, a) };
    small.shingles.iter().filter(|shingle| large.shingles.contains(shingle)).count()
}

fn jaccard(a: &Node, b: &Node) -> f64 {
    let shared = shared(a, b);
    shared as f64 / (a.shingles.len() + b.shingles.len() - shared) as f64
}

pub fn expected(documents: &[Sided], case: &Case, contained: Option<f64>) -> Expected {
    // In the order in which they are wanted.
    let mut compared: Vec<&Sided> = documents.iter().filter(|d| !d.shingles.is_empty()).collect();
    let (len, first) = (|d: &Sided| d.shingles.len(), |d: &Sided| !d.reference);
    match case.keep {
        "[]" => compared.sort_by_key(|d| (first(d), Reverse(len(d)), d.id.clone())),
        "['length asc']" => compared.sort_by_key(|d| (first(d), len(d), d.id.clone())),
        "['length asc', 'id', 'reference']" => compared.sort_by_key(|d| (len(d), d.id.clone(), first(d))),
        "['id', 'reference']" => compared.sort_by_key(|d| (d.id.clone(), first(d))),
        _ => compared.sort_by_key(|d| (Reverse(len(d)), d.id.clone(), first(d))),
    }
    let mut numbers = BTreeMap::new();
    for shingle in compared.iter().flat_map(|d| &d.shingles) {
        let next = numbers.len() as u64;
        numbers.entry(shingle).or_insert(next);
    }
    let nodes: Vec<Node> = compared
        .iter()
        .map(|d| Node {
            id: d.id.clone(),
            reference: d.reference,
            shingles: d.shingles.iter().map(|shingle| numbers[shingle]).collect(),
        })
        .collect();
    let are_compared = |a: usize, b: usize| {
        let (a, b) = (compared[a], compared[b]);
        match case.mode {
            Mode::Plain | Mode::Daily => true,
            Mode::Within => a.group == b.group,
            Mode::Across => a.group != b.group,
            Mode::Second => !(a.reference && b.reference),
            Mode::SecondAlone => a.reference != b.reference,
        }
    };
    let mut pairs = BTreeSet::new();
    for a in 0..nodes.len() {
        for b in a + 1..nodes.len() {
            if are_compared(a, b) && jaccard(&nodes[a], &nodes[b]) >= case.threshold {
                pairs.insert((a, b));
            }
        }
    }
    let clusters = match case.by_representative {
        true => by_representatives(nodes.len(), &pairs),
        false => by_components(nodes.len(), &pairs),
    };
    let daily = case.mode == Mode::Daily;
    decide(&nodes, &pairs, clusters, daily, contained)
}

/// The same of an output that keeps shingles and has all pairs, by its tables pairs and documents; only which document of a cluster
/// stays is taken from its table clusters.
pub fn of_output(output: &Path, contained: Option<f64>) -> Expected {
    let documents = table(output, "documents");
    let lists = documents.column_by_name("shingles").unwrap().as_list::<i32>().clone();
    let ids = strings(&documents, "id");
    let nodes: Vec<Node> = (0..documents.num_rows())
        .map(|row| {
            let shingles = lists.value(row).as_primitive::<Int64Type>().values().to_vec();
            let shingles = shingles.into_iter().map(i64::cast_unsigned).collect();
            Node { id: ids[row].clone(), reference: false, shingles }
        })
        .collect();
    let places: BTreeMap<&String, usize> = ids.iter().zip(0..).collect();
    let pairs = table(output, "pairs");
    let ends = strings(&pairs, "id_a").into_iter().zip(strings(&pairs, "id_b"));
    let pairs = ends.map(|(a, b)| (places[&a].min(places[&b]), places[&a].max(places[&b]))).collect();
    let rows = table(output, "clusters");
    let represents = rows.column_by_name("representative").unwrap().as_boolean().clone();
    let mut clusters: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (row, (id, cluster)) in strings(&rows, "id").iter().zip(strings(&rows, "cluster_id")).enumerate() {
        let members = clusters.entry(cluster).or_default();
        match represents.value(row) {
            true => members.insert(0, places[id]),
            false => members.push(places[id]),
        }
    }
    for members in clusters.values_mut() {
        members[1..].sort_by_key(|&member| &nodes[member].id);
    }
    decide(&nodes, &pairs, clusters.into_values().collect(), false, contained)
}

/// The clusters, each with its first document first.
fn by_components(count: usize, pairs: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
    let mut least: Vec<usize> = (0..count).collect();
    loop {
        let before = least.clone();
        for &(a, b) in pairs {
            let both = least[a].min(least[b]);
            (least[a], least[b]) = (both, both);
        }
        if least == before {
            break;
        }
    }
    members(&least, pairs)
}

/// Each joins the first representative that it is paired with, or becomes one.
fn by_representatives(count: usize, pairs: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
    let mut of: Vec<usize> = Vec::with_capacity(count);
    for node in 0..count {
        of.push(
            (0..node).find(|&other| of[other] == other && pairs.contains(&(other, node))).unwrap_or(node),
        );
    }
    members(&of, pairs)
}

fn members(of: &[usize], pairs: &BTreeSet<(usize, usize)>) -> Vec<Vec<usize>> {
    let paired: BTreeSet<usize> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
    let mut clusters: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for node in paired {
        clusters.entry(of[node]).or_default().push(node);
    }
    clusters.into_values().collect()
}

fn decide(
    nodes: &[Node],
    pairs: &BTreeSet<(usize, usize)>,
    clusters: Vec<Vec<usize>>,
    daily: bool,
    contained: Option<f64>,
) -> Expected {
    let mut expected = Expected::default();
    for cluster in clusters {
        let Some((&first, others)) = cluster.split_first() else { continue };
        let has_new = cluster.iter().any(|&node| !nodes[node].reference);
        if daily && !has_new {
            continue;
        }
        let kept = &nodes[first];
        let mut stay: BTreeSet<u64> = kept.shingles.clone();
        let mut lost: BTreeSet<u64> = BTreeSet::new();
        let mut others_stay: Vec<usize> = Vec::new();
        for &other in others {
            let node = &nodes[other];
            let shared = shared(node, kept);
            let share = shared as f64 / node.shingles.len() as f64;
            let is_pair = pairs.contains(&(first.min(other), first.max(other)));
            let reason = match contained {
                Some(_) if !is_pair => Some("chain"),
                Some(least) if share < least => Some("not_contained"),
                _ => None,
            };
            // Of a second source nothing is removed, so nothing is spared.
            if node.reference && !daily {
                others_stay.push(other);
                stay.extend(&node.shingles);
                continue;
            }
            let Some(reason) = reason else {
                if !node.reference {
                    expected.removed.push(node.id.clone());
                    expected.lossy += u64::from(50 * (node.shingles.len() - shared) > node.shingles.len());
                    lost.extend(&node.shingles);
                }
                continue;
            };
            // The first of several copies is spared.
            let is_copy = |&of: &usize| {
                pairs.contains(&(of.min(other), of.max(other))) && nodes[of].shingles == node.shingles
            };
            if let Some(&of) = others_stay.iter().find(|of| is_copy(of)) {
                let copy = (node.id.clone(), node.reference);
                expected.copies.insert(copy, (nodes[of].id.clone(), nodes[of].reference));
                if !node.reference {
                    expected.removed.push(node.id.clone());
                }
                continue;
            }
            others_stay.push(other);
            stay.extend(&node.shingles);
            // The texts of an earlier output are not read to say more of its chains.
            let known = is_pair || !node.reference;
            let spared = Spared {
                representative: kept.id.clone(),
                jaccard: known.then(|| jaccard(node, kept)),
                containment: known.then_some(share),
                reason: reason.to_owned(),
                lost: known.then_some((node.shingles.len() - shared) as u64),
            };
            expected.spared.insert((node.id.clone(), node.reference), spared);
        }
        expected.gone += lost.difference(&stay).count() as u64;
    }
    expected.removed.sort();
    expected
}
