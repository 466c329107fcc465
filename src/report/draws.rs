//! Three clusters with their texts: the largest, the loosest, and one at random, with the pairs that connect each.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::cast::as_string_array;
use datafusion::prelude::{SessionContext, col};
use futures::TryStreamExt;
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::view::{BridgeLink, DrawnCluster, Link, MemberOf, PairOfTexts};
use crate::error::{Error, Result};
use crate::job::{Job, Reference};
use crate::lookup::Finished;
use crate::lookup::rows::query;
use crate::lookup::show::{Member, MemberTexts, similarity};
use crate::page::sides;

/// Documents of a cluster that are listed.
const MOST_MEMBERS: usize = 12;
/// Bridges of a cluster that are listed.
const MOST_BRIDGES: usize = 3;
/// Pairs of a cluster among which its links are searched: they are held.
const MOST_EDGES: usize = 200_000;

/// The clusters that are shown.
pub(super) struct DrawnClusters {
    pub clusters: Vec<DrawnCluster>,
    /// Why there are no texts.
    pub no_texts: Option<String>,
}

/// Draws the clusters of `finished`, and reads their texts.
///
/// # Errors
/// When a table cannot be read.
pub(super) async fn read(session: &SessionContext, finished: &Finished, seed: u64) -> Result<DrawnClusters> {
    let mut found = Vec::new();
    for (why, id) in chosen(session, seed).await? {
        found.push(Scene::read(session, finished, why, &id).await?);
    }
    let members: BTreeSet<Member> = found.iter().flat_map(Scene::members).collect();
    if members.is_empty() {
        return Ok(DrawnClusters { clusters: Vec::new(), no_texts: None });
    }
    let (texts, no_texts) = match MemberTexts::open(finished, members).await {
        Ok(texts) => (Some(texts), None),
        Err(error) => (None, Some(error.one_line())),
    };
    if let Some(why) = &no_texts {
        tracing::warn!("the report has no texts: {why}");
    }
    let clusters = found.into_iter().map(|scene| scene.with(texts.as_ref(), finished));
    Ok(DrawnClusters { clusters: clusters.collect::<Result<Vec<_>>>()?, no_texts })
}

/// The ids of the clusters to show, each with the reason.
async fn chosen(session: &SessionContext, seed: u64) -> Result<Vec<(&'static str, String)>> {
    #[derive(Deserialize)]
    struct Cluster {
        cluster_id: String,
    }
    let has_links =
        session.table("clusters").await?.schema().has_column_with_unqualified_name("weakest_link");
    let link = if has_links {
        "coalesce(weakest_link, jaccard_to_representative)"
    } else {
        "jaccard_to_representative"
    };
    let first = |order: &str| {
        format!(
            "SELECT arrow_cast(cluster_id, 'Utf8') AS cluster_id FROM clusters GROUP BY cluster_id HAVING max(size) > 1 \
             ORDER BY {order}, cluster_id LIMIT 3"
        )
    };
    let mut chosen: Vec<(&'static str, String)> = Vec::new();
    for (why, order) in [("largest", "max(size) DESC"), ("loosest", &format!("min({link}) ASC NULLS LAST"))] {
        let ids: Vec<Cluster> = query(session, &first(order)).await?;
        let new =
            ids.into_iter().map(|of| of.cluster_id).find(|id| chosen.iter().all(|(_, other)| other != id));
        chosen.extend(new.map(|id| (why, id)));
    }
    let all =
        "SELECT arrow_cast(cluster_id, 'Utf8') AS cluster_id FROM clusters WHERE representative AND size > 1";
    let mut batches = session.sql(all).await?.execute_stream().await?;
    let mut least = BTreeMap::new();
    while let Some(batch) = batches.try_next().await? {
        for id in as_string_array(batch.column(0))?.iter().flatten() {
            if chosen.iter().all(|(_, other)| other != id) {
                least.insert((xxh3_64_with_seed(id.as_bytes(), seed), id.to_owned()), ());
                if least.len() > 1 {
                    least.pop_last();
                }
            }
        }
    }
    chosen.extend(least.into_keys().map(|(_, id)| ("random", id)));
    Ok(chosen)
}

/// A pair whose texts are shown.
struct WantedPair {
    what: &'static str,
    documents: [Member; 2],
}

/// A cluster before its texts are read.
struct Scene {
    cluster: DrawnCluster,
    wanted: Vec<WantedPair>,
}

impl Scene {
    /// Reads the cluster `cluster_id`.
    async fn read(
        session: &SessionContext,
        finished: &Finished,
        why: &'static str,
        cluster_id: &str,
    ) -> Result<Self> {
        let member = |id: &str, is_reference: bool| -> Result<Member> {
            let id = finished.id(id).ok_or_else(|| Error::bug(format!("the id {id} is not a number")))?;
            Ok(Member { id, is_reference })
        };
        let literal = member(cluster_id, false)?.id.literal();
        let clusters = session.table("clusters").await?;
        let has_links = clusters.schema().has_column_with_unqualified_name("weakest_link");
        let drawn = clusters.filter(col("cluster_id").eq(literal))?;
        let size = drawn.clone().count().await? as u64;
        session.deregister_table("drawn")?;
        session.register_table("drawn", drawn.into_view())?;
        let link = if has_links { "weakest_link" } else { "CAST(NULL AS DOUBLE)" };
        let members = |order: &str, most: usize| {
            format!(
                "SELECT arrow_cast(id, 'Utf8') AS id, representative, reference, jaccard_to_representative AS jaccard, \
                 {link} AS weakest_link FROM drawn ORDER BY {order}, id LIMIT {most}"
            )
        };
        let shown: Vec<MemberOf> =
            query(session, &members("representative DESC, jaccard DESC NULLS LAST", MOST_MEMBERS)).await?;
        let last: Vec<MemberOf> =
            query(session, &members("representative, jaccard ASC NULLS FIRST, weakest_link", 1)).await?;
        let mut wanted = Vec::new();
        if let (Some(first), Some(last)) = (shown.first(), last.first().filter(|last| !last.representative)) {
            let documents = [member(&first.id, first.reference)?, member(&last.id, last.reference)?];
            wanted.push(WantedPair {
                what: "the representative and the document that is least like it",
                documents,
            });
        }
        let links = ClusterLinks::read(session, finished.job()).await?;
        let (mut bridges, mut all_bridges, mut weakest) = (Vec::new(), None, None);
        if let Some(links) = &links {
            let found = links.bridges();
            all_bridges = Some(found.len() as u64);
            bridges.extend(found.iter().take(MOST_BRIDGES).map(|bridge| BridgeLink {
                link: links.link(&bridge.edge),
                side_a: bridge.side_a as u64,
                side_b: bridge.side_b as u64,
            }));
            weakest = links.weakest();
            for (what, edge) in weakest
                .iter()
                .map(|edge| ("the weakest link", edge))
                .chain(found.first().map(|b| ("a bridge", &b.edge)))
            {
                let documents = links.documents(edge);
                let documents =
                    [member(&documents[0].0, documents[0].1)?, member(&documents[1].0, documents[1].1)?];
                let is_new = wanted.iter().all(|other: &WantedPair| {
                    let [a, b] = &other.documents;
                    documents != other.documents && documents != [b.clone(), a.clone()]
                });
                if is_new {
                    wanted.push(WantedPair { what, documents });
                }
            }
        }
        let cluster = DrawnCluster {
            why: why.to_owned(),
            cluster_id: cluster_id.to_owned(),
            size,
            members: shown,
            weakest_link: links.as_ref().zip(weakest).map(|(links, edge)| links.link(&edge)),
            bridges,
            all_bridges,
            texts: Vec::new(),
        };
        Ok(Self { cluster, wanted })
    }

    fn members(&self) -> impl Iterator<Item = Member> {
        self.wanted.iter().flat_map(|wanted| wanted.documents.iter().cloned())
    }

    /// The cluster with its texts.
    fn with(self, texts: Option<&MemberTexts>, finished: &Finished) -> Result<DrawnCluster> {
        let Some(texts) = texts else { return Ok(self.cluster) };
        let job = finished.job();
        let pair = |WantedPair { what, documents: [a, b] }: WantedPair| {
            let both = [texts.text(&a)?, texts.text(&b)?];
            let pair = similarity([&a, &b], both, job)?;
            Ok(PairOfTexts {
                what: what.to_owned(),
                jaccard: pair.jaccard,
                containment_a: pair.containment_a,
                containment_b: pair.containment_b,
                sides: sides([a.id.to_string(), b.id.to_string()], both, &job.shingle),
            })
        };
        let texts = self.wanted.into_iter().map(pair).collect::<Result<Vec<_>>>()?;
        Ok(DrawnCluster { texts, ..self.cluster })
    }
}

/// The pairs within a cluster.
struct ClusterLinks {
    /// (id, whether it is a reference document) of each document with a pair.
    documents: Vec<(String, bool)>,
    edges: Vec<ClusterEdge>,
}

impl ClusterLinks {
    /// The pairs within the cluster of the table `drawn`; `None` if there are too many, or some may be in other outputs.
    async fn read(session: &SessionContext, job: &Job) -> Result<Option<Self>> {
        let known = session.table("drawn").await?.filter(col("reference"))?;
        if matches!(job.reference(), Some(Reference::Outputs { .. })) && known.count().await? > 1 {
            return Ok(None);
        }
        #[derive(Deserialize)]
        struct Row {
            id_a: String,
            id_b: String,
            reference_b: bool,
            jaccard: f64,
        }
        let sql = format!(
            "SELECT arrow_cast(p.id_a, 'Utf8') AS id_a, arrow_cast(p.id_b, 'Utf8') AS id_b, p.reference_b, p.jaccard \
             FROM drawn a JOIN pairs p ON a.id = p.id_a AND NOT a.reference \
             JOIN drawn b ON b.id = p.id_b AND b.reference = p.reference_b LIMIT {}",
            MOST_EDGES + 1
        );
        let rows: Vec<Row> = query(session, &sql).await?;
        if rows.len() > MOST_EDGES {
            return Ok(None);
        }
        let ends =
            rows.iter().flat_map(|row| [(row.id_a.clone(), false), (row.id_b.clone(), row.reference_b)]);
        let numbers: BTreeMap<(String, bool), usize> =
            ends.collect::<BTreeSet<_>>().into_iter().enumerate().map(|(number, of)| (of, number)).collect();
        let number = |id: String, is_reference| numbers.get(&(id, is_reference)).copied().unwrap_or_default();
        let mut edges: Vec<ClusterEdge> = rows
            .into_iter()
            .map(|row| ClusterEdge {
                a: number(row.id_a, false),
                b: number(row.id_b, row.reference_b),
                jaccard: row.jaccard,
            })
            .collect();
        edges.sort_by_key(|edge| (edge.a, edge.b));
        Ok(Some(Self { documents: numbers.into_keys().collect(), edges }))
    }

    /// The weakest link, unless all that connect the cluster are between documents with the same shingles.
    fn weakest(&self) -> Option<ClusterEdge> {
        weakest(self.documents.len(), &self.edges).filter(|edge| edge.jaccard < 1.0)
    }

    /// The bridges between different texts, those with the larger of the smaller parts first.
    fn bridges(&self) -> Vec<Bridge> {
        let mut found = bridges(self.documents.len(), &self.edges);
        found.retain(|bridge| bridge.edge.jaccard < 1.0);
        found.sort_by(|a, b| {
            let smaller = |bridge: &Bridge| bridge.side_a.min(bridge.side_b);
            smaller(b).cmp(&smaller(a)).then(a.edge.jaccard.total_cmp(&b.edge.jaccard))
        });
        found
    }

    fn documents(&self, edge: &ClusterEdge) -> [&(String, bool); 2] {
        [&self.documents[edge.a], &self.documents[edge.b]]
    }

    fn link(&self, edge: &ClusterEdge) -> Link {
        let [a, b] = self.documents(edge);
        Link { id_a: a.0.clone(), id_b: b.0.clone(), jaccard: edge.jaccard }
    }
}

/// A pair of two documents, by their numbers in the cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ClusterEdge {
    pub a: usize,
    pub b: usize,
    pub jaccard: f64,
}

/// An edge without which the documents of its two ends are not connected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bridge {
    pub edge: ClusterEdge,
    /// Documents that stay connected with `a`.
    pub side_a: usize,
    /// Documents that stay connected with `b`.
    pub side_b: usize,
}

/// The edge of the least similarity that the strongest connections of `nodes` documents need: the lightest edge of the maximum
/// spanning forest (Kruskal, 1956). `None` without edges.
pub(super) fn weakest(nodes: usize, edges: &[ClusterEdge]) -> Option<ClusterEdge> {
    let mut order: Vec<&ClusterEdge> = edges.iter().collect();
    order.sort_by(|a, b| b.jaccard.total_cmp(&a.jaccard).then((a.a, a.b).cmp(&(b.a, b.b))));
    let mut parent: Vec<usize> = (0..nodes).collect();
    let mut last = None;
    for edge in order {
        let (a, b) = (root(&mut parent, edge.a), root(&mut parent, edge.b));
        if a != b {
            parent[a] = b;
            last = Some(*edge);
        }
    }
    last
}

fn root(parent: &mut [usize], mut node: usize) -> usize {
    while parent[node] != node {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    node
}

/// The bridges between `nodes` documents (Tarjan, *A note on finding the bridges of a graph*, 1974). Two documents have at most
/// one edge.
pub(super) fn bridges(nodes: usize, edges: &[ClusterEdge]) -> Vec<Bridge> {
    let mut of: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (number, edge) in edges.iter().enumerate() {
        of[edge.a].push(number);
        of[edge.b].push(number);
    }
    let unseen = usize::MAX;
    let (mut order, mut low, mut size) = (vec![unseen; nodes], vec![unseen; nodes], vec![1; nodes]);
    // Of each tree: (edge to its child, child), until the size of the whole tree is known.
    let mut found = Vec::new();
    let mut next = 0;
    for start in 0..nodes {
        if order[start] != unseen {
            continue;
        }
        let first = found.len();
        let mut of_tree = Vec::new();
        // (node, the edge by which it was reached, how many of its edges were followed)
        let mut path = vec![(start, unseen, 0)];
        (order[start], low[start]) = (next, next);
        next += 1;
        while let Some(&mut (node, by, ref mut followed)) = path.last_mut() {
            if let Some(&number) = of[node].get(*followed) {
                *followed += 1;
                let edge = edges[number];
                let other = if edge.a == node { edge.b } else { edge.a };
                if number == by {
                    continue;
                }
                if order[other] == unseen {
                    (order[other], low[other]) = (next, next);
                    next += 1;
                    path.push((other, number, 0));
                } else {
                    low[node] = low[node].min(order[other]);
                }
                continue;
            }
            path.pop();
            if let Some(&(above, ..)) = path.last() {
                low[above] = low[above].min(low[node]);
                size[above] += size[node];
                if low[node] > order[above] {
                    of_tree.push((edges[by], node));
                }
            }
        }
        let all: usize = size[start];
        found.extend(of_tree.into_iter().map(|(edge, child)| {
            let (child_side, other) = (size[child], all - size[child]);
            let (side_a, side_b) = if edge.a == child { (child_side, other) } else { (other, child_side) };
            Bridge { edge, side_a, side_b }
        }));
        found[first..].sort_by_key(|bridge| (bridge.edge.a, bridge.edge.b));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn edge((a, b, percent): (usize, usize, u8)) -> ClusterEdge {
        ClusterEdge { a, b, jaccard: f64::from(percent) / 100.0 }
    }

    /// The nodes that are connected with `from` by `edges`.
    fn reached(from: usize, edges: &[ClusterEdge]) -> BTreeSet<usize> {
        let mut all = BTreeSet::from([from]);
        loop {
            let before = all.len();
            for edge in edges {
                if all.contains(&edge.a) || all.contains(&edge.b) {
                    all.extend([edge.a, edge.b]);
                }
            }
            if all.len() == before {
                return all;
            }
        }
    }

    #[test]
    fn a_chain_of_two_triangles_has_one_bridge() {
        let edges: Vec<ClusterEdge> =
            [(0, 1, 90), (1, 2, 90), (0, 2, 90), (2, 3, 60), (3, 4, 80), (4, 5, 80), (3, 5, 50)]
                .map(edge)
                .into();
        assert_eq!(bridges(6, &edges), [Bridge { edge: edges[3], side_a: 3, side_b: 3 }]);
        assert_eq!(weakest(6, &edges), Some(edges[3]), "the edge of 50 % is not needed");
        assert_eq!((bridges(3, &[]), weakest(3, &[])), (vec![], None));
    }

    proptest! {
        #[test]
        fn they_are_those_of_the_definition(
            pairs in proptest::collection::btree_map((0usize..8, 0usize..8), 50u8..100, 0..14)
        ) {
            let edges: Vec<ClusterEdge> =
                pairs.into_iter().filter(|((a, b), _)| a < b).map(|((a, b), j)| edge((a, b, j))).collect();
            let mut expected = Vec::new();
            for (number, of) in edges.iter().enumerate() {
                let mut others = edges.clone();
                others.remove(number);
                let (side_a, side_b) = (reached(of.a, &others), reached(of.b, &others));
                if !side_a.contains(&of.b) {
                    expected.push(Bridge { edge: *of, side_a: side_a.len(), side_b: side_b.len() });
                }
            }
            let mut found = bridges(8, &edges);
            found.sort_by_key(|bridge| (bridge.edge.a, bridge.edge.b));
            prop_assert_eq!(found, expected);
            // The weakest link is the greatest similarity that every connected pair of documents keeps.
            let keeps = |least: f64| {
                let strong: Vec<ClusterEdge> = edges.iter().filter(|edge| edge.jaccard >= least).copied().collect();
                (0..8).all(|node| reached(node, &strong) == reached(node, &edges))
            };
            if let Some(weakest) = weakest(8, &edges) {
                prop_assert!(keeps(weakest.jaccard) && !keeps(weakest.jaccard + 0.001));
            }
        }
    }
}
