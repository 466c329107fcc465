//! The files that a run read, with the checksums of what it read of them.

use std::collections::{BTreeMap, HashSet};

use super::runner::Runner;
use crate::job::{InputFile, ReadRanges};
use crate::source::checksum_of;

impl Runner<'_> {
    /// The records of `inputs`, with the checksums of those that a stage read.
    pub(super) fn read_files(&self, inputs: &[InputFile]) -> Vec<InputFile> {
        let mut read: BTreeMap<_, BTreeMap<u64, (u64, u32)>> = BTreeMap::new();
        for ReadRanges { path, bytes, modified, ranges } in self.read_so_far() {
            let ranges = ranges.into_iter().map(|(start, length, crc32)| (start, (length, crc32)));
            read.entry((path, bytes, modified)).or_default().extend(ranges);
        }
        let record = |input: &InputFile| {
            let ranges = read.get(&(input.path.clone(), input.bytes, input.modified.unwrap_or(0)));
            let (crc32, crc32_bytes) = ranges.map(checksum_of).unzip();
            InputFile { crc32, crc32_bytes, ..input.clone() }
        };
        inputs.iter().map(record).collect()
    }

    /// Those of the ranges that no stage of this run has read before.
    pub(super) fn not_read_before(&self, mut read: Vec<ReadRanges>) -> Vec<ReadRanges> {
        let before = self.read_so_far();
        let before: HashSet<_> = before
            .iter()
            .flat_map(|file| file.ranges.iter().map(|range| (file.path.as_str(), *range)))
            .collect();
        for ReadRanges { path, ranges, .. } in &mut read {
            ranges.retain(|range| !before.contains(&(path.as_str(), *range)));
        }
        read.retain(|file| !file.ranges.is_empty());
        read
    }
}
