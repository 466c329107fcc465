//! What of which file a partition reads.

use std::sync::Arc;

use datafusion::datasource::listing::FileRange;

use super::listing::File;
use super::selection::{RowSet, Selection};

/// The smallest part of a file that is read on its own: a row group of a Parquet file, or a whole file.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub file: Arc<File>,
    /// The bytes whose row groups are meant; none is the whole file.
    pub range: Option<FileRange>,
    /// The number of the first row in its file, from 0.
    pub first_row: u64,
    /// How many rows there are; `None` if nothing but reading tells.
    pub rows: Option<u64>,
    /// Rows of the whole file; `None` if nothing but reading tells.
    pub file_rows: Option<u64>,
    /// What reading it costs, in bytes.
    pub weight: u64,
}

impl Piece {
    /// All of a file whose rows nobody has counted.
    pub(crate) fn whole(file: &Arc<File>) -> Self {
        let weight = file.meta.size;
        Self { file: Arc::clone(file), range: None, first_row: 0, rows: None, file_rows: None, weight }
    }

    /// The wanted rows of the piece, and what it costs to read them alone; `None` if no row is wanted.
    pub(crate) fn only(&self, selection: &Selection) -> Option<(RowSet, Piece)> {
        let of_file = selection.of(&self.file.path)?;
        let Some(rows) = self.rows else { return Some((of_file.clone(), self.clone())) };
        let wanted = of_file.within(self.first_row..self.first_row + rows);
        let share = wanted.count() as f64 / rows.max(1) as f64;
        let weight = (self.weight as f64 * share) as u64;
        (wanted.count() > 0).then(|| (wanted, Piece { weight, ..self.clone() }))
    }
}

/// Bytes of values that a batch should hold.
const BATCH_BYTES: u64 = 8 * 1024 * 1024;

/// Rows of a batch of rows of about `row_bytes` bytes: few enough to hold little, and `most` at most.
pub(super) fn batch_rows(row_bytes: u64, most: usize) -> usize {
    usize::try_from(BATCH_BYTES / row_bytes.max(1)).unwrap_or(most).clamp(1, most)
}

/// Pieces dealt to at most `partitions` partitions, in order, about equally heavy; none of them is empty.
///
/// Neighbours of one file that come to one partition are joined: opening a file twice costs more than it brings.
pub(super) fn spread(pieces: &[Piece], partitions: usize) -> Vec<Vec<Piece>> {
    let partitions = partitions.max(1);
    // Even a file of no bytes costs its opening.
    let cost = |piece: &Piece| u128::from(piece.weight.max(1));
    let total: u128 = pieces.iter().map(cost).sum();
    let mut groups: Vec<Vec<Piece>> = vec![Vec::new(); partitions];
    let mut before = 0;
    for piece in pieces {
        // The partition in whose share the piece's middle lies.
        let at = (2 * before + cost(piece)) * partitions as u128 / (2 * total);
        before += cost(piece);
        let group = &mut groups[(at as usize).min(partitions - 1)];
        match group.last_mut() {
            Some(last) if follows(last, piece) => join(last, piece),
            _ => group.push(piece.clone()),
        }
    }
    groups.retain(|group| !group.is_empty());
    groups
}

fn follows(last: &Piece, next: &Piece) -> bool {
    Arc::ptr_eq(&last.file, &next.file)
        && last.range.is_some()
        && next.range.is_some()
        && last.rows.is_some_and(|rows| last.first_row + rows == next.first_row)
}

fn join(last: &mut Piece, next: &Piece) {
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

    fn file(name: &str) -> Arc<File> {
        let meta = ObjectMeta {
            location: Path::from(name),
            last_modified: Default::default(),
            size: 0,
            e_tag: None,
            version: None,
        };
        Arc::new(File {
            path: name.into(),
            name: name.into(),
            store: ObjectStoreUrl::local_filesystem(),
            meta,
        })
    }

    proptest! {
        /// Whatever the weights and the partitions, every row of every file is in exactly one piece.
        #[test]
        fn every_row_is_in_one_piece(
            weights in prop::collection::vec(prop::collection::vec((0u64..1000, 1u64..50), 0..8), 1..6),
            partitions in 1usize..9,
        ) {
            let files: Vec<_> = (0..weights.len()).map(|i| file(&i.to_string())).collect();
            let mut pieces = Vec::new();
            for (groups, file) in weights.iter().zip(&files) {
                let mut first_row = 0;
                for (i, (weight, rows)) in groups.iter().enumerate() {
                    let range = Some(FileRange { start: i as i64 * 10, end: i as i64 * 10 + 10 });
                    let whole = Piece::whole(file);
                    pieces.push(Piece { range, first_row, rows: Some(*rows), weight: *weight, ..whole });
                    first_row += rows;
                }
            }
            let spread = spread(&pieces, partitions);
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
        let pieces: Vec<_> =
            (0..4).map(|i| Piece { weight: 10, ..Piece::whole(&file(&i.to_string())) }).collect();
        let sizes: Vec<_> = spread(&pieces, 2).iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2]);
    }
}
