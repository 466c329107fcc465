//! duplicates: documents whose id an earlier document has.

use arrow::datatypes::{DataType, Field};
use datafusion::prelude::DataFrame;

use super::interface::{
    AnyTable, Error, Planned, Result, SourceTypes, Stage, StageContext, StagePlan, WorkTable,
};
use crate::frames::duplicates::{both, duplicates, of_reference, reject};
use crate::job::{DuplicateIds, SameId};

/// The documents without those whose id an earlier or a reference document has, if the job rejects those.
pub(super) fn first_of_each_id(cx: &StageContext<'_>, documents: DataFrame) -> Result<DataFrame> {
    match cx.is_taken(WorkTable::DUPLICATES) {
        false => Ok(documents),
        true => reject(documents, cx.table(WorkTable::DUPLICATES)?),
    }
}

impl WorkTable {
    /// Documents whose key an earlier one has.
    pub(crate) const DUPLICATES: Self = Self::new("duplicates", columns);
}

pub(super) fn columns(_source: &SourceTypes) -> Vec<Field> {
    vec![
        Field::new("source", DataType::Utf8, false),
        Field::new("position", DataType::UInt64, false),
        Field::new("reason", DataType::Utf8, false),
    ]
}

/// Finds documents whose id an earlier one has, in a first reading that keeps only ids and the texts of repeated ones;
/// and documents whose id a reference document has, if these are skipped.
pub(super) static DUPLICATES: Stage = Stage::new(
    AnyTable::Work(WorkTable::DUPLICATES),
    |_| "find documents that have the id of an earlier one".into(),
    |job| {
        job.reads_texts()
            && (job.source.duplicate_ids == DuplicateIds::Reject || job.same_id() == Some(SameId::Skip))
    },
    StagePlan::Now(|cx| {
        let (job, documents) = (cx.job, cx.documents.clone());
        let reference = cx.reference_outputs().filter(|_| job.same_id() == Some(SameId::Skip));
        let of_reference = match reference {
            Some(reference) => Some(of_reference(documents.clone(), reference.names(cx)?)?),
            None => None,
        };
        let repeated = match job.source.duplicate_ids {
            DuplicateIds::Reject => Some(duplicates(documents, &job.shingle)?),
            DuplicateIds::Error => None,
        };
        let frame = match (repeated, of_reference) {
            (Some(repeated), Some(of_reference)) => both(of_reference, repeated)?,
            (Some(frame), None) | (None, Some(frame)) => frame,
            (None, None) => return Err(Error::bug("there is nothing to look for in ids")),
        };
        Ok(Planned::new(0, vec![frame]))
    }),
);
