//! Clusters out of pairs, on one machine: plain functions on numbered nodes, one edge at a time.
//!
//! - `components`: what is connected, by union-find.
//! - `strongest`: how well a node of a component is connected with the first one.
//! - `greedy`: nodes of a component that represent others, each beside one that it is paired with.

mod components;
mod greedy;
mod strongest;

pub use components::Components;
pub use greedy::Greedy;
pub use strongest::StrongestPaths;
