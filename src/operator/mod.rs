//! Physical operators that DataFusion lacks. `node` lists the operators and builds plans with them. Each operator transforms the streams of
//! its input partitions to one output stream. Operators keep no state between runs. [`crate::plan`] turns them into plan nodes.

pub mod bucket_groups;
pub(crate) mod bucket_pairs;
pub(crate) mod clusters;
pub(crate) mod copy_pairs;
pub mod dense_pairs;
pub(crate) mod filters;
#[cfg(test)]
pub(crate) mod fixtures;
pub(crate) mod keyed_rows;
mod node;
pub(crate) mod prefixes;
pub(crate) mod score;
mod sketch_joins;
pub(crate) mod sketches;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaBuilder, SchemaRef};

pub(crate) use node::{Operator, OperatorPlanner, apply};

/// Returns the columns of `rows`, and a last column `name: Boolean` that contains no nulls.
fn with_flag(rows: &Schema, name: &str) -> SchemaRef {
    let mut fields = SchemaBuilder::from(&rows.fields);
    fields.push(Field::new(name, DataType::Boolean, false));
    Arc::new(fields.finish().with_metadata(rows.metadata.clone()))
}
