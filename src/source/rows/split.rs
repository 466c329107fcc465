//! Splits: the parts of files that the partitions read.

use std::ops::Range;
use std::sync::Arc;

use datafusion::datasource::listing::FileRange;
use serde::{Deserialize, Serialize};

use super::selection::{RowSet, Selection};
use crate::source::file::SourceFile;

/// Consecutive rows of a file that one partition reads in order. A split is one or more row groups of a Parquet file, or a whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Split {
    pub file: Arc<SourceFile>,
    /// The byte range in which the row groups start, or `None` for the whole file. In a plan, the scan contains the range.
    #[serde(skip)]
    pub range: Option<FileRange>,
    /// The number of the first row in its file, from 0.
    pub first_row: u64,
    /// The number of rows, or `None` if it is unknown until the file was read.
    pub rows: Option<u64>,
    pub file_rows: Option<u64>,
    /// The numbers, in the file, of the rows to read, or `None` for all rows.
    pub wanted: Option<RowSet>,
    /// The cost of reading the split, in bytes. Only planning uses it.
    #[serde(skip)]
    pub weight: u64,
}

/// Gaps of fewer than this number of rows between wanted rows are also read. The Parquet reader decodes these rows in any case, and each
/// run of rows takes memory while the plan exists.
const READ_GAP: u64 = 32;

/// A part of a file that a partition of a plan reads.
pub(in crate::source) struct ReadPart {
    pub path: Arc<str>,
    /// Identifies the part in hashes: the first row and the number of rows in a Parquet file, or the size of another file.
    pub part: String,
}

impl Split {
    /// Returns a whole file whose number of rows is unknown.
    pub(in crate::source) fn whole(file: &Arc<SourceFile>) -> Self {
        let (file, weight) = (Arc::clone(file), file.size());
        Self { file, range: None, first_row: 0, rows: None, file_rows: None, wanted: None, weight }
    }

    /// Restricts the split to the selected rows and adjusts its cost. Returns `None` if no row is selected.
    pub(in crate::source) fn select(self, selection: &Selection) -> Option<Self> {
        let wanted = selection.rows(&self.file.path)?;
        let Some(rows) = self.rows else { return Some(Self { wanted: Some(wanted.clone()), ..self }) };
        let wanted = wanted.within(self.first_row..self.first_row + rows);
        let share = wanted.count() as f64 / rows.max(1) as f64;
        let weight = (self.weight as f64 * share) as u64;
        (wanted.count() > 0).then_some(Self { wanted: Some(wanted), weight, ..self })
    }

    /// The number of rows that are read, or `None` if it is unknown.
    pub(in crate::source) fn expected_rows(&self) -> Option<u64> {
        self.wanted.as_ref().map(RowSet::count).or(self.rows)
    }
}

/// Returns the first run of rows, at or after `row`, that must be read for the `wanted` rows.
pub(in crate::source) fn next_run(wanted: &RowSet, row: u64) -> Option<Range<u64>> {
    wanted.near_run(row, READ_GAP)
}

/// The target size of a batch, in bytes of values.
const BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// Returns the number of rows in a batch if a row takes about `row_bytes` bytes. The result is at most `most`.
pub(in crate::source) fn batch_rows(row_bytes: u64, most: usize) -> usize {
    usize::try_from(BATCH_BYTES / row_bytes.max(1)).unwrap_or(most).clamp(1, most)
}

/// Distributes splits over at most `partitions` partitions, in order and with about equal weights. No partition is empty. If two splits are
/// neighbours in a file and are in the same partition, they are joined, so that the file is opened once.
pub(in crate::source) fn distribute(splits: &[Split], partitions: usize) -> Vec<Vec<Split>> {
    let partitions = partitions.max(1);
    // Opening an empty file also has a cost.
    let cost = |split: &Split| u128::from(split.weight.max(1));
    let total: u128 = splits.iter().map(cost).sum();
    let mut groups: Vec<Vec<Split>> = vec![Vec::new(); partitions];
    let mut before = 0;
    for split in splits {
        // Selects the partition whose share contains the middle of the split.
        let at = (2 * before + cost(split)) * partitions as u128 / (2 * total);
        before += cost(split);
        let group = &mut groups[(at as usize).min(partitions - 1)];
        match group.last_mut() {
            Some(last) if is_next(last, split) => join(last, split),
            _ => group.push(split.clone()),
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

fn is_next(last: &Split, next: &Split) -> bool {
    Arc::ptr_eq(&last.file, &next.file)
        && last.range.is_some()
        && next.range.is_some()
        && last.rows.is_some_and(|rows| last.first_row + rows == next.first_row)
}

fn join(last: &mut Split, next: &Split) {
    if let (Some(range), Some(more)) = (&mut last.range, &next.range) {
        range.end = more.end;
    }
    last.rows = last.rows.zip(next.rows).map(|(a, b)| a + b);
    last.weight += next.weight;
}

#[cfg(test)]
mod tests {
    use datafusion::execution::object_store::ObjectStoreUrl;
    use object_store::ObjectMeta;
    use object_store::path::Path;
    use proptest::prelude::*;

    use super::*;

    fn file(name: &str) -> Arc<SourceFile> {
        let (location, last_modified) = (Path::from(name), Default::default());
        let meta = ObjectMeta { location, last_modified, size: 0, e_tag: None, version: None };
        Arc::new(SourceFile::new(name, name, ObjectStoreUrl::local_filesystem(), meta))
    }

    proptest! {
        #[test]
        fn every_row_is_in_one_split(
            weights in prop::collection::vec(prop::collection::vec((0u64..1000, 1u64..50), 0..8), 1..6),
            partitions in 1usize..9,
        ) {
            let files: Vec<_> = (0..weights.len()).map(|i| file(&i.to_string())).collect();
            let mut splits = Vec::new();
            for (groups, file) in weights.iter().zip(&files) {
                let mut first_row = 0;
                for (i, (weight, rows)) in groups.iter().enumerate() {
                    let range = Some(FileRange { start: i as i64 * 10, end: i as i64 * 10 + 10 });
                    let whole = Split::whole(file);
                    splits.push(Split { range, first_row, rows: Some(*rows), weight: *weight, ..whole });
                    first_row += rows;
                }
            }
            let distributed = distribute(&splits, partitions);
            prop_assert!(distributed.len() <= partitions);
            for (file, groups) in files.iter().zip(&weights) {
                let mut found: Vec<(u64, u64, i64, i64)> = distributed.iter().flatten()
                    .filter(|p| Arc::ptr_eq(&p.file, file))
                    .map(|p| {
                        let range = p.range.as_ref().unwrap();
                        (p.first_row, p.rows.unwrap(), range.start, range.end)
                    })
                    .collect();
                found.sort();
                let mut row = 0;
                let mut byte = 0;
                for (first, rows, start, end) in found {
                    prop_assert_eq!((first, start), (row, byte));
                    row += rows;
                    byte = end;
                }
                prop_assert_eq!(row, groups.iter().map(|g| g.1).sum::<u64>());
                prop_assert_eq!(byte, groups.len() as i64 * 10);
            }
        }
    }

    #[test]
    fn equal_files_are_dealt_equally() {
        let splits: Vec<_> =
            (0..4).map(|i| Split { weight: 10, ..Split::whole(&file(&i.to_string())) }).collect();
        let sizes: Vec<_> = distribute(&splits, 2).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2]);
    }
}
