//! The connected parts of a component whose weaker edges are left out.

use super::representatives::{Edge, EdgeOrder, Representatives, Represented};

/// Union-find on the numbers of nodes. The first node of a part represents it. Nodes without an edge have no row, and neither have
/// representatives.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// The parent of each node, by its number; a root is its own, and has the least number of its tree.
    parents: Vec<u64>,
}

impl Parts {
    fn root(&mut self, mut node: u64) -> u64 {
        loop {
            let parent = self.parents[node as usize];
            if parent == node {
                return node;
            }
            // Path halving.
            let grandparent = self.parents[parent as usize];
            self.parents[node as usize] = grandparent;
            node = grandparent;
        }
    }
}

impl Representatives for Parts {
    fn order(&self) -> EdgeOrder {
        // Any order would do: the greatest number comes last in this one, so that memory grows slowly.
        EdgeOrder::ByNodes
    }

    fn bytes_with(&self, edge: Edge) -> usize {
        // Vectors double.
        size_of::<u64>() * self.parents.capacity().max(2 * (edge.high as usize + 1))
    }

    fn add(&mut self, edge: Edge, _found: &mut dyn FnMut(Represented)) {
        let from = self.parents.len() as u64;
        self.parents.extend(from..=edge.high);
        let (a, b) = (self.root(edge.high), self.root(edge.low));
        self.parents[a.max(b) as usize] = a.min(b);
    }

    fn end(&mut self, found: &mut dyn FnMut(Represented)) {
        for node in 0..self.parents.len() as u64 {
            let representative = self.root(node);
            if representative != node {
                found(Represented { node, representative, jaccard: None, weakest_link: None });
            }
        }
        self.parents.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn parts(edges: &BTreeSet<(u64, u64)>) -> BTreeMap<u64, u64> {
        let mut parts = Parts::default();
        let mut found = BTreeMap::new();
        // The memory of one component is used for the next.
        for _ in 0..2 {
            found.clear();
            for &(high, low) in edges {
                let edge = Edge { high, low, jaccard: 1.0 };
                assert!(parts.bytes_with(edge) >= 8 * (high as usize + 1));
                parts.add(edge, &mut |_| panic!("a part is known at its end"));
            }
            parts.end(&mut |row| assert!(found.insert(row.node, row.representative).is_none()));
        }
        found
    }

    #[test]
    fn a_component_falls_into_parts() {
        assert_eq!(parts(&[(2, 1), (5, 3), (7, 5)].into()), [(2, 1), (5, 3), (7, 3)].into());
        assert_eq!(parts(&[(9, 8), (9, 2), (8, 7)].into()), [(7, 2), (8, 2), (9, 2)].into());
        assert_eq!(parts(&BTreeSet::new()), BTreeMap::new());
    }

    proptest! {
        /// Compared with the spread of least numbers over edges, until nothing changes.
        #[test]
        fn each_node_has_the_least_node_of_its_part(
            pairs in prop::collection::btree_set((1_u64..40, 1_u64..40), 0..60),
        ) {
            let edges: BTreeSet<_> = pairs.into_iter().filter(|(a, b)| a != b).map(|(a, b)| (a.max(b), a.min(b))).collect();
            let mut least: Vec<u64> = (0..40).collect();
            for _ in 0..40 {
                for &(high, low) in &edges {
                    let both = least[high as usize].min(least[low as usize]);
                    (least[high as usize], least[low as usize]) = (both, both);
                }
            }
            let expected: BTreeMap<u64, u64> =
                (0..40).map(|node| (node, least[node as usize])).filter(|(node, least)| node != least).collect();
            prop_assert_eq!(parts(&edges), expected);
        }
    }
}
