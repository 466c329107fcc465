//! positions: the positions of the texts of documents in candidates.

use super::interface::{AnyTable, BoxFuture, Job, OneTable, Result, Stage, StageContext, WorkTable};
use crate::pipeline::all_sketches::AllSketches;
use crate::pipeline::tables::position_columns;

/// Finds the texts of candidates.
pub(crate) struct Positions;

impl WorkTable {
    /// The positions of the texts of documents in candidates.
    pub(crate) const POSITIONS: Self = Self::new("positions", position_columns);
}

impl OneTable for Positions {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::POSITIONS);
    const WHAT: &'static str = "find the texts of candidates";
}

impl Stage for Positions {
    fn is_in(&self, job: &Job) -> bool {
        job.compares() && AllSketches::of(job) == AllSketches::Nowhere
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let wanted = cx.wanted_of_candidates()?;
            cx.find(self, &wanted).await
        })
    }
}
