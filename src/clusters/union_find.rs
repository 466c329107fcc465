//! Finds connected components by union-find, from all pairs or from the stronger pairs in one component.

use std::ops::Range;

use super::interface::{Edge, EdgeOrder, Representatives, Represented};

/// The value of an empty slot in the hash table.
const EMPTY: u32 = u32::MAX;

/// The initial capacity, in nodes.
const FIRST_ROOM: usize = 64;

/// An odd number near 2^64 divided by the golden ratio. Multiplication by this number spreads keys that are close together (Knuth, *The Art
/// of Computer Programming*, volume 3, section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The component of each node. The root of a component is its smallest node.
///
/// Each node has an index, its *place*, in the order of first appearance. The first of three arrays contains the node at each place (8
/// bytes), and the second contains the place of its parent (4 bytes). The third array is a hash table from nodes to places (4 bytes per
/// slot, at most three out of four slots in use). It uses open addressing. Together, these arrays take 17.4 bytes per node of capacity. The
/// capacity grows by half at a time, so a node takes between 17.4 and 26 bytes. The tests measure these sizes.
///
/// When two trees are joined, the larger root becomes a child of the smaller root. So no ranks are stored, and each root is the smallest
/// node of its component. With path halving, m joins of n nodes still take O(m log n) steps (Tarjan and van Leeuwen 1984).
#[derive(Debug, Default)]
pub(crate) struct Components {
    nodes: Vec<u64>,
    parents: Vec<u32>,
    slots: Vec<u32>,
}

impl Components {
    pub(crate) fn join(&mut self, a: u64, b: u64) {
        self.make_room(2);
        let (a, b) = (self.place(a), self.place(b));
        let (a, b) = (self.root(a), self.root(b));
        let (least, other) = if self.nodes[a as usize] <= self.nodes[b as usize] { (a, b) } else { (b, a) };
        self.parents[other as usize] = least;
    }

    pub(crate) fn bytes(&self) -> usize {
        8 * self.nodes.capacity() + 4 * (self.parents.capacity() + self.slots.capacity())
    }

    /// Returns the maximum size of the arrays, in bytes, while they grow for `more` nodes and after that. Returns `None` if there are too
    /// many nodes for 32-bit places.
    pub(crate) fn bytes_with_room(&self, more: usize) -> Option<usize> {
        let room = self.room_for(more);
        // Places have 32 bits, and one value marks an empty slot.
        if room >= EMPTY as usize {
            return None;
        }
        Some(self.bytes().max(12 * room + 4 * slots_for(room)))
    }

    pub(crate) fn make_room(&mut self, more: usize) {
        let room = self.room_for(more);
        if room == self.nodes.capacity() {
            return;
        }
        // The hash table is freed first and rebuilt from the nodes last, so that growing never takes more memory than the result.
        self.slots = Vec::new();
        self.nodes.reserve_exact(room - self.nodes.len());
        self.parents.reserve_exact(room - self.parents.len());
        self.slots = vec![EMPTY; slots_for(room)];
        for place in 0..self.nodes.len() {
            let slot = self.slot(self.nodes[place]);
            self.slots[slot] = place as u32;
        }
    }

    /// Returns the capacity that the arrays need for `more` additional nodes.
    fn room_for(&self, more: usize) -> usize {
        let (room, needed) = (self.nodes.capacity(), self.nodes.len() + more);
        if needed <= room { room } else { needed.max(room + room / 2).max(FIRST_ROOM) }
    }

    /// Returns the slot that contains `node`, or the empty slot in which it belongs.
    fn slot(&self, node: u64) -> usize {
        let slots = self.slots.len();
        // The upper half is folded into the lower half. Otherwise keys at equal distances would collide.
        let mixed = (node ^ (node >> 32)).wrapping_mul(GOLDEN);
        let mut slot = ((u128::from(mixed) * slots as u128) >> 64) as usize;
        while self.slots[slot] != EMPTY && self.nodes[self.slots[slot] as usize] != node {
            slot = if slot + 1 == slots { 0 } else { slot + 1 };
        }
        slot
    }

    fn place(&mut self, node: u64) -> u32 {
        let slot = self.slot(node);
        if self.slots[slot] == EMPTY {
            let place = self.nodes.len() as u32;
            self.nodes.push(node);
            self.parents.push(place);
            self.slots[slot] = place;
        }
        self.slots[slot]
    }

    fn root(&mut self, mut place: u32) -> u32 {
        loop {
            let parent = self.parents[place as usize];
            if parent == place {
                return place;
            }
            let grandparent = self.parents[parent as usize];
            self.parents[place as usize] = grandparent;
            place = grandparent;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the nodes at these places and the roots of their components. Places after the last node are ignored.
    pub(crate) fn roots(&mut self, places: Range<usize>) -> (Vec<u64>, Vec<u64>) {
        let places = places.start..places.end.min(self.nodes.len());
        let root = |place: usize| {
            let root = self.root(place as u32);
            (self.nodes[place], self.nodes[root as usize])
        };
        places.map(root).unzip()
    }
}

/// Returns the number of slots in a hash table for `room` nodes. A quarter of the slots, but at least one slot, remains empty.
fn slots_for(room: usize) -> usize {
    room + room / 3 + 1
}

/// Finds the parts of a component that remain connected without its weaker edges. The first node of a part is its representative.
/// Representatives and nodes without an edge have no row.
#[derive(Debug, Default)]
pub(crate) struct Parts(Components);

impl Representatives for Parts {
    fn order(&self) -> EdgeOrder {
        // Any order gives the same parts.
        EdgeOrder::ByNodes
    }

    fn bytes_with(&self, _edge: Edge) -> usize {
        self.0.bytes_with_room(2).unwrap_or(usize::MAX)
    }

    fn add(&mut self, edge: Edge, _found: &mut dyn FnMut(Represented)) {
        self.0.join(edge.high, edge.low);
    }

    fn end(&mut self, found: &mut dyn FnMut(Represented)) {
        let (nodes, roots) = std::mem::take(&mut self.0).roots(0..usize::MAX);
        for (node, representative) in nodes.into_iter().zip(roots).filter(|(node, root)| node != root) {
            found(Represented { node, representative, jaccard: None, weakest_link: None });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn roots(edges: &[(u64, u64)]) -> BTreeMap<u64, u64> {
        let mut components = Components::default();
        edges.iter().for_each(|&(a, b)| components.join(a, b));
        let (nodes, roots) = components.roots(0..usize::MAX);
        assert_eq!((nodes.len(), roots.len()), (components.len(), components.len()));
        let found: BTreeMap<_, _> = nodes.into_iter().zip(roots).collect();
        assert_eq!(found.len(), components.len(), "a node is repeated");
        found
    }

    #[test]
    fn chains_are_one_component() {
        assert_eq!(roots(&[(9, 4), (4, 7), (1, 2)]), [(1, 1), (2, 1), (4, 4), (7, 4), (9, 4)].into());
        assert_eq!(roots(&[]), BTreeMap::new());
        assert_eq!(roots(&[(u64::MAX, 0), (5, 5)]), [(0, 0), (u64::MAX, 0), (5, 5)].into());
    }

    /// [`Components::bytes_with_room`] predicts the size exactly, and the sizes in the doc comment of [`Components`] are right.
    #[test]
    fn a_node_takes_between_17_and_26_bytes() {
        let mut components = Components::default();
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for n in 1..300_000_u64 {
            let predicted = components.bytes_with_room(2).unwrap();
            components.join(n.wrapping_mul(GOLDEN), n.wrapping_mul(GOLDEN) ^ 1);
            assert_eq!(components.bytes(), predicted, "{n}");
            if n > 100_000 {
                let of_node = components.bytes() as f64 / components.len() as f64;
                (least, most) = (least.min(of_node), most.max(of_node));
            }
        }
        assert_eq!(components.len(), 599_998);
        assert!((17.3..17.5).contains(&least) && (25.9..26.1).contains(&most), "{least} to {most}");
        let components = Components::default();
        assert!(components.bytes_with_room(4_000_000_000).is_some());
        assert!(components.bytes_with_room(u32::MAX as usize).is_none());
    }

    fn parts(edges: &BTreeSet<(u64, u64)>) -> BTreeMap<u64, u64> {
        let mut parts = Parts::default();
        let mut found = BTreeMap::new();
        // The second component starts empty.
        for _ in 0..2 {
            found.clear();
            for &(high, low) in edges {
                let edge = Edge { high, low, jaccard: 1.0 };
                parts.add(edge, &mut |_| panic!("a part is known at its end"));
            }
            parts.end(&mut |row| assert!(found.insert(row.node, row.representative).is_none()));
        }
        found
    }

    proptest! {
        /// Compares the parts with the result of label propagation.
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
