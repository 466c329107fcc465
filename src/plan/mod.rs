//! The one type of node that all our operators have in a physical plan, and the structures that operators share.
//!
//! An operator is a `Description`: plain data that can be cloned, shown and sent. [`OperatorExec`] is everything else
//! that DataFusion requires of a node. So a file that adds an operator has its description, the shape of its output,
//! and its work.
//!
//! - `file_scan`: the scan of files that a node is.
//! - `partition_store`: the store of all rows that spill between operators.
//! - `shared_value`: a value that is made once for all partitions of an operator.

mod description;
mod exec;
mod file_scan;
mod partition_store;
mod shared_value;

pub(crate) use description::{Batches, Description, Requirement, Shape, Task, only_input};
pub use exec::OperatorExec;
pub(crate) use file_scan::file_scan;
pub(crate) use partition_store::{Gathered, PartitionStore, Reads};
pub(crate) use shared_value::SharedValue;
