//! Physical operators that the engine lacks, each with the logical node that stands for it.
//!
//! - [`bucket_pairs`]: the self-join on the bucket, as one pass over rows sorted by bucket.
//! - [`token_counts`], [`prefixes`]: what a prefix filter needs to know, and the prefixes.
//! - [`score`]: candidate pairs looked up in the stored sketches and scored.
//!
//! All are plain stream transformations: one partition in, one partition out, no state between runs. What they are to
//! the engine is in one place, `exec`.

pub mod bucket_pairs;
mod exec;
mod node;
pub mod prefixes;
pub mod score;
pub mod token_counts;

pub use node::{Operator, OperatorPlanner, apply};
