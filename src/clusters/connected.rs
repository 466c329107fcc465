//! A component as one cluster, which its first node represents.

use super::representatives::{Edge, EdgeOrder, Representatives, Represented};
use super::strongest::StrongestPaths;

/// The largest number of a node in a component whose paths are searched, which takes 20 to 40 bytes a node.
const MOST_NODES: u32 = 1_000_000;
/// The node that represents the component.
const FIRST: u64 = 1;

/// Node 1 represents its component. Every node has a row if no number is over [`MOST_NODES`]; in a larger component only the
/// nodes that are paired with node 1 have one, without `weakest_link`. In the row of node 1, `weakest_link` is its greatest
/// similarity, by which copies without a pair are connected.
#[derive(Debug, Default)]
pub(crate) struct Connected {
    paths: StrongestPaths,
    /// Whether a node has a number over [`MOST_NODES`].
    too_large: bool,
}

impl Connected {
    /// The number of a node whose paths are searched.
    fn searched(&self, node: u64) -> Option<u32> {
        u32::try_from(node).ok().filter(|&node| node <= MOST_NODES && !self.too_large)
    }
}

/// A node of the cluster of node 1.
fn member(node: u64, jaccard: Option<f64>, weakest_link: Option<f64>) -> Represented {
    Represented { node, representative: FIRST, jaccard, weakest_link }
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
            // Less than `high`, so it has 32 bits too.
            self.paths.join(high, low as u32, jaccard);
            return;
        }
        if !std::mem::replace(&mut self.too_large, true) {
            for path in self.paths.paths().filter(|path| path.direct.is_some()) {
                found(member(path.node.into(), path.direct, None));
            }
        }
        if low == FIRST {
            found(member(high, Some(jaccard), None));
        }
    }

    fn end(&mut self, found: &mut dyn FnMut(Represented)) {
        if !std::mem::take(&mut self.too_large) {
            found(member(FIRST, None, self.paths.strongest_of_first()));
            for path in self.paths.paths() {
                found(member(path.node.into(), path.direct, Some(path.weakest)));
            }
        }
        self.paths.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order of the edges does not matter, even of the one that shows the component's size.
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
}
