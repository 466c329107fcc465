//! Clusters pairs in memory: plain code on numbered nodes, one edge at a time.
//!
//! - `union_find`: connected components by union-find, and the parts of a component that only its stronger edges connect.
//! - `interface`: the interface of a cluster method.
//! - `connected`: a component as one cluster, with the strongest path from each node to the first node.
//! - `greedy`: representatives, each with the nodes that are paired with it.
//! - `losses`: the shingles that are lost when the duplicates of a cluster are removed.

mod connected;
mod greedy;
mod interface;
mod losses;
mod union_find;

use serde::{Deserialize, Serialize};

use crate::job::ClusterMethod;
pub(crate) use interface::{Edge, EdgeOrder, Representatives, Represented};
pub(crate) use losses::ClusterLosses;
pub(crate) use union_find::Components;

/// The way in which a component is divided into clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Division {
    /// By a cluster method, with all edges of the component.
    Whole(ClusterMethod),
    /// By a cluster method, with some edges of the component.
    Part(ClusterMethod),
}

/// The list of cluster methods.
pub(crate) fn representatives(division: Division) -> Box<dyn Representatives> {
    match division {
        Division::Whole(ClusterMethod::Components) => Box::<connected::Connected>::default(),
        Division::Part(ClusterMethod::Components) => Box::<union_find::Parts>::default(),
        Division::Whole(ClusterMethod::Representative) | Division::Part(ClusterMethod::Representative) => {
            Box::<greedy::Greedy>::default()
        }
    }
}
