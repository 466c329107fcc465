//! The columns of documents that pairs and clusters need: names, groups, and the columns that order documents.

use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col};

use super::run_tables::RunTables;
use super::tables::WorkTable;
use crate::error::Result;
use crate::frames;
use crate::job::{Compare, Job};
use crate::schema::Table;

/// The columns of a document in pairs and clusters.
pub(super) const NAMES: [&str; 4] = ["id", "doc", "shingle_count", "group"];

/// The columns [`NAMES`], of documents with the carried columns of `job`.
pub(super) fn named(job: &Job) -> Vec<Expr> {
    vec![col("id"), col("doc"), col("shingle_count"), frames::by_group::group(job.source.group.as_deref())]
}

/// The same columns of the run's own documents.
pub(super) fn own(run: &RunTables<'_>) -> Result<DataFrame> {
    Ok(run.table(Table::Documents)?.select(named(run.job))?)
}

/// The columns that decide which document of a cluster represents it.
fn order(job: &Job) -> Result<Vec<Expr>> {
    frames::keep::columns(&job.clusters.order(), job.source.group.as_deref())
}

/// The columns of [`named`] and of [`order`].
pub(super) fn ordered(job: &Job) -> Result<Vec<Expr>> {
    Ok([named(job), order(job)?].concat())
}

/// The column `doc` and those of [`order`].
pub(super) fn order_by_doc(job: &Job) -> Result<Vec<Expr>> {
    Ok([vec![col("doc")], order(job)?].concat())
}

/// The names of the columns of [`ordered`].
pub(super) fn ordered_names(job: &Job) -> Vec<String> {
    NAMES.map(str::to_owned).into_iter().chain(frames::keep::names(&job.clusters.order())).collect()
}

/// The column `doc` and those that decide which documents are copies of each other, of documents with the carried
/// columns of `job`.
pub(super) fn copies(job: &Job) -> Vec<Expr> {
    let mut columns = ["doc", "set_hash_0", "set_hash_1"].map(col).to_vec();
    if job.candidates.compare != Compare::All {
        let group = frames::by_group::group(job.source.group.as_deref()).unalias();
        columns.push(frames::by_group::key(group));
    }
    columns
}

/// The same columns of the run's own documents, for any columns that the table `documents` keeps.
pub(super) fn own_copies(run: &RunTables<'_>) -> Result<DataFrame> {
    let keys = run.table(WorkTable::KEYS)?.select(["doc", "set_hash_0", "set_hash_1"].map(col).to_vec())?;
    match run.job.candidates.compare {
        Compare::All => Ok(keys),
        Compare::Within | Compare::Across => frames::with_columns(keys, frames::by_group::keys(own(run)?)?),
    }
}

/// (doc, group_key) of all documents, if the job compares by groups.
pub(super) fn keys(run: &RunTables<'_>) -> Result<Option<DataFrame>> {
    if run.job.candidates.compare == Compare::All {
        return Ok(None);
    }
    let keys = frames::by_group::keys(own(run)?)?;
    Ok(Some(match &run.job.against {
        Some(_) => keys.union(frames::by_group::keys(run.table(WorkTable::REFERENCE)?)?)?,
        None => keys,
    }))
}

/// The rows of (a, b, ..) whose documents the job compares, and the rows without b.
pub(super) fn compared(run: &RunTables<'_>, pairs: DataFrame) -> Result<DataFrame> {
    match keys(run)? {
        Some(keys) => frames::by_group::compared(pairs, keys, run.job.candidates.compare),
        None => Ok(pairs),
    }
}
