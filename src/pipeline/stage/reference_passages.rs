//! reference_units, reference_run_fingerprints: what passages of reference documents are found by.
//!
//! Only rows that new documents may have are kept, so that a large reference is read and not written.

use futures::future::BoxFuture;

use super::interface::{OneTable, Stage};
use super::units::{self, Units, unit};
use super::word_runs::{self, Fingerprints, length_of};
use crate::error::{Error, Result};
use crate::frames::{self, may_match};
use crate::job::Job;
use crate::pipeline::context::StageContext;
use crate::pipeline::tables::{AnyTable, WorkTable};

/// Cuts the texts of reference documents into lines, sentences or paragraphs.
pub(crate) struct ReferenceUnits;

/// Cuts them, and keeps few of the hashes of their runs of words.
pub(crate) struct ReferenceFingerprints;

impl WorkTable {
    /// The lines, sentences or paragraphs of reference documents that new documents may have.
    pub(crate) const REFERENCE_UNITS: Self = Self::new("reference_units", units::columns);
    /// The fingerprints of reference documents that new documents may have.
    pub(crate) const REFERENCE_FINGERPRINTS: Self =
        Self::new("reference_run_fingerprints", word_runs::fingerprint_columns);
}

impl OneTable for ReferenceUnits {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::REFERENCE_UNITS);
    const WHAT: &'static str = "read the reference documents and find the same parts in them";
}

impl Stage for ReferenceUnits {
    fn is_in(&self, job: &Job) -> bool {
        job.against.is_some() && Units.is_in(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let by = unit(cx.job).ok_or_else(|| Error::bug("the job has no unit of passages"))?;
            let units = frames::spans::units(cx.searched_reference_texts().await?, by, &cx.job.shingle)?;
            let (new, count) = (cx.table(WorkTable::UNITS)?, cx.rows(WorkTable::UNITS));
            cx.run(self, 0, vec![may_match::by_token(units, new, count, "hash_0")?]).await
        })
    }
}

impl OneTable for ReferenceFingerprints {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::REFERENCE_FINGERPRINTS);
    const WHAT: &'static str = "read the reference documents and choose the same hashes of them";
}

impl Stage for ReferenceFingerprints {
    fn is_in(&self, job: &Job) -> bool {
        job.against.is_some() && Fingerprints.is_in(job)
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let texts = cx.searched_reference_texts().await?;
            let fingerprints = frames::word_runs::fingerprints(texts, length_of(cx)?, &cx.job.shingle)?;
            let (new, count) = (cx.table(WorkTable::FINGERPRINTS)?, cx.rows(WorkTable::FINGERPRINTS));
            cx.run(self, 0, vec![may_match::by_token(fingerprints, new, count, "fingerprint")?]).await
        })
    }
}
