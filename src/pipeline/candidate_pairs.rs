//! The candidates of a run, for the stages that verify them.

use datafusion::prelude::{DataFrame, col};

use super::by_group;
use super::context::StageContext;
use super::tables::WorkTable;
use crate::error::Result;
use crate::frames::{self, copies::without_copies};
use crate::job::Compare;

/// Pairs of documents that may be similar.
pub(super) struct CandidatePairs {
    /// (a, b).
    pub(super) pairs: DataFrame,
    /// An upper bound of their number.
    pub(super) rows: u64,
}

impl CandidatePairs {
    /// The candidates in a table.
    pub(super) fn of(cx: &StageContext<'_>, table: WorkTable) -> Result<Self> {
        Ok(Self { pairs: cx.table(table)?, rows: cx.rows(table) })
    }

    /// All remaining candidates, after all searches.
    pub(super) fn found(cx: &StageContext<'_>) -> Result<Self> {
        Self::of(cx, table(cx))
    }

    /// The candidates whose scores are not known.
    pub(super) fn to_compare(cx: &StageContext<'_>) -> Result<Self> {
        let found = Self::found(cx)?;
        Ok(match of_sides(cx)? {
            Some(same) => Self { pairs: frames::copies::unscored(found.pairs, same)?, ..found },
            None => found,
        })
    }
}

/// The table of all remaining candidates.
pub(super) fn table(cx: &StageContext<'_>) -> WorkTable {
    // Each of these tables is written by the stage of the same name.
    let later = [WorkTable::AGREEING, WorkTable::DENSE_CANDIDATES, WorkTable::ALL_CANDIDATES];
    later.into_iter().find(|table| cx.runner.is_taken(&table.name())).unwrap_or(WorkTable::CANDIDATES)
}

/// The scores of new documents and reference documents with the same shingles. Most documents that come again have not
/// changed, and they are not read a second time. `None` if there are no reference documents, or if copies are of one
/// group, which is not compared with itself.
pub(crate) fn of_sides(cx: &StageContext<'_>) -> Result<Option<DataFrame>> {
    if cx.reference.is_none() || cx.job.candidates.compare == Compare::Across {
        return Ok(None);
    }
    let (copies, groups) = (cx.table(WorkTable::COPIES)?, by_group::keys(cx)?);
    let of_side = |table: WorkTable, columns: &[&str]| {
        let columns = columns.iter().map(|column| col(*column)).collect::<Vec<_>>();
        let keys = without_copies(cx.table(table)?.select(columns)?, copies.clone())?;
        match &groups {
            Some(groups) => frames::with_columns(keys, groups.clone()),
            None => Ok(keys),
        }
    };
    let new = of_side(WorkTable::KEYS, &["doc", "set_hash_0", "set_hash_1"])?;
    let known = of_side(WorkTable::REFERENCE, &["doc", "set_hash_0", "set_hash_1", "shingle_count"])?;
    frames::copies::scores_of_sides(new, known, cx.job.lsh.bands).map(Some)
}
