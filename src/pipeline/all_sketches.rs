//! The place where the stages of a job find the sketches of all documents.

use crate::job::{Input, Job, ShingleHash};

/// The place where the stages of a job find the sketches of all documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllSketches {
    /// In the table `documents`.
    InDocuments,
    /// In a work table.
    InSketches,
    /// In the output that is reused.
    Kept,
    /// Nowhere: needed texts are read again.
    Nowhere,
}

impl AllSketches {
    pub(super) fn of(job: &Job) -> Self {
        let all_are_needed =
            !job.candidates.method.uses_buckets() || job.shingle.hash == ShingleHash::Dictionary;
        if job.output.keep.shingles() {
            AllSketches::InDocuments
        } else if matches!(&job.input, Input::Reuse(reuse) if reuse.keeps_shingles) {
            AllSketches::Kept
        } else if all_are_needed && job.compares() {
            AllSketches::InSketches
        } else {
            AllSketches::Nowhere
        }
    }
}
