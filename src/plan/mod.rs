//! The one node that all our operators are in a physical plan.
//!
//! An operator is a `Description`: plain data that says what is done, and that can be cloned, shown and, where a plan
//! travels, sent. [`OperatorExec`] is everything else that the engine asks a node for. So a file that adds an operator
//! holds its description, the shape of what comes out, and its work.

mod description;
mod exec;

pub(crate) use description::{Batches, Description, Requirement, Shape, Task, only_input};
pub use exec::OperatorExec;
