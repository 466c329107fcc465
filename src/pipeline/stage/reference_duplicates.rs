//! reference_duplicates: documents of a second source whose id an earlier one has.

use super::duplicates;
use super::interface::{AnyTable, Error, Planned, Stage, StagePlan, WorkTable};
use crate::frames::duplicates::duplicates;
use crate::job::DuplicateIds;
use crate::pipeline::reference::ReferenceDocuments;

impl WorkTable {
    /// Documents of a second source whose key an earlier one has.
    pub(crate) const REFERENCE_DUPLICATES: Self = Self::new("reference_duplicates", duplicates::columns);
}

/// Finds documents of a second source whose id an earlier one has.
pub(super) static REFERENCE_DUPLICATES: Stage = Stage::new(
    AnyTable::Work(WorkTable::REFERENCE_DUPLICATES),
    |_| "find documents of the second source that have the id of an earlier one".into(),
    |job| job.second_source().is_some_and(|source| source.duplicate_ids == DuplicateIds::Reject),
    StagePlan::Now(|cx| {
        let Some(ReferenceDocuments::Source(source)) = cx.reference else {
            return Err(Error::bug("the job has no second source"));
        };
        Ok(Planned::new(0, vec![duplicates(source.documents(), &cx.job.shingle)?]))
    }),
);
