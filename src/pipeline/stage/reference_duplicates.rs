//! reference_duplicates: documents of a second source whose id an earlier one has.

use super::duplicates;
use super::interface::{AnyTable, BoxFuture, Error, Job, OneTable, Result, Stage, StageContext, WorkTable};
use crate::frames::duplicates::duplicates;
use crate::job::DuplicateIds;
use crate::pipeline::reference::ReferenceDocuments;

/// Finds documents of a second source whose id an earlier one has.
pub(crate) struct ReferenceDuplicates;

impl WorkTable {
    /// Documents of a second source whose key an earlier one has.
    pub(crate) const REFERENCE_DUPLICATES: Self = Self::new("reference_duplicates", duplicates::columns);
}

impl OneTable for ReferenceDuplicates {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::REFERENCE_DUPLICATES);
    const WHAT: &'static str = "find documents of the second source that have the id of an earlier one";
}

impl Stage for ReferenceDuplicates {
    fn is_in(&self, job: &Job) -> bool {
        job.second_source().is_some_and(|source| source.duplicate_ids == DuplicateIds::Reject)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let Some(ReferenceDocuments::Source(source)) = cx.reference else {
                return Err(Error::bug("the job has no second source"));
            };
            cx.run(self, 0, vec![duplicates(source.documents(), &cx.job.shingle)?]).await
        })
    }
}
