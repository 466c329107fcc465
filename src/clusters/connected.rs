//! Makes each component one cluster, represented by its first node. Also finds the strongest path from each node to the representative.

use super::interface::{Edge, EdgeOrder, Representatives, Represented};

/// The maximum number of nodes in a component in which paths are searched. The search takes 20 to 40 bytes per node.
const MOST_NODES: u32 = 1_000_000;

/// The node that represents the component.
const FIRST: u32 = 1;

/// Node 1 represents its component. In a component with at most [`MOST_NODES`] nodes, every node has a row. In the row of node 1,
/// `weakest_link` is the largest similarity between node 1 and another node. If the copies of a document are not pairs, this link connects
/// the copies of node 1 with the cluster. In a larger component, only nodes that are paired with node 1 have a row, and `weakest_link` is
/// null.
#[derive(Debug, Default)]
pub(crate) struct Connected {
    paths: StrongestPaths,
    /// Whether a node with a number above [`MOST_NODES`] was added.
    too_large: bool,
}

impl Connected {
    /// Returns the number of a node as 32 bits; `None` if paths are not searched in its component.
    fn searched(&self, node: u64) -> Option<u32> {
        u32::try_from(node).ok().filter(|&node| node <= MOST_NODES && !self.too_large)
    }
}

fn member(node: u64, jaccard: Option<f64>, weakest_link: Option<f64>) -> Represented {
    Represented { node, representative: FIRST.into(), jaccard, weakest_link }
}

impl Representatives for Connected {
    fn order(&self) -> EdgeOrder {
        EdgeOrder::Strongest
    }

    fn bytes_with(&self, edge: Edge) -> usize {
        self.searched(edge.high).map_or_else(|| self.paths.bytes(), |high| self.paths.bytes_with(high))
    }

    fn add(&mut self, edge: Edge, found: &mut dyn FnMut(Represented)) {
        let Edge { high, low, jaccard } = edge;
        if let Some(high) = self.searched(high) {
            // `low` is less than `high`, so it also fits in 32 bits.
            self.paths.join(high, low as u32, jaccard);
            return;
        }
        if !std::mem::replace(&mut self.too_large, true) {
            for path in self.paths.paths().filter(|path| path.direct.is_some()) {
                found(member(path.node.into(), path.direct, None));
            }
        }
        if low == u64::from(FIRST) {
            found(member(high, Some(jaccard), None));
        }
    }

    fn end(&mut self, found: &mut dyn FnMut(Represented)) {
        if !std::mem::take(&mut self.too_large) {
            found(member(FIRST.into(), None, self.paths.strongest_of_first()));
            for path in self.paths.paths() {
                found(member(path.node.into(), path.direct, Some(path.weakest)));
            }
        }
        self.paths.clear();
    }
}

/// The strongest path from each node of a component to node 1. A path is as strong as its weakest edge.
///
/// Edges are added strongest first and join trees, as in Kruskal's algorithm. The root with the larger number becomes a child of the other
/// root, and the weight of the edge is stored with the child. Later edges are weaker, so the last edge on the path from a node to its root
/// is the weakest. Any other path has a weaker edge, so this path is the strongest (Hu, *The maximum capacity route problem*, 1961). For
/// the same reason, path halving gives a node the weight that was stored with its parent.
#[derive(Debug, Default)]
struct StrongestPaths {
    /// The parent of each node, by its number. A root is its own parent.
    parents: Vec<u32>,
    /// The weight of the weakest edge on the path from a node to its parent.
    weights: Vec<f64>,
    /// For each node, the weight of its edge to node 1. For node 1, the weight of its strongest edge. NaN if there is no such edge.
    direct: Vec<f64>,
}

/// The connection between a node and node 1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct StrongestPath {
    node: u32,
    /// The weight of the edge between both nodes, if there is one.
    direct: Option<f64>,
    /// The weight of the weakest edge on the strongest path.
    weakest: f64,
}

impl StrongestPaths {
    /// Adds an edge between two nodes, with `low` < `high`. Edges must be added in descending order of weight.
    fn join(&mut self, high: u32, low: u32, weight: f64) {
        self.make_room(high);
        if low == FIRST {
            for node in [high, FIRST] {
                let direct = &mut self.direct[node as usize];
                if direct.is_nan() {
                    *direct = weight;
                }
            }
        }
        let (a, b) = (self.root(high), self.root(low));
        if a != b {
            let (low, high) = (a.min(b), a.max(b));
            self.parents[high as usize] = low;
            self.weights[high as usize] = weight;
        }
    }

    fn make_room(&mut self, node: u32) {
        let from = self.parents.len() as u32;
        if node >= from {
            let room = node as usize + 1;
            self.parents.extend(from..=node);
            self.weights.resize(room, f64::INFINITY);
            self.direct.resize(room, f64::NAN);
        }
    }

    fn root(&mut self, mut node: u32) -> u32 {
        loop {
            let parent = self.parents[node as usize];
            if parent == node {
                return node;
            }
            let grandparent = self.parents[parent as usize];
            if grandparent != parent {
                self.parents[node as usize] = grandparent;
                self.weights[node as usize] = self.weights[parent as usize];
            }
            node = parent;
        }
    }

    /// Returns the connection of each node except node 1, in the order of node numbers. All edges of the component must have been added.
    fn paths(&mut self) -> impl Iterator<Item = StrongestPath> {
        (0..self.parents.len() as u32).filter_map(|node| {
            let root = self.root(node);
            if root == node {
                return None;
            }
            // The parent has a smaller number, so it was visited earlier and is the root or a child of the root. The search for the root
            // has therefore made the root the parent of this node too.
            let (weakest, direct) = (self.weights[node as usize], self.direct[node as usize]);
            Some(StrongestPath { node, direct: Some(direct).filter(|direct| !direct.is_nan()), weakest })
        })
    }

    fn strongest_of_first(&self) -> Option<f64> {
        self.direct.get(FIRST as usize).copied().filter(|direct| !direct.is_nan())
    }

    fn clear(&mut self) {
        self.parents.clear();
        self.weights.clear();
        self.direct.clear();
    }

    fn bytes(&self) -> usize {
        4 * self.parents.capacity() + 8 * (self.weights.capacity() + self.direct.capacity())
    }

    /// Returns the size of the arrays, in bytes, after they have grown for `node`.
    fn bytes_with(&self, node: u32) -> usize {
        // Vectors double when they grow.
        self.bytes().max(2 * (4 + 8 + 8) * (node as usize + 1))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// The order of the edges does not matter, not even the position of the edge that shows that the component is too large.
    #[test]
    fn a_component_that_is_too_large_has_its_pairs_alone() {
        let large = u64::from(MOST_NODES) + 1;
        let found = |edges: &[(u64, u64, f64)]| {
            let (mut component, mut rows) = (Connected::default(), Vec::new());
            for _ in 0..2 {
                rows.clear();
                for &(high, low, jaccard) in edges {
                    component.add(Edge { high, low, jaccard }, &mut |row| rows.push(row));
                }
                component.end(&mut |row| rows.push(row));
            }
            rows
        };
        for at in 0..3 {
            let mut edges = vec![(2, 1, 0.9), (4, 1, 0.3)];
            edges.insert(at, (large, 2, 0.9 - at as f64 / 10.0));
            assert_eq!(found(&edges), [member(2, Some(0.9), None), member(4, Some(0.3), None)], "{at}");
        }
        let expected = [member(1, None, Some(0.9)), member(large - 1, Some(0.9), Some(0.9))];
        assert_eq!(found(&[(large - 1, 1, 0.9)]), expected);
    }

    proptest! {
        /// Compares the paths with the result of relaxation.
        #[test]
        fn no_path_is_stronger(
            tree in prop::collection::vec((any::<prop::sample::Index>(), 1_u32..9), 1..60),
            more in prop::collection::vec((1_u32..60, 1_u32..60, 1_u32..9), 0..60),
        ) {
            let mut edges = BTreeMap::new();
            for (at, (to, weight)) in (2..).zip(&tree) {
                edges.insert((at, 1 + to.index(at as usize - 1) as u32), f64::from(*weight));
            }
            let nodes = tree.len() as u32 + 1;
            for (a, b, weight) in more {
                let (a, b) = (a.min(nodes), b.min(nodes));
                if a != b {
                    edges.entry((a.max(b), a.min(b))).or_insert(f64::from(weight));
                }
            }
            let mut strength = vec![0.0_f64; nodes as usize + 1];
            strength[1] = f64::INFINITY;
            for _ in 0..nodes {
                for (&(a, b), &weight) in &edges {
                    let (a, b) = (a as usize, b as usize);
                    strength[a] = strength[a].max(strength[b].min(weight));
                    strength[b] = strength[b].max(strength[a].min(weight));
                }
            }
            let mut sorted: Vec<_> = edges.iter().map(|(&(high, low), &weight)| (high, low, weight)).collect();
            sorted.sort_by(|a, b| b.2.total_cmp(&a.2));
            let expected: Vec<_> = (2..=nodes)
                .map(|node| StrongestPath { node, direct: edges.get(&(node, 1)).copied(), weakest: strength[node as usize] })
                .collect();
            let mut strongest = StrongestPaths::default();
            prop_assert_eq!(strongest.strongest_of_first(), None);
            sorted.iter().for_each(|&(high, low, weight)| strongest.join(high, low, weight));
            prop_assert_eq!(strongest.paths().collect::<Vec<_>>(), expected);
            prop_assert_eq!(strongest.strongest_of_first(), sorted.iter().find(|edge| edge.1 == 1).map(|edge| edge.2));
        }
    }
}
