//! A guard against query stages that run again, which would duplicate rows.
//!
//! When an executor is lost, the scheduler begins query stages again that had read its output. The output that such a stage had
//! finished on other executors stays an input of the next stages, together with the new output: its rows are repeated. New tasks
//! also have the numbers and the files of old ones, which may still run. So the tasks of such a stage fail here, and with them
//! the job, and the driver submits the stage again as a job with new files.

use std::fmt;
use std::sync::Arc;

use ballista_core::execution_plans::ShuffleReaderExec;
use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

use crate::error::library_errors::is_rerun_stage;
use crate::plan::{Batches, Description, OperatorExec, Shape, Task};

/// The message of such a task, and of the driver about the stage.
pub(super) const SHUFFLE_LOST: &str = "what a lost executor had written is gone";

/// `node`, or a node that fails if `node` reads the input of a query stage that runs again.
pub(super) fn fail_reruns(
    node: Arc<dyn ExecutionPlan>,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    match node.downcast_ref::<ShuffleReaderExec>() {
        Some(reader) if context.task_id().is_some_and(|task| is_rerun_stage(&task)) => {
            OperatorExec::plan(RerunGuard(Arc::clone(reader.properties())), Vec::new())
        }
        _ => Ok(node),
    }
}

/// Takes the place of a reader and fails when it runs. A task that could not be decoded would be reported as one of the first
/// attempt, for which the scheduler no longer waits.
#[derive(Debug, Clone)]
struct RerunGuard(Arc<PlanProperties>);

impl fmt::Display for RerunGuard {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl Description for RerunGuard {
    const NAME: &'static str = "RerunGuard";

    type Shared = ();

    fn shape(&self, _: &[Arc<dyn ExecutionPlan>]) -> Result<Shape> {
        Ok(Shape::new(Arc::clone(&self.0), Vec::new()))
    }

    fn start(self: Arc<Self>, _: Task<'_, ()>) -> Result<Batches> {
        exec_err!("{SHUFFLE_LOST}")
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::Partitioning;
    use datafusion::prelude::SessionConfig;

    use super::*;

    #[test]
    fn readers_of_query_stages_that_run_again_fail_and_all_others_stay() {
        let context = |id: Option<&str>| {
            let none = Default::default;
            let (config, runtime) = (SessionConfig::new(), Default::default());
            let id = id.map(str::to_owned);
            TaskContext::new(
                id,
                "s".into(),
                config,
                none(),
                Default::default(),
                Default::default(),
                Default::default(),
                runtime,
            )
        };
        let schema = Arc::new(Schema::empty());
        let reader =
            ShuffleReaderExec::try_new(3, vec![vec![]], schema, Partitioning::UnknownPartitioning(1));
        let reader: Arc<dyn ExecutionPlan> = Arc::new(reader.unwrap());
        for (id, stays) in [
            (None, true),
            (Some("TID 038FZPRKC2000/11.0/2.1"), true),
            (Some("TID 038FZPRKC2000/11.1/2.0"), false),
            (Some("TID 038FZPRKC2000/0.12/2.0"), false),
        ] {
            let context = context(id);
            let node = fail_reruns(Arc::clone(&reader), &context).unwrap();
            assert_eq!(node.downcast_ref::<ShuffleReaderExec>().is_some(), stays, "{id:?}");
            assert!(stays || node.execute(0, Arc::new(context)).is_err(), "{id:?}");
        }
    }
}
