//! The engine of one machine: the plan runs in this process.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;

use super::deal::deal;
use super::{Engine, Watch};
use crate::error::{Error, Result};
use crate::sink::manifest::File;

/// How often progress is read off the running plan.
const GLANCE: Duration = Duration::from_millis(100);

/// Runs plans in this process.
pub struct Local {
    session: SessionContext,
}

impl Local {
    /// The engine on `session`, whose memory pool bounds it.
    pub fn new(session: SessionContext) -> Self {
        Self { session }
    }
}

#[async_trait]
impl Engine for Local {
    fn session(&self) -> &SessionContext {
        &self.session
    }

    async fn run(&self, _step: &str, plan: Arc<dyn ExecutionPlan>, watch: &Watch) -> Result<Vec<File>> {
        let plan = deal(plan)?;
        let root: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::clone(&plan)));
        let mut stream = execute_stream(root, self.session.task_ctx())?;
        let mut files = Vec::new();
        let mut glance = tokio::time::interval(GLANCE);
        loop {
            tokio::select! {
                biased;
                // Dropping the stream stops every task of the plan.
                () = watch.stop.cancelled() => return Err(Error::interrupted()),
                batch = stream.try_next() => match batch? {
                    Some(batch) => files.extend(File::read_rows(&batch)?),
                    None => break,
                },
                _ = glance.tick() => {
                    let (rows_in, rows_out) = rows_so_far(&plan);
                    watch.progress.stage_advances(rows_in, rows_out);
                }
            }
        }
        files.sort();
        Ok(files)
    }
}

/// Rows that the plan's leaves gave so far, and rows that its root took.
fn rows_so_far(plan: &Arc<dyn ExecutionPlan>) -> (u64, u64) {
    fn own(plan: &Arc<dyn ExecutionPlan>) -> u64 {
        plan.metrics().and_then(|m| m.output_rows()).unwrap_or(0) as u64
    }
    fn leaves(plan: &Arc<dyn ExecutionPlan>) -> u64 {
        match plan.children().as_slice() {
            [] => own(plan),
            children => children.iter().map(|child| leaves(child)).sum(),
        }
    }
    (leaves(plan), own(plan))
}
