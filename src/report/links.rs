//! The pairs that connect a cluster: the weakest link, and the bridges.

/// A pair of two documents, by their numbers in the cluster.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Edge {
    pub a: usize,
    pub b: usize,
    pub jaccard: f64,
}

/// An edge without which the documents of its two ends are not connected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bridge {
    pub edge: Edge,
    /// Documents that stay connected with `a`.
    pub side_a: usize,
    /// Documents that stay connected with `b`.
    pub side_b: usize,
}

/// The edge of the least similarity that the strongest connections of `nodes` documents need: the lightest edge of the maximum
/// spanning forest (Kruskal, 1956). `None` without edges.
pub(super) fn weakest(nodes: usize, edges: &[Edge]) -> Option<Edge> {
    let mut order: Vec<&Edge> = edges.iter().collect();
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
pub(super) fn bridges(nodes: usize, edges: &[Edge]) -> Vec<Bridge> {
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

    fn edge((a, b, percent): (usize, usize, u8)) -> Edge {
        Edge { a, b, jaccard: f64::from(percent) / 100.0 }
    }

    /// The nodes that are connected with `from` by `edges`.
    fn reached(from: usize, edges: &[Edge]) -> BTreeSet<usize> {
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
        let edges: Vec<Edge> =
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
            let edges: Vec<Edge> =
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
                let strong: Vec<Edge> = edges.iter().filter(|edge| edge.jaccard >= least).copied().collect();
                (0..8).all(|node| reached(node, &strong) == reached(node, &edges))
            };
            if let Some(weakest) = weakest(8, &edges) {
                prop_assert!(keeps(weakest.jaccard) && !keeps(weakest.jaccard + 0.001));
            }
        }
    }
}
