//! Documents whose id is known already.

use datafusion::common::cast::as_string_array;
use datafusion::prelude::{DataFrame, col};

use super::known::Known;
use super::numbers::{rows_of, utf8};
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
    job.against.as_ref().is_some_and(|against| against.same_id == SameId::Replace)
}

/// Ends the run where the id of a new document is known, and the job says that this is an error.
pub(super) async fn settle(steps: &Steps<'_>, job: &Job, known: &Known) -> Result<()> {
    if job.against.as_ref().is_none_or(|against| against.same_id != SameId::Error) {
        return Ok(());
    }
    let known_keys = known.names(steps.session())?.select(vec![col("doc")])?;
    let same = stage::known::same(steps.table(Table::Documents)?, known_keys)?;
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

/// The `most` least ids of a frame (id, ..), in quotes.
pub(super) async fn first_ids(frame: DataFrame, most: usize) -> Result<Vec<String>> {
    let named =
        frame.sort(vec![col("id").sort(true, false)])?.limit(0, Some(most))?.select(vec![utf8("id")])?;
    let mut ids = Vec::new();
    for batch in named.collect().await? {
        ids.extend(as_string_array(batch.column(0))?.iter().flatten().map(|id| format!("`{id}`")));
    }
    Ok(ids)
}

/// How many known documents the run replaces.
pub(super) async fn replaced(steps: &Steps<'_>, job: &Job, known: &Known) -> Result<u64> {
    if !replaces(job) {
        return Ok(0);
    }
    rows_of(stage::known::same(known.names(steps.session())?, keys(steps)?)?).await
}

/// The keys (doc) of the new documents.
pub(super) fn keys(steps: &Steps<'_>) -> Result<DataFrame> {
    Ok(steps.table(WorkTable::Keys)?.select(vec![col("doc")])?)
}
