//! Physical operators that DataFusion lacks. `node` lists them and makes plans of them.
//!
//! - `bucket_pairs`: the self-join on the bucket, over rows that [`by_bucket`] groups.
//! - [`dense_pairs`]: the same for shingles that too many documents share to compare all of them. Both read rows through
//!   `bucket_reader`.
//! - `token_counts`, `prefixes`: the counters of a prefix filter, and the prefixes.
//! - `without_frequent`: sets without the shingles that too many documents have.
//! - `first_of_each`: the first row of each key, and its values in all rows of the key.
//! - `lists`: the values of each key as a list.
//! - `may_repeat`: the rows whose key another row may have.
//! - `losses`: what is lost when the duplicates of clusters are removed.
//! - `may_match`: the reference documents that may match new documents.
//! - `represent`: the representative of each document of a component.
//! - `score`, `scorer`: the scores of pairs, from their sketches; `sketches`, `score_home` and `score_segment` for candidates,
//!   `all_pairs` for all pairs.
//!
//! All are stream transformations: one partition in, one partition out, no state between runs. [`crate::plan`] makes nodes of
//! them.

mod all_pairs;
pub(crate) mod bucket_pairs;
mod bucket_reader;
pub mod by_bucket;
pub mod dense_pairs;
pub(crate) mod first_of_each;
#[cfg(test)]
mod fixtures;
pub(crate) mod lists;
pub(crate) mod losses;
pub(crate) mod may_match;
pub(crate) mod may_repeat;
mod node;
pub(crate) mod prefixes;
pub(crate) mod represent;
pub(crate) mod score;
mod score_home;
mod score_segment;
pub(crate) mod scorer;
mod sketches;
pub(crate) mod token_counts;
pub(crate) mod without_frequent;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaBuilder, SchemaRef};

pub(crate) use node::{Operator, OperatorPlanner, apply};

/// The columns of `rows`, and a last one `name: Boolean` without nulls.
fn with_flag(rows: &Schema, name: &str) -> SchemaRef {
    let mut fields = SchemaBuilder::from(&rows.fields);
    fields.push(Field::new(name, DataType::Boolean, false));
    Arc::new(fields.finish().with_metadata(rows.metadata.clone()))
}
