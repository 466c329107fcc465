//! The names of the files in a Delta log, and the selection of files that a reader needs.

use std::collections::{BTreeMap, BTreeSet};

/// The folder of the log in the folder of a table.
pub(crate) const FOLDER: &str = "_delta_log";

/// The number of digits in a version, and in a part of a checkpoint.
const DIGITS: usize = 20;
const PART_DIGITS: usize = 10;

#[derive(Debug, Default)]
pub(super) struct LogNames {
    commits: BTreeSet<u64>,
    /// (version, number of parts) -> existing parts. A checkpoint in one file has one part.
    checkpoints: BTreeMap<(u64, u64), BTreeSet<u64>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct NeededFiles {
    pub version: u64,
    /// The parts of the checkpoint to read first. The list is empty if reading starts with the first commit.
    pub checkpoint: Vec<String>,
    /// The commits after the checkpoint, oldest first.
    pub commits: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum UnreadableLog {
    NoLog,
    /// This commit is missing, and no checkpoint replaces it. Checkpoints of the feature `v2Checkpoint` are not read.
    MissingCommit(String),
}

impl LogNames {
    /// Adds the name of a file. Names that do not belong to a log are ignored.
    pub(super) fn add(&mut self, name: &str) {
        let Some((version, rest)) = name.split_once('.') else { return };
        let Some(version) = number(version, DIGITS) else { return };
        match rest.split('.').collect::<Vec<_>>().as_slice() {
            ["json"] => {
                self.commits.insert(version);
            }
            ["checkpoint", "parquet"] => {
                self.checkpoints.entry((version, 1)).or_default().insert(1);
            }
            ["checkpoint", part, parts, "parquet"] => {
                if let (Some(part), Some(parts)) = (number(part, PART_DIGITS), number(parts, PART_DIGITS)) {
                    self.checkpoints.entry((version, parts)).or_default().insert(part);
                }
            }
            _ => {}
        }
    }

    /// Returns the files that contain version `at` or the newest version. These are the newest complete checkpoint and the commits after
    /// it.
    pub(super) fn needed(&self, at: Option<u64>) -> Result<NeededFiles, UnreadableLog> {
        // A checkpoint is complete if all parts exist.
        let whole = |((_, parts), there): &(&(u64, u64), &BTreeSet<u64>)| there.len() as u64 == *parts;
        let until = ..=(at.unwrap_or(u64::MAX), u64::MAX);
        let checkpoint = self.checkpoints.range(until).filter(whole).map(|(key, _)| *key).next_back();
        let newest = self.commits.last().copied().max(checkpoint.map(|(version, _)| version));
        let version = at.or(newest).ok_or(UnreadableLog::NoLog)?;
        let first = checkpoint.map_or(0, |(version, _)| version + 1);
        let mut commits = Vec::new();
        for version in first..=version {
            let name = commit_name(version);
            if !self.commits.contains(&version) {
                return Err(UnreadableLog::MissingCommit(name));
            }
            commits.push(name);
        }
        let checkpoint = match checkpoint {
            None => Vec::new(),
            Some((version, 1)) => vec![format!("{version:0DIGITS$}.checkpoint.parquet")],
            Some((version, parts)) => {
                let name = |part| {
                    format!(
                        "{version:0DIGITS$}.checkpoint.{part:0PART_DIGITS$}.{parts:0PART_DIGITS$}.parquet"
                    )
                };
                (1..=parts).map(name).collect()
            }
        };
        Ok(NeededFiles { version, checkpoint, commits })
    }
}

pub(crate) fn commit_name(version: u64) -> String {
    format!("{version:0DIGITS$}.json")
}

pub(crate) fn version_of(name: &str) -> Option<u64> {
    number(name.split_once('.')?.0, DIGITS)
}

/// Parses a number of exactly `digits` digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(version: u64) -> String {
        format!("{version:020}.json")
    }

    fn part(version: u64, part: u64, parts: u64) -> String {
        format!("{version:020}.checkpoint.{part:010}.{parts:010}.parquet")
    }

    fn needed(names: &[String]) -> Result<NeededFiles, UnreadableLog> {
        let mut found = LogNames::default();
        names.iter().for_each(|name| found.add(name));
        found.needed(None)
    }

    #[test]
    fn commits_follow_the_newest_whole_checkpoint() {
        let single = |version| format!("{version:020}.checkpoint.parquet");
        let of = |version, checkpoint: &[String], commits: &[u64]| NeededFiles {
            version,
            checkpoint: checkpoint.to_vec(),
            commits: commits.iter().copied().map(commit).collect(),
        };
        let all: Vec<String> = (0..5).map(commit).collect();
        assert_eq!(needed(&all), Ok(of(4, &[], &[0, 1, 2, 3, 4])));
        let with = |more: &[String]| needed(&[&all, more].concat());
        assert_eq!(with(&[single(2), single(1)]), Ok(of(4, &[single(2)], &[3, 4])));
        assert_eq!(with(&[single(4)]), Ok(of(4, &[single(4)], &[])));
        let parts = [part(3, 1, 2), part(3, 2, 2)];
        assert_eq!(with(&parts), Ok(of(4, &parts, &[4])));
        assert_eq!(with(&[single(1), part(3, 1, 2)]), Ok(of(4, &[single(1)], &[2, 3, 4])));
        let others = ["_last_checkpoint", "00000000000000000001.crc", ".tmp", "7.json"];
        let mut found = LogNames::default();
        all.iter().chain(&[single(1), single(3)]).for_each(|name| found.add(name));
        assert_eq!(found.needed(Some(2)), Ok(of(2, &[single(1)], &[2])), "a version before the newest");
        assert_eq!(found.needed(Some(1)), Ok(of(1, &[single(1)], &[])));
        assert_eq!(found.needed(Some(7)), Err(UnreadableLog::MissingCommit(commit(5))));
        let compacted = format!("{:020}.{:020}.compacted.json", 1, 3);
        assert_eq!(with(&[others.map(str::to_owned).to_vec(), vec![compacted]].concat()), needed(&all));
        let named =
            |version: u64| format!("{version:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json");
        assert_eq!(needed(&[]), Err(UnreadableLog::NoLog));
        assert_eq!(needed(&[commit(0), commit(2)]), Err(UnreadableLog::MissingCommit(commit(1))));
        assert_eq!(needed(&[commit(3), part(2, 1, 2)]), Err(UnreadableLog::MissingCommit(commit(0))));
        assert_eq!(needed(&[named(2), commit(3)]), Err(UnreadableLog::MissingCommit(commit(0))));
        // If all commits exist, the checkpoint is not needed.
        assert!(needed(&[commit(0), commit(1), named(1)]).is_ok());
    }
}
