//! Splits: the parts of files that partitions read.

use std::sync::Arc;

use datafusion::datasource::listing::FileRange;

use super::file::SourceFile;
use super::selection::{RowSet, Selection};

/// The smallest part of a file that is read on its own: a row group of a Parquet file, or a whole file.
#[derive(Debug, Clone)]
pub(super) struct Split {
    pub file: Arc<SourceFile>,
    /// The bytes in which the row groups start; `None` for the whole file.
    pub range: Option<FileRange>,
    /// The number of the first row in its file, from 0.
    pub first_row: u64,
    /// The number of rows; `None` if it is not known before the file is read.
    pub rows: Option<u64>,
    /// Rows of the whole file; `None` if it is not known before the file is read.
    pub file_rows: Option<u64>,
    /// The cost of reading it, in bytes.
    pub weight: u64,
}

impl Split {
    /// A whole file whose number of rows is not known.
    pub(crate) fn whole(file: &Arc<SourceFile>) -> Self {
        let weight = file.meta.size;
        Self { file: Arc::clone(file), range: None, first_row: 0, rows: None, file_rows: None, weight }
    }

    /// The wanted rows of the split, and a split that costs as much as reading these; `None` if no row is wanted.
    pub(crate) fn only(&self, selection: &Selection) -> Option<(RowSet, Split)> {
        let of_file = selection.of(&self.file.path)?;
        let Some(rows) = self.rows else { return Some((of_file.clone(), self.clone())) };
        let wanted = of_file.within(self.first_row..self.first_row + rows);
        let share = wanted.count() as f64 / rows.max(1) as f64;
        let weight = (self.weight as f64 * share) as u64;
        (wanted.count() > 0).then(|| (wanted, Split { weight, ..self.clone() }))
    }
}

/// The target size of a batch, in bytes of values.
const BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// The rows of a batch whose rows have about `row_bytes` bytes; at most `most`.
pub(super) fn batch_rows(row_bytes: u64, most: usize) -> usize {
    usize::try_from(BATCH_BYTES / row_bytes.max(1)).unwrap_or(most).clamp(1, most)
}

/// Deals splits to at most `partitions` partitions, in order and with about equal weights; none of them is empty.
///
/// Neighbours in one file and one partition are joined, so that the file is opened once.
pub(super) fn spread(splits: &[Split], partitions: usize) -> Vec<Vec<Split>> {
    let partitions = partitions.max(1);
    // Even an empty file costs its opening.
    let cost = |split: &Split| u128::from(split.weight.max(1));
    let total: u128 = splits.iter().map(cost).sum();
    let mut groups: Vec<Vec<Split>> = vec![Vec::new(); partitions];
    let mut before = 0;
    for split in splits {
        // The partition that has the middle of the split in its share.
        let at = (2 * before + cost(split)) * partitions as u128 / (2 * total);
        before += cost(split);
        let group = &mut groups[(at as usize).min(partitions - 1)];
        match group.last_mut() {
            Some(last) if follows(last, split) => join(last, split),
            _ => group.push(split.clone()),
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

fn follows(last: &Split, next: &Split) -> bool {
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
    use super::*;
    use datafusion::execution::object_store::ObjectStoreUrl;
    use object_store::ObjectMeta;
    use object_store::path::Path;
    use proptest::prelude::*;

    fn file(name: &str) -> Arc<SourceFile> {
        let meta = ObjectMeta {
            location: Path::from(name),
            last_modified: Default::default(),
            size: 0,
            e_tag: None,
            version: None,
        };
        Arc::new(SourceFile::new(name.into(), name.into(), ObjectStoreUrl::local_filesystem(), meta))
    }

    proptest! {
        /// Whatever the weights and the partitions, every row of every file is in exactly one split.
        #[test]
        fn every_row_is_in_one_piece(
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
            let spread = spread(&splits, partitions);
            prop_assert!(spread.len() <= partitions);
            for (file, groups) in files.iter().zip(&weights) {
                let mut seen: Vec<(u64, u64, i64, i64)> = spread.iter().flatten()
                    .filter(|p| Arc::ptr_eq(&p.file, file))
                    .map(|p| {
                        let range = p.range.as_ref().unwrap();
                        (p.first_row, p.rows.unwrap(), range.start, range.end)
                    })
                    .collect();
                seen.sort();
                let mut row = 0;
                let mut byte = 0;
                for (first, rows, start, end) in seen {
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
        let sizes: Vec<_> = spread(&splits, 2).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2]);
    }
}
