//! New documents that have the id of a reference document.

use datafusion::prelude::{DataFrame, col};

use crate::error::{Error, Result};
use crate::job::{Id, Job, SameId};
use crate::pipeline::frames;
use crate::pipeline::numbers::{first_ids, rows_of};
use crate::pipeline::run_tables::RunTables;
use crate::pipeline::tables::WorkTable;
use crate::schema::Table;
use crate::udf::expr_fn::document_key;

/// Ids that an error names.
const NAMED: usize = 5;

/// Whether new documents replace reference documents.
pub(crate) fn replaces(job: &Job) -> bool {
    job.same_id() == Some(SameId::Replace)
}

/// Ends the run if a new document has the id of one of the `reference` documents (doc, ..), and `against.same_id` is
/// not set.
pub(crate) async fn refuse(run: &RunTables<'_>, reference: DataFrame) -> Result<()> {
    if run.job.same_id() != Some(SameId::Error) {
        return Ok(());
    }
    let same = frames::reference::same(run.table(Table::Documents)?, reference)?;
    let ids = first_ids(same, NAMED).await?;
    if ids.is_empty() {
        return Ok(());
    }
    let more = if ids.len() == NAMED { " (perhaps not the only ones)" } else { "" };
    let what_to_do = match run.job.source.id {
        Id::RowNumber => {
            "rows of files with the same names are not the same documents: name the column that identifies a document as source.id, in \
             the jobs of against.output too, or give the files of each day names of their own"
        }
        Id::Columns(_) | Id::Path => {
            "set against.same_id = \"replace\" to replace those, or \"skip\" to leave the new ones out"
        }
    };
    Err(Error::input(format!(
        "documents of the source have ids that documents of against.output have: {}{more}; {what_to_do}",
        ids.join(", ")
    )))
}

/// The number of `reference` documents (doc, ..) that the run replaces.
pub(crate) async fn replaced(run: &RunTables<'_>, reference: DataFrame) -> Result<u64> {
    if !replaces(run.job) {
        return Ok(0);
    }
    rows_of(frames::reference::same(reference, run.table(WorkTable::KEYS)?)?).await
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
