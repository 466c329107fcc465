//! Documents that `clusters.contained` spares, and the text that is lost with removed documents.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Document, Documents, Edges, Name, similarity};
use super::settings::{From, Settings};

#[derive(Debug, Clone, PartialEq)]
pub struct Spared {
    pub representative: String,
    pub jaccard: Option<f64>,
    pub containment: Option<f64>,
    pub reason: String,
    pub lost: Option<u64>,
}

/// Documents that are kept and texts that are lost. A document is named by its id and by whether it is a reference document.
#[derive(Debug, Default)]
pub struct Losses {
    pub spared: BTreeMap<(String, bool), Spared>,
    /// The documents of the table spared_copies, each with the document that stays instead.
    pub copies: BTreeMap<(String, bool), (String, bool)>,
    /// The ids of the source's documents that go, sorted.
    pub removed: Vec<String>,
    pub lossy: u64,
    pub gone: u64,
}

fn shared(a: &Document, b: &Document) -> usize {
    a.set.intersection(&b.set).count()
}

/// Whether a document is different from those before it in a cluster: documents that are the same stand where the first of them stands.
fn is_apart(cluster: &[Name], name: &Name, settings: &Settings) -> bool {
    let Some(decisions) = &settings.decisions else { return false };
    let first = cluster.iter().position(|other| decisions.unit(other) == decisions.unit(name)).unwrap();
    cluster[..first].iter().any(|other| decisions.verdict(other, name) == Some(false))
}

/// The losses of clusters whose first document represents each.
pub fn losses(
    documents: &Documents,
    edges: &Edges,
    clusters: &[Vec<Name>],
    run: usize,
    settings: &Settings,
) -> Losses {
    let mut losses = Losses::default();
    let is_known = |name: &Name| name.0 || documents[name].run < run;
    let called = |name: &Name| (name.1.clone(), is_known(name));
    for cluster in clusters {
        let kept = &documents[&cluster[0]];
        let mut stay: BTreeSet<u64> = kept.set.clone();
        let mut lost: BTreeSet<u64> = BTreeSet::new();
        let mut others_stay: Vec<&Name> = Vec::new();
        for other in &cluster[1..] {
            let document = &documents[other];
            let shared = shared(document, kept);
            let (share, rest) = (shared as f64 / document.set.len() as f64, document.set.len() - shared);
            let is_pair = similarity(edges, &cluster[0], other).is_some();
            let reason = match settings.contained {
                _ if is_apart(cluster, other, settings) => Some("different"),
                Some(_) if !is_pair => Some("chain"),
                Some(least) if share < least => Some("not_contained"),
                _ => None,
            };
            // Nothing of a second source is removed, so nothing is spared.
            if is_known(other) && settings.from == From::TwoSources {
                others_stay.push(other);
                stay.extend(&document.set);
                continue;
            }
            let Some(reason) = reason else {
                if !is_known(other) {
                    losses.removed.push(other.1.clone());
                    losses.lossy += u64::from(50 * rest > document.set.len());
                    lost.extend(&document.set);
                }
                continue;
            };
            // The first of several copies is spared.
            let is_copy =
                |of: &&&Name| similarity(edges, of, other).is_some() && documents[**of].set == document.set;
            if let Some(of) = others_stay.iter().find(is_copy) {
                losses.copies.insert(called(other), called(of));
                if !is_known(other) {
                    losses.removed.push(other.1.clone());
                }
                continue;
            }
            others_stay.push(other);
            stay.extend(&document.set);
            // The texts of an earlier output are not read to say more of its chains.
            let is_said = is_pair || !is_known(other) && reason != "different";
            let jaccard = shared as f64 / (rest + kept.set.len()) as f64;
            let spared = Spared {
                representative: cluster[0].1.clone(),
                jaccard: is_said.then_some(jaccard),
                containment: is_said.then_some(share),
                reason: reason.to_owned(),
                lost: is_said.then_some(rest as u64),
            };
            losses.spared.insert(called(other), spared);
        }
        losses.gone += lost.difference(&stay).count() as u64;
    }
    losses.removed.sort();
    losses
}
