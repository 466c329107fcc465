//! Draws the largest, the loosest and a random cluster, with the pairs that connect them and texts of their documents.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::{SessionContext, col};
use petgraph::algo::{bridges, min_spanning_tree};
use petgraph::data::FromElements;
use petgraph::graph::{EdgeReference, NodeIndex, UnGraph};
use petgraph::visit::{DfsPostOrder, EdgeRef};
use serde::Deserialize;

use super::view::{BridgeLink, DrawnCluster, Link, MemberOf, PairOfTexts};
use crate::error::Result;
use crate::job::{Job, Reference};
use crate::lookup::Finished;
use crate::lookup::rows::query;
use crate::lookup::show::{Member, MemberTexts, similarity};
use crate::page::{EXCERPT, sides};
use crate::pipeline::numbers::texts_of;
use crate::udf::stage_functions;

const MAX_MEMBERS: usize = 12;
/// The maximum number of listed bridges, which are pairs without which a cluster falls into two parts.
const MAX_BRIDGES: usize = 3;
/// The maximum number of pairs, in memory, of a cluster whose weakest link and bridges are searched.
const MAX_EDGES: usize = 200_000;

/// Pairs of documents whose texts the report shows, each with a phrase about it.
type ShownPairs = Vec<(&'static str, [Member; 2])>;

/// Draws clusters from `finished`, and reads texts of their documents. The second value is the reason if texts cannot be read.
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
                sides: sides([a.id.to_string(), b.id.to_string()], both, EXCERPT, &job.shingle)?,
            });
        }
        clusters.push(cluster);
    }
    Ok((clusters, None))
}

/// Chooses clusters. Returns the reasons (`largest`, `loosest` or `random`) and the ids.
async fn choose(session: &SessionContext, has_links: bool, seed: u64) -> Result<Vec<(&'static str, String)>> {
    let link = if has_links {
        "coalesce(weakest_link, jaccard_to_representative)"
    } else {
        "jaccard_to_representative"
    };
    stage_functions().iter().for_each(|function| session.register_udf(ScalarUDF::clone(function)));
    let loosest = format!("min({link}) ASC NULLS LAST");
    let random = format!("document_key(concat('{seed} ', arrow_cast(cluster_id, 'Utf8')))");
    let mut chosen: Vec<(&'static str, String)> = Vec::new();
    for (why, order) in [("largest", "max(size) DESC"), ("loosest", &loosest), ("random", &random)] {
        let sql = format!(
            "SELECT arrow_cast(cluster_id, 'Utf8') AS cluster_id FROM clusters GROUP BY cluster_id HAVING max(size) > 1 \
             ORDER BY {order}, cluster_id LIMIT 3"
        );
        let mut ids = texts_of(session.sql(&sql).await?).await?.into_iter();
        let new = ids.find(|id| chosen.iter().all(|(_, other)| other != id));
        chosen.extend(new.map(|id| (why, id)));
    }
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
        cluster.weakest_link = weakest.map(|edge| links.link(edge));
        cluster.all_bridges = Some(bridges.len() as u64);
        cluster.bridges.extend(
            bridges.iter().take(MAX_BRIDGES).map(|&(edge, [side_a, side_b])| BridgeLink {
                link: links.link(edge),
                side_a,
                side_b,
            }),
        );
        let weakest = weakest.map(|edge| ("the weakest link", edge));
        let bridge = bridges.first().map(|(edge, _)| ("a bridge", *edge));
        for (phrase, edge) in weakest.into_iter().chain(bridge) {
            let member = |node: NodeIndex| {
                let (id, is_reference) = &links.documents[node.index()];
                Member::parse(finished, id, *is_reference)
            };
            let (a, b) = (member(edge.source())?, member(edge.target())?);
            if pairs.iter().all(|(_, [x, y])| (x, y) != (&a, &b) && (y, x) != (&a, &b)) {
                pairs.push((phrase, [a, b]));
            }
        }
    }
    Ok((cluster, pairs))
}

struct ClusterLinks {
    /// The id of each document in a pair, and whether it is a reference document.
    documents: Vec<(String, bool)>,
    /// The edges, whose weights are negative similarities.
    pairs: LinkGraph,
    /// The minimum spanning tree of `pairs`, with edges by weight.
    tree: LinkGraph,
}

type LinkGraph = UnGraph<(), f64>;

type LinkEdge<'a> = EdgeReference<'a, f64>;

fn jaccard(edge: LinkEdge<'_>) -> f64 {
    -edge.weight()
}

impl ClusterLinks {
    /// Reads the pairs within the cluster in the table `drawn`. Returns `None` for more than [`MAX_EDGES`] pairs, or if other outputs can
    /// contain some of them.
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
        let numbers: BTreeMap<&(String, bool), u32> = documents.iter().zip(0..).collect();
        let number = |id: String, is_reference| numbers.get(&(id, is_reference)).copied().unwrap_or_default();
        let edge = |row: LinkRow| (number(row.id_a, false), number(row.id_b, row.reference_b), -row.jaccard);
        let mut edges: Vec<(u32, u32, f64)> = rows.into_iter().map(edge).collect();
        edges.sort_by_key(|&(a, b, _)| (a, b));
        Ok(Some(Self::new(documents, edges)))
    }

    fn new(documents: Vec<(String, bool)>, edges: Vec<(u32, u32, f64)>) -> Self {
        let pairs = LinkGraph::from_edges(edges);
        let tree = LinkGraph::from_elements(min_spanning_tree(&pairs));
        Self { documents, pairs, tree }
    }

    /// Returns the weakest pair that connects the cluster, unless its documents have the same shingles.
    fn weakest(&self) -> Option<LinkEdge<'_>> {
        self.tree.edge_references().next_back().filter(|edge| jaccard(*edge) < 1.0)
    }

    /// Returns the bridges between different texts, with the number of documents on each side. Bridges are sorted by the size of their
    /// smaller side, descending.
    fn bridges(&self) -> Vec<(LinkEdge<'_>, [u64; 2])> {
        // The number of documents in each subtree, or 0 until all nodes below are visited. Every bridge is an edge of the tree.
        let mut sizes = vec![0_u64; self.documents.len()];
        let mut walk = DfsPostOrder::empty(&self.tree);
        for start in self.tree.node_indices() {
            walk.move_to(start);
            while let Some(node) = walk.next(&self.tree) {
                let below: u64 = self.tree.neighbors(node).map(|other| sizes[other.index()]).sum();
                sizes[node.index()] = 1 + below;
            }
        }
        let all = sizes.len() as u64;
        let sides = |edge: LinkEdge<'_>| {
            let [a, b] = [edge.source(), edge.target()].map(|node| sizes[node.index()]);
            if a < b { [a, all - a] } else { [all - b, b] }
        };
        let bridges = bridges(&self.pairs).filter(|edge| jaccard(*edge) < 1.0);
        let mut found: Vec<_> = bridges.map(|edge| (edge, sides(edge))).collect();
        found.sort_by(|(a, sides_a), (b, sides_b)| {
            sides_b.iter().min().cmp(&sides_a.iter().min()).then(jaccard(*a).total_cmp(&jaccard(*b)))
        });
        found
    }

    fn link(&self, edge: LinkEdge<'_>) -> Link {
        let id = |node: NodeIndex| self.documents[node.index()].0.clone();
        Link { id_a: id(edge.source()), id_b: id(edge.target()), jaccard: jaccard(edge) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    type TestEdge = (u32, u32, u8);

    fn links(documents: usize, edges: &[TestEdge]) -> ClusterLinks {
        let edges = edges.iter().map(|&(a, b, percent)| (a, b, -f64::from(percent) / 100.0));
        ClusterLinks::new(vec![(String::new(), false); documents], edges.collect())
    }

    fn test_edge(edge: LinkEdge<'_>) -> TestEdge {
        let percent = (jaccard(edge) * 100.0).round() as u8;
        (edge.source().index() as u32, edge.target().index() as u32, percent)
    }

    fn reached(from: u32, edges: &[TestEdge]) -> BTreeSet<u32> {
        let mut all = BTreeSet::from([from]);
        for (a, b, _) in edges.iter().flat_map(|_| edges) {
            if all.contains(a) || all.contains(b) {
                all.extend([a, b]);
            }
        }
        all
    }

    fn test_bridges(links: &ClusterLinks) -> Vec<(TestEdge, [u64; 2])> {
        links.bridges().into_iter().map(|(edge, sides)| (test_edge(edge), sides)).collect()
    }

    #[test]
    fn bridges_by_example() {
        let edges = [(0, 1, 90), (1, 2, 90), (0, 2, 90), (2, 3, 60), (3, 4, 80), (4, 5, 80), (3, 5, 50)];
        let links = links(6, &edges);
        assert_eq!(test_bridges(&links), [((2, 3, 60), [3, 3])]);
        assert_eq!(links.weakest().map(test_edge), Some((2, 3, 60)), "the edge of 50 % is not needed");
        let none = self::links(3, &[]);
        assert_eq!((test_bridges(&none), none.weakest().map(test_edge)), (vec![], None));
        let chain: Vec<TestEdge> = (0..100_000).map(|node| (node, node + 1, 90)).collect();
        let links = self::links(100_001, &chain);
        let bridges: Vec<_> = links.bridges().into_iter().map(|(_, sides)| sides).collect();
        assert_eq!(bridges[..2], [[50_000, 50_001], [50_001, 50_000]]);
        assert_eq!(bridges.last(), Some(&[100_000, 1]));
    }

    proptest! {
        #[test]
        fn bridges_and_weakest_links_match_their_definitions(
            pairs in proptest::collection::btree_map((0u32..8, 0u32..8), 50u8..100, 0..14)
        ) {
            let mut edges: Vec<TestEdge> =
                pairs.into_iter().filter(|((a, b), _)| a < b).map(|((a, b), percent)| (a, b, percent)).collect();
            // A cluster is connected.
            for node in 1..8 {
                if !reached(0, &edges).contains(&node) {
                    edges.push((0, node, 60));
                }
            }
            let mut expected = Vec::new();
            for (number, &(a, b, percent)) in edges.iter().enumerate() {
                let mut others = edges.clone();
                others.remove(number);
                let (side_a, side_b) = (reached(a, &others), reached(b, &others));
                if !side_a.contains(&b) {
                    expected.push(((a, b, percent), [side_a.len() as u64, side_b.len() as u64]));
                }
            }
            let links = links(8, &edges);
            let mut found = test_bridges(&links);
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
            // The weakest link is the largest threshold at which all documents remain connected.
            let keeps = |least: u8| {
                let strong: Vec<TestEdge> = edges.iter().filter(|edge| edge.2 >= least).copied().collect();
                reached(0, &strong).len() == 8
            };
            let (_, _, weakest) = test_edge(links.weakest().unwrap());
            prop_assert!(keeps(weakest) && !keeps(weakest + 1));
        }
    }
}
