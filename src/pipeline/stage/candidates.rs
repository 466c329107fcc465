//! candidates: documents that may be similar, as the candidate method finds them.

use super::agreeing;
use super::interface::{AnyTable, Stage, StagePlan, WorkTable, not_null, null};
use super::search;
use crate::pipeline::tables::{pair_columns, single_columns};

impl WorkTable {
    /// Every two documents that may be similar.
    pub(crate) const CANDIDATES: Self = Self::new("candidates", pair_columns);
    /// Documents of hot buckets; in a prefix join of all documents, those of dense ones.
    pub(crate) const HOT: Self = Self::new("hot", single_columns);
}

/// Finds documents that may be similar.
pub(super) static CANDIDATES: Stage = Stage::new(
    AnyTable::Work(WorkTable::CANDIDATES),
    |job| (search::by_method(job).describe_candidates)(job),
    |job| job.compares() && job.candidates.method.has_candidates(),
    StagePlan::Later(|cx| Box::pin(search::by_method(cx.job).candidates.plan(cx))),
)
// A document of a hot or dense bucket comes without a second one, and so does a leader.
.with_tables(|_| vec![not_null(WorkTable::CANDIDATES, "b"), null(WorkTable::HOT, "b")])
.then(|cx| {
    Box::pin(async move {
        let further = (search::by_method(cx.job).follow_ups)(cx).await?;
        if further.is_empty() { agreeing::follow_ups(cx).await } else { Ok(further) }
    })
});
