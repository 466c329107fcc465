//! The interface of a cluster method, which finds the representative of each node in a component.

/// A pair of nodes in a component. Nodes are numbered from 1 in the order of preference, and `low` is less than `high`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) high: u64,
    pub(crate) low: u64,
    pub(crate) jaccard: f64,
}

/// A node and its representative.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Represented {
    pub(crate) node: u64,
    pub(crate) representative: u64,
    /// The similarity of both nodes, if they are a pair.
    pub(crate) jaccard: Option<f64>,
    /// The smallest similarity on the strongest path between both nodes, if the method searches for paths.
    pub(crate) weakest_link: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EdgeOrder {
    /// Most similar pairs first. Equally similar pairs come in any order, so their order must not change the result.
    Strongest,
    /// By `high`, then by `low`.
    ByNodes,
}

/// Finds the representatives of nodes, component by component. A node that is not passed to `found` represents itself.
pub(crate) trait Representatives: Send {
    fn order(&self) -> EdgeOrder;

    /// Returns the maximum size in memory, in bytes, after the edge is added.
    fn bytes_with(&self, edge: Edge) -> usize;

    /// Adds an edge of the component. Calls `found` with each node whose representative is now decided.
    fn add(&mut self, edge: Edge, found: &mut dyn FnMut(Represented));

    /// Ends the component: calls `found` with all remaining nodes, and removes all nodes.
    fn end(&mut self, found: &mut dyn FnMut(Represented));
}
