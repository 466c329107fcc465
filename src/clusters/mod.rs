//! Clusters of pairs, on one machine: plain functions on numbered nodes, one edge at a time.
//!
//! - `components`: connected components, by union-find.
//! - `strongest`: the strongest path from each node of a component to the first.
//! - `greedy`: representatives, each with the nodes that are paired with it.

mod components;
mod greedy;
mod strongest;

pub use components::Components;
pub use greedy::Greedy;
pub use strongest::StrongestPaths;
