//! Clusters of pairs, on one machine: plain functions on numbered nodes, one edge at a time.
//!
//! - `components`: connected components, by union-find.
//! - `representatives`: the interface of a cluster method, and what it finds.
//! - `connected`, `strongest`: a component as one cluster, with the strongest path from each node to the first.
//! - `greedy`: representatives, each with the nodes that are paired with it.
//! - `losses`: the shingles that are lost when the duplicates of a cluster are removed.

mod components;
mod connected;
mod greedy;
mod losses;
mod representatives;
mod strongest;

use crate::job::ClusterMethod;
pub use components::Components;
pub use greedy::Greedy;
pub(crate) use losses::Losses;
pub(crate) use representatives::{Edge, EdgeOrder, Representatives, Represented};
pub use strongest::StrongestPaths;

/// The representatives by a method: the list of methods.
pub(crate) fn representatives(method: ClusterMethod) -> Box<dyn Representatives> {
    match method {
        ClusterMethod::Components => Box::<connected::Connected>::default(),
        ClusterMethod::Representative => Box::<Greedy>::default(),
    }
}
