//! The plan node that all operators use, and the store for rows that spill between operators. An operator is a `Description`: plain data
//! that can be cloned, shown and sent. [`OperatorExec`] implements everything else that DataFusion requires from a node. So the file of an
//! operator contains only its description, the shape of its output, and its computation.

mod operator_exec;
mod partition_store;

pub use operator_exec::OperatorExec;
pub(crate) use operator_exec::{
    Batches, Description, Requirement, Shape, SharedValue, Task, file_scan, map_to_end, only_input,
    scanned_rows,
};
pub(crate) use partition_store::{Gathered, PartitionReads, PartitionStore};
