//! The columns of documents that pairs and clusters need: names, groups, and values that order documents.

use datafusion::logical_expr::Expr;
use datafusion::prelude::DataFrame;

use super::context::StageContext;
use super::tables::WorkTable;
use crate::error::Result;
use crate::frames::{self, columns, groups, keep};
use crate::job::{Compare, Job};
use crate::schema::Table;

/// The columns of a document in pairs and clusters.
pub(super) const NAMES: [&str; 4] = ["id", "doc", "shingle_count", "group"];

/// The key of a document, and the hashes of its shingle set.
pub(super) const SET: [&str; 3] = ["doc", "set_hash_0", "set_hash_1"];

/// Returns expressions for [`NAMES`] over documents with the carried columns of `job`.
fn named(job: &Job) -> Vec<Expr> {
    [columns(["id", "doc", "shingle_count"]), vec![groups::group(job.source.group.as_deref())]].concat()
}

pub(super) fn own(cx: &StageContext<'_>) -> Result<DataFrame> {
    Ok(cx.table(Table::Documents)?.select(named(cx.job))?)
}

/// The columns that order the documents in a cluster. The first document represents the cluster.
pub(super) fn order(job: &Job) -> Result<Vec<Expr>> {
    keep::order_columns(&job.clusters.order(), job.source.group.as_deref())
}

/// [`NAMES`] and [`order`].
pub(super) fn ordered(job: &Job) -> Result<Vec<Expr>> {
    Ok([named(job), order(job)?].concat())
}

pub(super) fn ordered_names(job: &Job) -> Vec<String> {
    NAMES.map(str::to_owned).into_iter().chain(keep::names(&job.clusters.order())).collect()
}

/// The columns in which copies have equal values, as expressions over documents with the carried columns of `job`.
pub(super) fn copy_key(job: &Job) -> Vec<Expr> {
    let mut key = columns(SET);
    if job.candidates.compare != Compare::All {
        key.push(groups::key(groups::group(job.source.group.as_deref()).unalias()));
    }
    key
}

/// [`copy_key`] of the new documents. The hashes come from the table `keys`, since `documents` may not contain them.
pub(super) fn own_copy_keys(cx: &StageContext<'_>) -> Result<DataFrame> {
    let keys = cx.table(WorkTable::KEYS)?.select(columns(SET))?;
    match cx.job.candidates.compare {
        Compare::All => Ok(keys),
        Compare::Within | Compare::Across => frames::with_columns(keys, groups::keys(own(cx)?)?),
    }
}

/// (doc, group_key) of all documents, if the job compares by groups.
pub(super) fn keys(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    if cx.job.candidates.compare == Compare::All {
        return Ok(None);
    }
    let keys = groups::keys(own(cx)?)?;
    Ok(Some(match &cx.job.against {
        Some(_) => keys.union(groups::keys(cx.table(WorkTable::REFERENCE)?)?)?,
        None => keys,
    }))
}

/// Keeps the pairs (a, b, ..) of two documents that the job compares according to their groups. Keeps all rows without b.
pub(super) fn compared(cx: &StageContext<'_>, pairs: DataFrame) -> Result<DataFrame> {
    match keys(cx)? {
        Some(keys) => groups::compared(pairs, keys, cx.job.candidates.compare),
        None => Ok(pairs),
    }
}
