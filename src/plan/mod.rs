//! The one type of node that all our operators have in a physical plan, and the structures that operators share.
//!
//! An operator is a `Description`: plain data that can be cloned, shown and sent. [`OperatorExec`] is everything else
//! that DataFusion requires of a node. So a file that adds an operator has its description, the shape of its output,
//! and its work.
//!
//! `partition_store` is the store of all rows that spill between operators.

mod description;
mod exec;
mod partition_store;

pub(crate) use description::{
    Batches, Description, Requirement, Shape, SharedValue, Task, file_scan, only_input, scanned_rows,
};
pub use exec::OperatorExec;
pub(crate) use partition_store::{Gathered, PartitionReads, PartitionStore};
