//! Clusters of pairs, on one machine: plain functions on numbered nodes, one edge at a time.
//!
//! - `components`: connected components, by union-find.
//! - `representatives`: the interface of a cluster method, and what it finds.
//! - `connected`, `strongest`: a component as one cluster, with the strongest path from each node to the first.
//! - `greedy`: representatives, each with the nodes that are paired with it.
//! - `losses`: the shingles that are lost when the duplicates of a cluster are removed.
//! - `parts`: the parts of a component that stronger edges alone connect.

mod components;
mod connected;
mod greedy;
mod losses;
mod parts;
mod representatives;
mod strongest;

use serde::{Deserialize, Serialize};

use crate::job::ClusterMethod;
pub use components::Components;
pub use greedy::Greedy;
pub(crate) use losses::ClusterLosses;
pub(crate) use representatives::{Edge, EdgeOrder, Representatives, Represented};
pub use strongest::StrongestPaths;

/// How the nodes of a component are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Division {
    /// By a cluster method, with all edges of the component.
    Whole(ClusterMethod),
    /// By a cluster method, with some edges of the component.
    Part(ClusterMethod),
}

/// The representatives by a method: the list of methods.
pub(crate) fn representatives(division: Division) -> Box<dyn Representatives> {
    match division {
        Division::Whole(ClusterMethod::Components) => Box::<connected::Connected>::default(),
        Division::Part(ClusterMethod::Components) => Box::<parts::Parts>::default(),
        Division::Whole(ClusterMethod::Representative) | Division::Part(ClusterMethod::Representative) => {
            Box::<Greedy>::default()
        }
    }
}
