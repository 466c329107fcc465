//! Connected components of the pairs, by union-find on one machine.

use std::collections::HashMap;

use petgraph::unionfind::UnionFind;

/// The component of each node: (node, root), sorted by node; the root is the least node of its component.
///
/// Union by rank with path halving (Tarjan and van Leeuwen 1984). Takes about 40 bytes for each node.
#[derive(Debug, Default)]
pub struct Components {
    places: HashMap<u64, usize>,
    nodes: Vec<u64>,
    sets: UnionFind<usize>,
}

impl Components {
    /// Says that `a` and `b` hang together.
    pub fn join(&mut self, a: u64, b: u64) {
        let (a, b) = (self.place(a), self.place(b));
        self.sets.union(a, b);
    }

    fn place(&mut self, node: u64) -> usize {
        let (nodes, sets) = (&mut self.nodes, &mut self.sets);
        *self.places.entry(node).or_insert_with(|| {
            nodes.push(node);
            sets.new_set()
        })
    }

    /// (node, root) for every node that was joined to another, sorted by node.
    pub fn roots(mut self) -> Vec<(u64, u64)> {
        let set_of: Vec<usize> = (0..self.nodes.len()).map(|place| self.sets.find_mut(place)).collect();
        let mut least = vec![u64::MAX; self.nodes.len()];
        for (&set, &node) in set_of.iter().zip(&self.nodes) {
            least[set] = least[set].min(node);
        }
        let mut roots: Vec<_> =
            set_of.iter().zip(&self.nodes).map(|(&set, &node)| (node, least[set])).collect();
        roots.sort_unstable();
        roots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_hang_together() {
        let mut components = Components::default();
        for (a, b) in [(9, 4), (4, 7), (1, 2)] {
            components.join(a, b);
        }
        assert_eq!(components.roots(), [(1, 1), (2, 1), (4, 4), (7, 4), (9, 4)]);
    }
}
