//! The row groups of a rewritten file, and the rows in each.

use std::ops::Range;

use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

use super::blocking::WINDOW;
use crate::source::RowSet;

/// The wanted rows of a file.
pub(super) enum Wanted {
    /// Those in the set.
    Only(RowSet),
    /// All others.
    AllBut(RowSet),
}

impl Wanted {
    /// The wanted rows among `rows`, as runs of neighbours that are counted from the first of `rows`.
    fn runs(&self, rows: Range<u64>) -> Vec<Range<u64>> {
        let (Self::Only(set) | Self::AllBut(set)) = self;
        let inside = set.within(rows.clone());
        let inside = inside.runs().map(|run| run.start - rows.start..run.end - rows.start);
        if let Self::Only(_) = self {
            return inside.collect();
        }
        let (mut others, mut from) = (Vec::new(), 0);
        for run in inside.chain(std::iter::once(rows.end - rows.start..rows.end - rows.start)) {
            if from < run.start {
                others.push(from..run.start);
            }
            from = run.end;
        }
        others
    }
}

/// Rows of a row group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The index of the row group.
    pub group: usize,
    /// The position of its first row in the file.
    pub first: u64,
    /// The rows, as runs of neighbours, counted from 0.
    pub runs: Vec<Range<u64>>,
}

impl Part {
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
/// merged, up to the rows of the largest row group of the file. No row group is empty.
pub(super) fn groups<'a>(
    metadata: &'a ParquetMetaData,
    wanted: &'a Wanted,
) -> impl Iterator<Item = Vec<Part>> + 'a {
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
        .map(move |(at, (group, first_row))| Part {
            group: at,
            first: first_row,
            runs: wanted.runs(first_row..first_row + rows(group)),
        })
        .filter(|part| !part.runs.is_empty())
        .peekable();
    std::iter::from_fn(move || {
        let first = parts.next()?;
        let (mut rows, mut bytes) = (first.rows(), bytes(&groups[first.group]));
        let mut together = vec![first];
        // All of them fit into the window through which the file is read.
        while let Some(next) = parts.next_if(|next| {
            !sorted && rows + next.rows() <= largest && bytes + self::bytes(&groups[next.group]) <= WINDOW
        }) {
            rows += next.rows();
            bytes += self::bytes(&groups[next.group]);
            together.push(next);
        }
        Some(together)
    })
}

fn rows(group: &RowGroupMetaData) -> u64 {
    group.num_rows().max(0).cast_unsigned()
}

fn bytes(group: &RowGroupMetaData) -> u64 {
    group.compressed_size().max(0).cast_unsigned()
}
