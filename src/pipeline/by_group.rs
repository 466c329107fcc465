//! The groups of documents, as the job names them, and the pairs that it compares by them.

use datafusion::prelude::{DataFrame, col};

use super::steps::Steps;
use super::tables::WorkTable;
use crate::error::Result;
use crate::job::{Compare, Job};
use crate::schema::Table;
use crate::stage;

/// What pairs and clusters are made of.
pub(super) const NAMES: [&str; 4] = ["id", "doc", "shingle_count", "group"];

/// The columns [`NAMES`] of the run's own documents.
pub(super) fn own(steps: &Steps<'_>, job: &Job) -> Result<DataFrame> {
    let group = stage::by_group::group(job.source.group.as_deref());
    let columns = vec![col("id"), col("doc"), col("shingle_count"), group];
    Ok(steps.table(Table::Documents)?.select(columns)?)
}

/// (doc, group_key) of all documents, where the job compares by groups.
///
/// # Errors
/// When a table cannot be read.
pub(super) fn keys(steps: &Steps<'_>, job: &Job) -> Result<Option<DataFrame>> {
    if job.candidates.compare == Compare::All {
        return Ok(None);
    }
    let keys = stage::by_group::keys(own(steps, job)?)?;
    Ok(Some(match &job.against {
        Some(_) => keys.union(stage::by_group::keys(steps.table(WorkTable::Known)?)?)?,
        None => keys,
    }))
}

/// Of (a, b, ..), the rows whose documents the job compares, and those without b.
///
/// # Errors
/// When a table cannot be read.
pub(super) fn compared(steps: &Steps<'_>, job: &Job, pairs: DataFrame) -> Result<DataFrame> {
    match keys(steps, job)? {
        Some(keys) => stage::by_group::compared(pairs, keys, job.candidates.compare),
        None => Ok(pairs),
    }
}
