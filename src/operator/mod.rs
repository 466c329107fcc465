//! Physical operators that the engine lacks, each with the logical node that stands for it.
//!
//! - `bucket_pairs`: the self-join on the bucket, over rows that [`by_bucket`] brings together.
//! - [`dense_pairs`]: the same where so many documents share a shingle that not all pairs are wanted. Both read their rows through `bucket_reader`.
//! - `token_counts`, `prefixes`: what a prefix filter needs to know, and the prefixes.
//! - `touched`: the documents of earlier runs that new ones may be similar to.
//! - `represent`: which document represents each one of a component, and how well the two are connected.
//! - `score`: pairs looked up in sketches and scored; `sketches`, `scorer`, `score_home` and `score_segment` for candidates,
//!   `all_pairs` for all.
//!
//! All are plain stream transformations: one partition in, one partition out, no state between runs. What they are to
//! the engine is in one place, [`crate::plan`].

mod all_pairs;
pub(crate) mod bucket_pairs;
mod bucket_reader;
pub mod by_bucket;
pub mod dense_pairs;
mod node;
mod pair_builder;
pub(crate) mod prefixes;
pub(crate) mod represent;
pub(crate) mod score;
mod score_home;
mod score_segment;
mod scorer;
mod sketches;
pub(crate) mod token_counts;
pub(crate) mod touched;

pub(crate) use node::{Operator, OperatorPlanner, apply};
