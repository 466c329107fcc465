//! Query stages that the scheduler took back, which must not run again.
//!
//! When an executor is lost, the scheduler takes query stages back whose inputs went with it, and begins them again. What
//! such a stage had finished on other executors stays among the inputs of those after it, beside what it then writes once
//! more: rows come twice, and nobody notices. Its new tasks have the numbers, and with them the files, of its old ones, of
//! which some may still run. So its tasks fail here, the job with them, and the driver submits the step again as a job with
//! files of its own.

use std::fmt;
use std::sync::Arc;

use ballista_core::execution_plans::ShuffleReaderExec;
use datafusion::common::{Result, exec_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, PlanProperties};

use crate::plan::{Batches, Description, OperatorExec, Shape, Task};

/// What such a task says when it fails, and the driver of the step.
pub(super) const SHUFFLE_LOST: &str = "what a lost executor had written is gone";

/// `node`, or in its place one that fails, where it reads what another query stage wrote for one that was taken back.
pub(super) fn fail_reruns(
    node: Arc<dyn ExecutionPlan>,
    context: &TaskContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    match node.downcast_ref::<ShuffleReaderExec>() {
        Some(reader) if is_rerun(context) => {
            OperatorExec::plan(RerunGuard(Arc::clone(reader.properties())), Vec::new())
        }
        _ => Ok(node),
    }
}

/// Whether a task is one of a query stage that was begun before. Ballista names tasks `TID job/stage.attempt/task.attempt`.
fn is_rerun(context: &TaskContext) -> bool {
    let attempt = |id: String| Some(id.split('/').nth(1)?.split_once('.')?.1.to_owned());
    context.task_id().and_then(attempt).is_some_and(|attempt| attempt != "0")
}

/// Stands where a query stage would read. It fails when it runs, not when it is made: a task that cannot be read is reported
/// as one of its first attempt, which nobody waits for any more.
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
