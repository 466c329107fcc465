//! Chooses representatives greedily. The members of a cluster are the nodes that are paired with its representative.

use super::interface::{Edge, EdgeOrder, Representatives, Represented};

const BITS: usize = u64::BITS as usize;

/// Chooses representatives in the order of node numbers. A node that is paired with earlier representatives becomes a member of the first
/// of them. Every other node becomes a representative.
///
/// The representatives are the lexicographically first maximal independent set of the pairs (Blelloch, Fineman and Shun, *Greedy sequential
/// maximal independent set and matching are parallel on average*, SPAA 2012). One pass over the sorted pairs finds the representatives,
/// with one bit per node.
#[derive(Debug, Default)]
pub(crate) struct Greedy {
    /// One bit per node, which is set if the node is a member.
    members: Vec<u64>,
}

impl Greedy {
    /// Returns whether `low` represents `high`, with which it is paired. If so, records `high` as a member. Pairs are sorted by (high,
    /// low), so it is already decided whether `low` is a member.
    fn represents(&mut self, high: u64, low: u64) -> bool {
        if self.is_member(high) || self.is_member(low) {
            return false;
        }
        let (word, bit) = place(high);
        if word >= self.members.len() {
            self.members.resize(word + 1, 0);
        }
        self.members[word] |= bit;
        true
    }

    fn is_member(&self, node: u64) -> bool {
        let (word, bit) = place(node);
        self.members.get(word).is_some_and(|members| members & bit != 0)
    }

    fn bytes(&self) -> usize {
        size_of::<u64>() * self.members.capacity()
    }
}

impl Representatives for Greedy {
    fn order(&self) -> EdgeOrder {
        EdgeOrder::ByNodes
    }

    fn bytes_with(&self, edge: Edge) -> usize {
        // Vectors double when they grow.
        self.bytes().max(2 * size_of::<u64>() * (place(edge.high).0 + 1))
    }

    fn add(&mut self, edge: Edge, found: &mut dyn FnMut(Represented)) {
        let Edge { high: node, low: representative, jaccard } = edge;
        if self.represents(node, representative) {
            found(Represented { node, representative, jaccard: Some(jaccard), weakest_link: None });
        }
    }

    fn end(&mut self, _found: &mut dyn FnMut(Represented)) {
        self.members.clear();
    }
}

/// Returns the index of the word that contains the bit of a node, and a mask for this bit.
fn place(node: u64) -> (usize, u64) {
    let node = node as usize;
    (node / BITS, 1 << (node % BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn members(pairs: &BTreeSet<(u64, u64)>) -> BTreeMap<u64, u64> {
        let mut greedy = Greedy::default();
        let members: Vec<_> =
            pairs.iter().copied().filter(|&(high, low)| greedy.represents(high, low)).collect();
        let count = members.len();
        let members: BTreeMap<_, _> = members.into_iter().collect();
        assert_eq!(members.len(), count, "a node has two representatives");
        members
    }

    proptest! {
        #[test]
        fn each_node_has_the_first_representative_that_it_is_paired_with(
            pairs in prop::collection::btree_set((0_u64..40, 0_u64..40), 0..120),
        ) {
            let pairs: BTreeSet<_> = pairs.into_iter().filter(|(a, b)| a != b).map(|(a, b)| (a.max(b), a.min(b))).collect();
            let mut representatives = Vec::new();
            let mut expected = BTreeMap::new();
            for node in 0..40 {
                match representatives.iter().find(|&&before| pairs.contains(&(node, before))) {
                    Some(&before) => { expected.insert(node, before); }
                    None => representatives.push(node),
                }
            }
            prop_assert_eq!(members(&pairs), expected);
        }
    }
}
