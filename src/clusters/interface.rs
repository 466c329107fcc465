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
    /// The minimum similarity on the best path between both nodes, if the method searches for it.
    pub(crate) weakest_link: Option<f64>,
}

/// The order of the edges of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EdgeOrder {
    /// Most similar pairs first.
    Strongest,
    /// By `high`, then by `low`.
    ByNodes,
}

/// Finds the representatives of nodes, component by component. Nodes without a row represent themselves.
pub(crate) trait Representatives: Send {
    /// The order in which edges must be added.
    fn order(&self) -> EdgeOrder;

    /// The maximum number of bytes in memory after the edge is added.
    fn bytes_with(&self, edge: Edge) -> usize;

    /// Adds an edge of the component. Passes nodes whose representatives are now decided to `found`.
    fn add(&mut self, edge: Edge, found: &mut dyn FnMut(Represented));

    /// Ends the component: passes the other nodes to `found` and removes all nodes.
    fn end(&mut self, found: &mut dyn FnMut(Represented));
}
