//! One stage per file, in the order of the flow. Each is a function from frames to a frame: lazy, without I/O and
//! without a session; its parameters are its section of the job. [`crate::pipeline`] runs them and keeps what they
//! make.

pub mod bands;
pub mod candidates;
pub mod clusters;
pub mod components;
pub mod dense;
pub mod dictionary;
pub mod documents;
pub mod duplicates;
mod empty_text;
pub mod groups;
pub mod members;
pub mod pairs;
pub mod prefix;
pub mod scores;
pub mod shingles;
pub mod signatures;
pub mod sketches;

use datafusion::prelude::{DataFrame, Expr, col};

/// The columns of the source that a frame carries, in their order: see [`crate::schema::carried`].
pub(crate) fn carried(frame: &DataFrame) -> Vec<Expr> {
    let has = |name: &String| frame.schema().as_arrow().column_with_name(name).is_some();
    (0..).map(crate::schema::carried).take_while(has).map(|name| col(name.as_str())).collect()
}
