//! Documents whose id is known already.

use datafusion::prelude::{DataFrame, col};

use super::numbers::{first_ids, rows_of};
use super::steps::Steps;
use super::tables::WorkTable;
use crate::error::{Error, Result};
use crate::job::{Job, SameId};
use crate::schema::Table;
use crate::stage;
use crate::udf::expr_fn::document_key;

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

/// What a reader should know of `known` documents (doc, ..) whose ids come again with documents that cannot be compared, where new
/// documents take the place of known ones: nothing takes theirs. `None` if there is none.
pub(super) async fn not_replaced(steps: &Steps<'_>, job: &Job, known: DataFrame) -> Result<Option<String>> {
    if !replaces(job) || steps.rows(Table::Rejects) == 0 {
        return Ok(None);
    }
    let rejected = steps.table(Table::Rejects)?.filter(col("id").is_not_null())?;
    let rejected = rejected.select(vec![col("id"), document_key(col("id")).alias("doc")])?.distinct()?;
    let rejected = stage::known::without(rejected, steps.table(WorkTable::Keys)?)?;
    let same = stage::known::same(rejected, known)?;
    let (count, ids) = (rows_of(same.clone()).await?, first_ids(same, NAMED).await?);
    Ok((count > 0).then(|| {
        let more = match count - ids.len() as u64 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        format!(
            "documents of the source have ids of known ones and cannot be compared, so they replace nothing and the known ones stay as \
             they were: {}{more}; rejects/ gives the reasons",
            ids.join(", ")
        )
    }))
}
