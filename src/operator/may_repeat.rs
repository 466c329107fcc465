//! The rows whose key another row may have.
//!
//! Most lines and runs of words occur once, and what occurs once need not travel to be counted. The engine of one machine has a
//! filter for that (`engine::repeated_keys`) and puts it in the place of this node. Where tasks have no memory in common, all
//! rows pass.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use serde::{Deserialize, Serialize};

use crate::plan::{Batches, Description, Shape, Task, only_input};

/// Rows (key: UInt64, ..) -> those whose key another row has, and any others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MayRepeat;

impl Description for MayRepeat {
    const NAME: &'static str = "MayRepeatExec";

    type Shared = ();

    fn shape(&self, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        let rows = only_input(Self::NAME, inputs)?;
        Ok(Shape::in_partitions_of(rows, rows.schema()))
    }

    fn start(self: Arc<Self>, task: Task<'_, ()>) -> Result<Batches> {
        Ok(task.rows_of(0)?.boxed())
    }
}
