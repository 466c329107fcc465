//! Draws the largest, the loosest and a random cluster, finds the pairs that connect each cluster, and reads texts of its documents.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::cast::as_string_array;
use datafusion::prelude::{SessionContext, col};
use futures::TryStreamExt;
use serde::Deserialize;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::view::{BridgeLink, DrawnCluster, Link, MemberOf, PairOfTexts};
use crate::error::Result;
use crate::job::{Job, Reference};
use crate::lookup::Finished;
use crate::lookup::rows::query;
use crate::lookup::show::{Member, MemberTexts, similarity};
use crate::page::sides;

/// The maximum number of listed documents per cluster.
const MAX_MEMBERS: usize = 12;
/// The maximum number of listed bridges per cluster.
const MAX_BRIDGES: usize = 3;
/// The maximum number of pairs in a cluster whose weakest link and bridges are searched. The pairs are in memory.
const MAX_EDGES: usize = 200_000;

/// Pairs of documents with a phrase that describes the pair. The report shows the texts of these documents.
type ShownPairs = Vec<(&'static str, [Member; 2])>;

/// Draws clusters from `finished` and reads texts of their documents. If the texts cannot be read, the second value is the reason.
///
/// # Errors
/// Fails if a table cannot be read.
pub(super) async fn read(
    session: &SessionContext,
    finished: &Finished,
    seed: u64,
) -> Result<(Vec<DrawnCluster>, Option<String>)> {
    let clusters = session.table("clusters").await?;
    let has_links = clusters.schema().has_column_with_unqualified_name("weakest_link");
    let mut drawn = Vec::new();
    for (why, id) in choose(session, has_links, seed).await? {
        drawn.push(read_cluster(session, finished, has_links, (why, &id)).await?);
    }
    let pairs = drawn.iter().flat_map(|(_, pairs)| pairs);
    let members: BTreeSet<Member> = pairs.flat_map(|(_, documents)| documents.clone()).collect();
    if members.is_empty() {
        return Ok((Vec::new(), None));
    }
    let texts = match MemberTexts::open(finished, members).await {
        Ok(texts) => texts,
        Err(error) => {
            let why = error.one_line();
            tracing::warn!("the report has no texts: {why}");
            return Ok((drawn.into_iter().map(|(cluster, _)| cluster).collect(), Some(why)));
        }
    };
    let (job, mut clusters) = (finished.job(), Vec::new());
    for (mut cluster, pairs) in drawn {
        for (what, [a, b]) in pairs {
            let both = [texts.text(&a)?, texts.text(&b)?];
            let pair = similarity([&a, &b], both, job)?;
            cluster.texts.push(PairOfTexts {
                what: what.to_owned(),
                jaccard: pair.jaccard,
                containment_a: pair.containment_a,
                containment_b: pair.containment_b,
                sides: sides([a.id.to_string(), b.id.to_string()], both, &job.shingle),
            });
        }
        clusters.push(cluster);
    }
    Ok((clusters, None))
}

/// Chooses clusters. Returns the reason for each choice (`largest`, `loosest` or `random`) and the id of the cluster.
async fn choose(session: &SessionContext, has_links: bool, seed: u64) -> Result<Vec<(&'static str, String)>> {
    #[derive(Deserialize)]
    struct Cluster {
        cluster_id: String,
    }
    let link = if has_links {
        "coalesce(weakest_link, jaccard_to_representative)"
    } else {
        "jaccard_to_representative"
    };
    let mut chosen: Vec<(&'static str, String)> = Vec::new();
    for (why, order) in [("largest", "max(size) DESC"), ("loosest", &format!("min({link}) ASC NULLS LAST"))] {
        let sql = format!(
            "SELECT arrow_cast(cluster_id, 'Utf8') AS cluster_id FROM clusters GROUP BY cluster_id HAVING max(size) > 1 \
             ORDER BY {order}, cluster_id LIMIT 3"
        );
        let ids: Vec<Cluster> = query(session, &sql).await?;
        let mut ids = ids.into_iter().map(|cluster| cluster.cluster_id);
        let new = ids.find(|id| chosen.iter().all(|(_, other)| other != id));
        chosen.extend(new.map(|id| (why, id)));
    }
    let all =
        "SELECT arrow_cast(cluster_id, 'Utf8') AS cluster_id FROM clusters WHERE representative AND size > 1";
    let mut batches = session.sql(all).await?.execute_stream().await?;
    let mut least: Option<(u64, String)> = None;
    while let Some(batch) = batches.try_next().await? {
        for id in as_string_array(batch.column(0))?.iter().flatten() {
            let hashed = (xxh3_64_with_seed(id.as_bytes(), seed), id.to_owned());
            let is_new = chosen.iter().all(|(_, other)| other != id);
            if is_new && least.as_ref().is_none_or(|least| hashed < *least) {
                least = Some(hashed);
            }
        }
    }
    chosen.extend(least.map(|(_, id)| ("random", id)));
    Ok(chosen)
}

/// Reads a cluster, and chooses the pairs whose texts the report shows.
async fn read_cluster(
    session: &SessionContext,
    finished: &Finished,
    has_links: bool,
    (why, cluster_id): (&str, &str),
) -> Result<(DrawnCluster, ShownPairs)> {
    let literal = Member::parse(finished, cluster_id, false)?.id.literal();
    let drawn = session.table("clusters").await?.filter(col("cluster_id").eq(literal))?;
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
        query(session, &members("representative DESC, jaccard DESC NULLS LAST", MAX_MEMBERS)).await?;
    let last: Vec<MemberOf> =
        query(session, &members("representative, jaccard ASC NULLS FIRST, weakest_link", 1)).await?;
    let mut pairs: ShownPairs = Vec::new();
    if let (Some(first), Some(last)) = (shown.first(), last.first().filter(|last| !last.representative)) {
        let member = |member: &MemberOf| Member::parse(finished, &member.id, member.reference);
        let phrase = "the representative and the document that is least like it";
        pairs.push((phrase, [member(first)?, member(last)?]));
    }
    let mut cluster = DrawnCluster {
        why: why.to_owned(),
        cluster_id: cluster_id.to_owned(),
        size,
        members: shown,
        weakest_link: None,
        bridges: Vec::new(),
        all_bridges: None,
        texts: Vec::new(),
    };
    if let Some(links) = ClusterLinks::read(session, finished.job()).await? {
        let (weakest, bridges) = (links.weakest(), links.bridges());
        cluster.weakest_link = weakest.map(|edge| links.link(&edge));
        cluster.all_bridges = Some(bridges.len() as u64);
        cluster.bridges.extend(bridges.iter().take(MAX_BRIDGES).map(|bridge| BridgeLink {
            link: links.link(&bridge.edge),
            side_a: bridge.side_a as u64,
            side_b: bridge.side_b as u64,
        }));
        let weakest = weakest.map(|edge| ("the weakest link", edge));
        let bridge = bridges.first().map(|bridge| ("a bridge", bridge.edge));
        for (phrase, edge) in weakest.into_iter().chain(bridge) {
            let member = |number: usize| {
                let (id, is_reference) = &links.documents[number];
                Member::parse(finished, id, *is_reference)
            };
            let (a, b) = (member(edge.a)?, member(edge.b)?);
            if pairs.iter().all(|(_, [x, y])| (x, y) != (&a, &b) && (y, x) != (&a, &b)) {
                pairs.push((phrase, [a, b]));
            }
        }
    }
    Ok((cluster, pairs))
}

/// The pairs within a cluster.
struct ClusterLinks {
    /// The id of each paired document, and whether it is a reference document.
    documents: Vec<(String, bool)>,
    edges: Vec<ClusterEdge>,
}

impl ClusterLinks {
    /// Reads the pairs within the cluster in the table `drawn`. Returns `None` if there are more than [`MAX_EDGES`] pairs, or if some pairs
    /// can be in other outputs.
    async fn read(session: &SessionContext, job: &Job) -> Result<Option<Self>> {
        let known = session.table("drawn").await?.filter(col("reference"))?;
        if matches!(job.reference(), Some(Reference::Outputs { .. })) && known.count().await? > 1 {
            return Ok(None);
        }
        #[derive(Deserialize)]
        struct LinkRow {
            id_a: String,
            id_b: String,
            reference_b: bool,
            jaccard: f64,
        }
        let sql = format!(
            "SELECT arrow_cast(p.id_a, 'Utf8') AS id_a, arrow_cast(p.id_b, 'Utf8') AS id_b, p.reference_b, p.jaccard \
             FROM drawn a JOIN pairs p ON a.id = p.id_a AND NOT a.reference \
             JOIN drawn b ON b.id = p.id_b AND b.reference = p.reference_b LIMIT {}",
            MAX_EDGES + 1
        );
        let rows: Vec<LinkRow> = query(session, &sql).await?;
        if rows.len() > MAX_EDGES {
            return Ok(None);
        }
        let ends =
            rows.iter().flat_map(|row| [(row.id_a.clone(), false), (row.id_b.clone(), row.reference_b)]);
        let documents: Vec<(String, bool)> = ends.collect::<BTreeSet<_>>().into_iter().collect();
        let numbers: BTreeMap<&(String, bool), usize> = documents.iter().zip(0..).collect();
        let number = |id: String, is_reference| numbers.get(&(id, is_reference)).copied().unwrap_or_default();
        let edge = |row: LinkRow| ClusterEdge {
            a: number(row.id_a, false),
            b: number(row.id_b, row.reference_b),
            jaccard: row.jaccard,
        };
        let mut edges: Vec<ClusterEdge> = rows.into_iter().map(edge).collect();
        edges.sort_by_key(|edge| (edge.a, edge.b));
        Ok(Some(Self { documents, edges }))
    }

    /// Returns the weakest link, unless it is between documents with the same shingles.
    fn weakest(&self) -> Option<ClusterEdge> {
        weakest(self.documents.len(), &self.edges).filter(|edge| edge.jaccard < 1.0)
    }

    /// Returns the bridges between documents with different shingles, ordered by the size of the smaller part, descending.
    fn bridges(&self) -> Vec<Bridge> {
        let mut found = bridges(self.documents.len(), &self.edges);
        found.retain(|bridge| bridge.edge.jaccard < 1.0);
        found.sort_by(|a, b| {
            let smaller = |bridge: &Bridge| bridge.side_a.min(bridge.side_b);
            smaller(b).cmp(&smaller(a)).then(a.edge.jaccard.total_cmp(&b.edge.jaccard))
        });
        found
    }

    fn link(&self, edge: &ClusterEdge) -> Link {
        let id = |number: usize| self.documents[number].0.clone();
        Link { id_a: id(edge.a), id_b: id(edge.b), jaccard: edge.jaccard }
    }
}

/// A pair of documents. `a` and `b` are indexes in [`ClusterLinks::documents`].
#[derive(Debug, Clone, Copy, PartialEq)]
struct ClusterEdge {
    a: usize,
    b: usize,
    jaccard: f64,
}

/// An edge that is the only connection between its two documents.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bridge {
    edge: ClusterEdge,
    /// The number of documents that stay connected with `a` if the edge is removed, including `a`.
    side_a: usize,
    /// The number of documents that stay connected with `b` if the edge is removed, including `b`.
    side_b: usize,
}

/// Returns the lightest edge of the maximum spanning forest (Kruskal, 1956); `None` if there are no edges.
fn weakest(nodes: usize, edges: &[ClusterEdge]) -> Option<ClusterEdge> {
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

/// Finds the bridges of a graph (Tarjan, *A note on finding the bridges of a graph*, 1974). Two documents must have at most one edge.
fn bridges(nodes: usize, edges: &[ClusterEdge]) -> Vec<Bridge> {
    let mut edges_of_node: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for (number, edge) in edges.iter().enumerate() {
        edges_of_node[edge.a].push(number);
        edges_of_node[edge.b].push(number);
    }
    let unvisited = usize::MAX;
    let (mut order, mut low, mut size) = (vec![unvisited; nodes], vec![unvisited; nodes], vec![1; nodes]);
    let mut found = Vec::new();
    let mut next = 0;
    for start in 0..nodes {
        if order[start] != unvisited {
            continue;
        }
        let first = found.len();
        // The bridges in this DFS tree, as tuples (edge, child). The sizes of both sides follow once the whole tree has been visited.
        let mut tree = Vec::new();
        // The nodes from the root to the current node, as tuples (node, edge to the node, number of the node's edges that were followed).
        let mut path = vec![(start, unvisited, 0)];
        (order[start], low[start]) = (next, next);
        next += 1;
        while let Some(&mut (node, by, ref mut followed)) = path.last_mut() {
            if let Some(&number) = edges_of_node[node].get(*followed) {
                *followed += 1;
                let edge = edges[number];
                let other = if edge.a == node { edge.b } else { edge.a };
                if number == by {
                    continue;
                }
                if order[other] == unvisited {
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
                    tree.push((edges[by], node));
                }
            }
        }
        let all: usize = size[start];
        found.extend(tree.into_iter().map(|(edge, child)| {
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

    /// Returns the nodes that `edges` connect with `from`.
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
        fn bridges_and_weakest_links_match_their_definitions(
            pairs in proptest::collection::btree_map((0usize..8, 0usize..8), 50u8..100, 0..14)
        ) {
            let edges: Vec<ClusterEdge> =
                pairs.into_iter().filter(|((a, b), _)| a < b).map(|((a, b), j)| edge((a, b, j))).collect();
            let mut expected = Vec::new();
            for (number, removed) in edges.iter().enumerate() {
                let mut others = edges.clone();
                others.remove(number);
                let (side_a, side_b) = (reached(removed.a, &others), reached(removed.b, &others));
                if !side_a.contains(&removed.b) {
                    expected.push(Bridge { edge: *removed, side_a: side_a.len(), side_b: side_b.len() });
                }
            }
            let mut found = bridges(8, &edges);
            found.sort_by_key(|bridge| (bridge.edge.a, bridge.edge.b));
            prop_assert_eq!(found, expected);
            // The weakest link is the largest threshold at which all connected documents remain connected.
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
