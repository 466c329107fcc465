//! Documents whose id is known already.

use datafusion::prelude::DataFrame;

use super::numbers::{first_ids, rows_of};
use super::steps::Steps;
use super::tables::WorkTable;
use crate::error::{Error, Result};
use crate::job::{Job, SameId};
use crate::schema::Table;
use crate::stage;

/// Ids that an error names.
const NAMED: usize = 5;

/// Whether new documents take the place of known ones.
pub(super) fn replaces(job: &Job) -> bool {
    job.same_id() == Some(SameId::Replace)
}

/// Ends the run where the id of a new document is known, and the job says that this is an error.
///
/// `known` (doc, ..) are the known documents.
pub(super) async fn settle(steps: &Steps<'_>, job: &Job, known: DataFrame) -> Result<()> {
    if job.same_id() != Some(SameId::Error) {
        return Ok(());
    }
    let same = stage::known::same(steps.table(Table::Documents)?, known)?;
    let ids = first_ids(same, NAMED).await?;
    if ids.is_empty() {
        return Ok(());
    }
    let more = if ids.len() == NAMED { " (perhaps not the only ones)" } else { "" };
    Err(Error::input(format!(
        "documents of the source have ids that earlier runs know: {}{more}; set against.same_id = \"replace\" if they take the \
         place of the known ones, or \"skip\" to leave them out",
        ids.join(", ")
    )))
}

/// How many of the `known` documents (doc, ..) the run replaces.
pub(super) async fn replaced(steps: &Steps<'_>, job: &Job, known: DataFrame) -> Result<u64> {
    if !replaces(job) {
        return Ok(0);
    }
    rows_of(stage::known::same(known, steps.table(WorkTable::Keys)?)?).await
}
