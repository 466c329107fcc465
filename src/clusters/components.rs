//! Connected components of the pairs, by union-find on one machine.

use std::ops::Range;

/// The value of an empty slot of the hash table.
const EMPTY: u32 = u32::MAX;

/// The first capacity, in nodes.
const FIRST_ROOM: usize = 64;

/// An odd number near 2^64 divided by the golden ratio: multiplied with it, keys that lie close together lie far apart
/// (Knuth, *The Art of Computer Programming*, volume 3, section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The component of each node, named by its root, which is the least node.
///
/// Each node has a place, in the order of first appearance. There are three arrays: the node of each place (8 bytes), its
/// parent's place (4 bytes), and a hash table with open addressing for the place of a node (4 bytes a slot, at most three of
/// four slots in use). That is 17.4 bytes a node of capacity. The capacity grows by half at a time, so a node takes between 17.4
/// and 26 bytes; the tests measure it.
///
/// The greater of two roots is put below the lesser, so there is no rank to keep and the root needs no search at the end. With
/// path halving, m joins of n nodes still take O(m log n) steps (Tarjan and van Leeuwen 1984).
#[derive(Debug, Default)]
pub struct Components {
    nodes: Vec<u64>,
    parents: Vec<u32>,
    slots: Vec<u32>,
}

impl Components {
    /// Joins the components of `a` and `b`.
    pub fn join(&mut self, a: u64, b: u64) {
        self.make_room(2);
        let (a, b) = (self.place(a), self.place(b));
        let (a, b) = (self.root(a), self.root(b));
        let (least, other) = if self.nodes[a as usize] <= self.nodes[b as usize] { (a, b) } else { (b, a) };
        self.parents[other as usize] = least;
    }

    /// Bytes of the arrays.
    pub(crate) fn bytes(&self) -> usize {
        8 * self.nodes.capacity() + 4 * (self.parents.capacity() + self.slots.capacity())
    }

    /// The most bytes with room for `more` nodes, also while it grows; `None` if it cannot number so many.
    pub(crate) fn bytes_with_room(&self, more: usize) -> Option<usize> {
        let room = self.room_for(more);
        // Places have 32 bits, and one value means an empty slot.
        if room >= EMPTY as usize {
            return None;
        }
        Some(self.bytes().max(12 * room + 4 * slots_for(room)))
    }

    /// Makes room for `more` nodes.
    pub(crate) fn make_room(&mut self, more: usize) {
        let room = self.room_for(more);
        if room == self.nodes.capacity() {
            return;
        }
        // The hash table, which follows from the nodes, is freed first and made last, so that growing never takes more memory
        // than the result.
        self.slots = Vec::new();
        self.nodes.reserve_exact(room - self.nodes.len());
        self.parents.reserve_exact(room - self.parents.len());
        self.slots = vec![EMPTY; slots_for(room)];
        for place in 0..self.nodes.len() {
            let slot = self.slot(self.nodes[place]);
            self.slots[slot] = place as u32;
        }
    }

    /// The capacity with room for `more` nodes.
    fn room_for(&self, more: usize) -> usize {
        let (room, needed) = (self.nodes.capacity(), self.nodes.len() + more);
        if needed <= room { room } else { needed.max(room + room / 2).max(FIRST_ROOM) }
    }

    /// The slot that holds `node`, or the empty one where it belongs.
    fn slot(&self, node: u64) -> usize {
        let slots = self.slots.len();
        // Folded first: keys in equal steps would collide.
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

    /// Nodes that were joined.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no node was joined.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The nodes at these places and the roots of their components. Places behind the last node are ignored.
    pub fn roots(&mut self, places: Range<usize>) -> (Vec<u64>, Vec<u64>) {
        let places = places.start..places.end.min(self.nodes.len());
        places.map(|place| (self.nodes[place], self.root_of(place))).unzip()
    }

    fn root_of(&mut self, place: usize) -> u64 {
        let root = self.root(place as u32);
        self.nodes[root as usize]
    }
}

/// Slots of the hash table for `room` nodes: one in four stays empty, and at least one.
fn slots_for(room: usize) -> usize {
    room + room / 3 + 1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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

    /// The prediction before growth is exact, and the figures of the doc comment hold.
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
    }

    #[test]
    fn more_nodes_than_it_can_number_are_refused_beforehand() {
        let components = Components::default();
        assert!(components.bytes_with_room(4_000_000_000).is_some());
        assert!(components.bytes_with_room(u32::MAX as usize).is_none());
    }
}
