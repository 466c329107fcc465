//! The strongest paths from the nodes of a component to its first node.

/// The strongest path from each node of a component to node 1. A path is as strong as its weakest edge.
///
/// Edges come strongest first and join trees, as in Kruskal's algorithm. The root with the greater number is put below the other
/// with the weight of the edge. Later edges are weaker, so the weakest edge between a node and its root is the one below the root.
/// Any other path has a weaker edge, so this is the strongest (Hu, *The maximum capacity route problem*, 1961). Path halving moves
/// a node up with the weight above it, for the same reason.
#[derive(Debug, Default)]
pub struct StrongestPaths {
    /// The parent of each node, by its number; a root is its own.
    parents: Vec<u32>,
    /// The weakest edge between a node and its parent.
    weights: Vec<f64>,
    /// The weight of the edge to node 1, and for node 1 that of its strongest edge; NaN without such an edge.
    direct: Vec<f64>,
}

/// The connection of a node with node 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StrongestPath {
    /// The node.
    pub node: u32,
    /// The weight of the edge between the two, if there is one.
    pub direct: Option<f64>,
    /// The weakest edge of the strongest path.
    pub weakest: f64,
}

impl StrongestPaths {
    /// Adds an edge between two nodes, `low` < `high`. Later edges must not be stronger.
    pub fn join(&mut self, high: u32, low: u32, weight: f64) {
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

    /// The connection of each node except node 1, in the order of their numbers, after all edges of the component.
    pub fn paths(&mut self) -> impl Iterator<Item = StrongestPath> {
        (0..self.parents.len() as u32).filter_map(|node| {
            let root = self.root(node);
            if root == node {
                return None;
            }
            // A parent has a lesser number, so its own parent is the root already, and now this node's parent is too.
            let (weakest, direct) = (self.weights[node as usize], self.direct[node as usize]);
            Some(StrongestPath { node, direct: Some(direct).filter(|direct| !direct.is_nan()), weakest })
        })
    }

    /// The weight of the strongest edge of node 1; `None` if it has no edge.
    pub fn strongest_of_first(&self) -> Option<f64> {
        self.direct.get(FIRST as usize).copied().filter(|direct| !direct.is_nan())
    }

    /// Removes all nodes.
    pub fn clear(&mut self) {
        self.parents.clear();
        self.weights.clear();
        self.direct.clear();
    }

    /// The bytes that it holds.
    pub(crate) fn bytes(&self) -> usize {
        4 * self.parents.capacity() + 8 * (self.weights.capacity() + self.direct.capacity())
    }

    /// The bytes that it holds with nodes up to `node`.
    pub(crate) fn bytes_with(&self, node: u32) -> usize {
        // Vectors double.
        self.bytes().max(2 * (4 + 8 + 8) * (node as usize + 1))
    }
}

/// The node at the end of all paths.
const FIRST: u32 = 1;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn paths(edges: &[(u32, u32, f64)]) -> Vec<StrongestPath> {
        let mut strongest = StrongestPaths::default();
        edges.iter().for_each(|&(high, low, weight)| strongest.join(high, low, weight));
        strongest.paths().collect()
    }

    #[test]
    fn a_way_round_is_taken_where_it_is_stronger() {
        let edges = [(3, 2, 0.9), (2, 1, 0.8), (3, 1, 0.5), (4, 3, 0.25)];
        let path = |node, direct, weakest| StrongestPath { node, direct, weakest };
        assert_eq!(paths(&edges), [path(2, Some(0.8), 0.8), path(3, Some(0.5), 0.8), path(4, None, 0.25)]);
        assert_eq!(paths(&[]), []);
        let mut strongest = StrongestPaths::default();
        assert_eq!(strongest.strongest_of_first(), None);
        edges.iter().for_each(|&(high, low, weight)| strongest.join(high, low, weight));
        assert_eq!(strongest.strongest_of_first(), Some(0.8));
    }

    proptest! {
        /// Compared with relaxation: the strength of a node is the best that its neighbours allow, until nothing
        /// changes.
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
            prop_assert_eq!(paths(&sorted), expected);
        }
    }
}
