//! New documents that have the id of a reference document.

use datafusion::prelude::{DataFrame, col};

use crate::error::Result;
use crate::frames;
use crate::job::{Job, SameId};
use crate::pipeline::numbers::{first_ids, rows_of};
use crate::pipeline::run_tables::RunTables;
use crate::pipeline::tables::WorkTable;
use crate::schema::Table;
use crate::udf::expr_fn::document_key;

/// Ids that a warning names.
const NAMED: usize = 5;

/// Whether new documents replace reference documents.
pub(crate) fn replaces(job: &Job) -> bool {
    job.same_id() == Some(SameId::Replace)
}

/// A warning about new documents that cannot be compared and so do not replace the `reference` documents (doc, ..) of the same id;
/// `None` if there are none.
pub(crate) async fn not_replaced(run: &RunTables<'_>, reference: DataFrame) -> Result<Option<String>> {
    if !replaces(run.job) || run.rows(Table::Rejects) == 0 {
        return Ok(None);
    }
    let rejected = run.table(Table::Rejects)?.filter(col("id").is_not_null())?;
    let rejected = rejected.select(vec![col("id"), document_key(col("id")).alias("doc")])?.distinct()?;
    let rejected = frames::reference::without(rejected, run.table(WorkTable::KEYS)?)?;
    let same = frames::reference::same(rejected, reference)?;
    let (count, ids) = (rows_of(same.clone()).await?, first_ids(same, NAMED).await?);
    Ok((count > 0).then(|| {
        let more = match count - ids.len() as u64 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        format!(
            "documents of the source cannot be compared, so they do not replace the documents of against.output that have the same ids: \
             {}{more}; rejects/ gives the reasons",
            ids.join(", ")
        )
    }))
}
