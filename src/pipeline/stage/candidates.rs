//! candidates: documents that may be similar, as the candidate method finds them.

use std::borrow::Cow;

use super::agreeing::Agreeing;
use super::interface::{
    BoxFuture, Job, Result, Stage, StageContext, Tables, WorkTable, Writes, not_null, null,
};
use super::search;
use crate::pipeline::tables::{pair_columns, single_columns};
use crate::pipeline::verify::signatures_first;

/// Finds documents that may be similar.
pub(crate) struct Candidates;

impl WorkTable {
    /// Every two documents that may be similar.
    pub(crate) const CANDIDATES: Self = Self::new("candidates", pair_columns);
    /// Documents of hot buckets; in a prefix join of all documents, those of dense ones.
    pub(crate) const HOT: Self = Self::new("hot", single_columns);
}

impl Writes for Candidates {
    fn name(&self) -> Cow<'static, str> {
        "candidates".into()
    }

    fn describe(&self, job: &Job) -> String {
        (search::of_job(job).describe_candidates)(job)
    }

    fn tables(&self, _job: &Job) -> Tables {
        // A document of a hot or dense bucket comes without a second one, and so does a leader.
        vec![not_null(WorkTable::CANDIDATES, "b"), null(WorkTable::HOT, "b")]
    }
}

impl Stage for Candidates {
    fn is_in(&self, job: &Job) -> bool {
        job.compares() && job.candidates.method.has_candidates()
    }

    fn runs_again(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        (search::of_job(cx.job).candidates)(cx, self)
    }

    fn follow_ups<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<Vec<&'static dyn Stage>>> {
        Box::pin(async move {
            let further = (search::of_job(cx.job).follow_ups)(cx);
            if further.is_empty() && signatures_first(cx).await? {
                return Ok(vec![&Agreeing as &dyn Stage]);
            }
            Ok(further)
        })
    }
}
