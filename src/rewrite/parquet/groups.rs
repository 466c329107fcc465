//! The row groups of a rewritten file, and the rows in each.

use std::ops::Range;

use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::super::decisions::Decisions;
use super::super::record::DocumentCounts;
use super::super::work::{Rejects, RowDestination};
use super::blocking::{WINDOW, Waiter};
use crate::error::{Error, Result};
use crate::source::RowSet;

/// The rows that are copied.
pub(super) enum CopiedRows {
    /// The kept rows.
    Kept(Decisions, Rejects),
    /// Separate rejects.
    Rejected(RowSet),
}

/// The rows that were decided about.
#[derive(Default)]
pub(super) struct ChosenRows {
    pub counts: DocumentCounts,
    /// The rows that go to the file of separate rejects.
    pub rejected: RowSet,
}

impl CopiedRows {
    /// The wanted rows among `rows` of the file `path`, as runs of neighbours that are counted from the first of `rows`.
    ///
    /// # Errors
    /// When the decisions cannot be read.
    pub(super) fn runs(
        &self,
        path: &str,
        rows: Range<u64>,
        waiter: &Waiter,
        chosen: &mut ChosenRows,
    ) -> Result<Vec<Range<u64>>> {
        let (decisions, rejects) = match self {
            Self::Kept(decisions, rejects) => (decisions, rejects),
            Self::Rejected(set) => {
                let inside = set.within(rows.clone());
                return Ok(inside.runs().map(|run| run.start - rows.start..run.end - rows.start).collect());
            }
        };
        waiter.wait(async {
            let mut runs: Vec<Range<u64>> = Vec::new();
            for row in rows.clone() {
                let action = decisions.at(path, row).await?.action;
                chosen.counts.count(action);
                let at = row - rows.start;
                match (rejects.destination(action), runs.last_mut()) {
                    (RowDestination::Kept, Some(run)) if run.end == at => run.end += 1,
                    (RowDestination::Kept, _) => runs.push(at..at + 1),
                    (RowDestination::Rejected, _) => chosen.rejected.insert(row),
                    (RowDestination::Nowhere, _) => {}
                }
            }
            Ok(runs)
        })
    }
}

/// Rows of a row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowGroupPart {
    /// The index of the row group.
    pub group: usize,
    /// The position of its first row in the file.
    pub first: u64,
    /// The rows, as runs of neighbours, counted from 0.
    pub runs: Vec<Range<u64>>,
}

impl RowGroupPart {
    /// The number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.runs.iter().map(|run| run.end - run.start).sum()
    }

    /// The positions of the rows in the file.
    pub(super) fn positions(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|run| self.first + run.start..self.first + run.end)
    }
}

/// The row groups to write, each as its parts. A row group of the file becomes one without its unwanted rows. Small neighbours are
/// merged, up to the rows of the largest row group of the file. No row group is empty. `runs` chooses the rows of a range, as runs that
/// are counted from its start.
pub(super) fn groups<'a>(
    metadata: &'a ParquetMetaData,
    mut runs: impl FnMut(Range<u64>) -> Result<Vec<Range<u64>>> + 'a,
) -> impl Iterator<Item = Result<Vec<RowGroupPart>>> + 'a {
    let groups = metadata.row_groups();
    let largest = groups.iter().map(rows).max().unwrap_or(0);
    // Two sorted row groups, one behind the other, are not sorted.
    let sorted =
        groups.iter().any(|group| group.sorting_columns().is_some_and(|columns| !columns.is_empty()));
    let firsts = groups.iter().scan(0, |next, group| {
        let first = *next;
        *next += rows(group);
        Some(first)
    });
    let mut parts = groups
        .iter()
        .zip(firsts)
        .enumerate()
        .map(move |(at, (group, first))| {
            Ok::<_, Error>(RowGroupPart { group: at, first, runs: runs(first..first + rows(group))? })
        })
        .filter(|part| part.as_ref().map_or(true, |part: &RowGroupPart| !part.runs.is_empty()))
        .peekable();
    std::iter::from_fn(move || {
        let first = match parts.next()? {
            Ok(first) => first,
            Err(error) => return Some(Err(error)),
        };
        let (mut rows, mut bytes) = (first.rows(), bytes(&groups[first.group]));
        let mut together = vec![first];
        // All of them fit into the window through which the file is read.
        let fits = |next: &RowGroupPart, rows: u64, bytes: u64| {
            !sorted && rows + next.rows() <= largest && bytes + self::bytes(&groups[next.group]) <= WINDOW
        };
        while let Some(Ok(next)) =
            parts.next_if(|next| next.as_ref().is_ok_and(|next| fits(next, rows, bytes)))
        {
            rows += next.rows();
            bytes += self::bytes(&groups[next.group]);
            together.push(next);
        }
        Some(Ok(together))
    })
}

fn rows(group: &RowGroupMetaData) -> u64 {
    group.num_rows().max(0).cast_unsigned()
}

fn bytes(group: &RowGroupMetaData) -> u64 {
    group.compressed_size().max(0).cast_unsigned()
}
