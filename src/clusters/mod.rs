//! Clusters pairs in memory: plain code on numbered nodes, one edge at a time.

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
    /// A cluster method divides the component and receives all of its edges.
    Whole(ClusterMethod),
    /// A cluster method divides the component and receives some of its edges.
    Part(ClusterMethod),
}

/// Returns the implementation for a division. This is the list of all cluster methods.
pub(crate) fn representatives(division: Division) -> Box<dyn Representatives> {
    match division {
        Division::Whole(ClusterMethod::Components) => Box::<connected::Connected>::default(),
        Division::Part(ClusterMethod::Components) => Box::<union_find::Parts>::default(),
        Division::Whole(ClusterMethod::Representative) | Division::Part(ClusterMethod::Representative) => {
            Box::<greedy::Greedy>::default()
        }
    }
}
