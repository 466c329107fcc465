//! Physical operators that the engine lacks, each with the logical node that stands for it.
//!
//! - [`bucket_pairs`]: the self-join on the bucket, as one pass over rows sorted by bucket.
//! - [`score`]: candidate pairs looked up in the stored sketches and scored.
//!
//! Both are plain stream transformations: one partition in, one partition out, no state between runs.

pub mod bucket_pairs;
mod node;
pub mod score;

pub use node::{Operator, OperatorPlanner, apply};
