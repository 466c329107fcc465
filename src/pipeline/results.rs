//! From scores to the tables of pairs and clusters.

use super::step::Step;
use super::steps::Steps;
use super::tables::WorkTable;
use crate::error::Result;
use crate::job::Job;
use crate::schema::Table;
use crate::stage;

/// Bytes of a row (document, representative, rank).
const BYTES_OF_KEY: u64 = 24;

/// Bytes of a row that has a document's id too, which is short.
const BYTES_OF_MEMBER: u64 = 64;

/// Finds the documents that scores stand for.
pub(super) async fn members(steps: &Steps<'_>) -> Result<()> {
    let frame = stage::members::members(
        steps.table(Table::Documents)?,
        steps.table(WorkTable::Groups)?,
        steps.table(WorkTable::Scores)?,
    )?;
    let bytes = steps.rows(Table::Documents) * BYTES_OF_MEMBER
        + steps.bytes(WorkTable::Groups)
        + 2 * steps.rows(WorkTable::Scores) * BYTES_OF_KEY;
    steps.run(Step::Members, bytes, vec![frame]).await
}

/// Writes the pairs.
pub(super) async fn pairs(steps: &Steps<'_>, job: &Job) -> Result<()> {
    let (members, scores) = (steps.table(WorkTable::Members)?, steps.table(WorkTable::Scores)?);
    let frame = stage::pairs::pairs(members, scores, &job.output, job.lsh.bands)?;
    let bytes = steps.rows(WorkTable::Members) * BYTES_OF_MEMBER + steps.bytes(WorkTable::Scores);
    steps.run(Step::Pairs, bytes, vec![frame]).await
}

/// Writes the clusters.
pub(super) async fn clusters(steps: &Steps<'_>) -> Result<()> {
    let members = steps.table(WorkTable::Members)?;
    let frame = stage::clusters::clusters(members, steps.table(WorkTable::Components)?)?;
    let bytes = steps.rows(WorkTable::Members) * BYTES_OF_MEMBER + steps.bytes(WorkTable::Components);
    steps.run(Step::Clusters, bytes, vec![frame]).await
}
