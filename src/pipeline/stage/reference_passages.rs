//! reference_units, reference_run_fingerprints: what passages of reference documents are found by.
//!
//! Only rows that new documents may have are kept, so that a large reference is read and not written.

use super::interface::{Planned, Stage, StagePlan};
use super::units::{self, unit};
use super::word_runs::{self, FINGERPRINTS, length_of};
use crate::error::Error;
use crate::frames::{self, may_match};
use crate::pipeline::tables::{AnyTable, WorkTable};

impl WorkTable {
    /// The lines, sentences or paragraphs of reference documents that new documents may have.
    pub(crate) const REFERENCE_UNITS: Self = Self::new("reference_units", units::columns);
    /// The fingerprints of reference documents that new documents may have.
    pub(crate) const REFERENCE_FINGERPRINTS: Self =
        Self::new("reference_run_fingerprints", word_runs::fingerprint_columns);
}

/// Cuts the texts of reference documents into lines, sentences or paragraphs.
pub(super) static REFERENCE_UNITS: Stage = Stage::new(
    AnyTable::Work(WorkTable::REFERENCE_UNITS),
    |_| "read the reference documents and find the same parts in them".into(),
    |job| job.against.is_some() && unit(job).is_some(),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let by = unit(cx.job).ok_or_else(|| Error::bug("the job has no unit of passages"))?;
            let units = frames::spans::units(cx.searched_reference_texts().await?, by, &cx.job.shingle)?;
            let (new, count) = (cx.table(WorkTable::UNITS)?, cx.rows(WorkTable::UNITS));
            Ok(Planned::new(0, vec![may_match::by_token(units, new, count, "hash_0")?]))
        })
    }),
);

/// Cuts them, and keeps few of the hashes of their runs of words.
pub(super) static REFERENCE_FINGERPRINTS: Stage = Stage::new(
    AnyTable::Work(WorkTable::REFERENCE_FINGERPRINTS),
    |_| "read the reference documents and choose the same hashes of them".into(),
    |job| job.against.is_some() && (FINGERPRINTS.is_in)(job),
    StagePlan::Later(|cx| {
        Box::pin(async move {
            let texts = cx.searched_reference_texts().await?;
            let fingerprints = frames::word_runs::fingerprints(texts, length_of(cx)?, &cx.job.shingle)?;
            let (new, count) = (cx.table(WorkTable::FINGERPRINTS)?, cx.rows(WorkTable::FINGERPRINTS));
            Ok(Planned::new(0, vec![may_match::by_token(fingerprints, new, count, "fingerprint")?]))
        })
    }),
);
