//! The names in the folder of a Delta log: which of its files a reader needs.

use std::collections::{BTreeMap, BTreeSet};

/// Digits of a version, and of a part of a checkpoint.
const DIGITS: usize = 20;
const PART_DIGITS: usize = 10;

/// What lies in the folder of a log. Files of other names are of no use to a reader.
#[derive(Debug, Default)]
pub(super) struct Names {
    commits: BTreeSet<u64>,
    /// (version, number of parts) -> the parts that are there. A checkpoint in one file has one part.
    checkpoints: BTreeMap<(u64, u64), BTreeSet<u64>>,
    /// Versions of checkpoints whose names are those of the second version of checkpoints.
    second: BTreeSet<u64>,
}

/// The files that tell of the newest version, oldest first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Needed {
    pub version: u64,
    /// The checkpoint to begin with, in its parts; none where the commits tell everything.
    pub checkpoint: Vec<String>,
    pub commits: Vec<String>,
}

/// Why a log cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unusable {
    /// There is none.
    Nothing,
    /// This commit is gone, and no checkpoint stands for it.
    Gone(String),
    /// Only a checkpoint of the second version stands for the commits that are gone.
    SecondCheckpoint,
}

impl Names {
    /// Takes up a name.
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
            ["checkpoint", _, "json" | "parquet"] => {
                self.second.insert(version);
            }
            _ => {}
        }
    }

    /// The files that tell of the newest version: the newest checkpoint that is whole, and the commits behind it.
    ///
    /// # Errors
    /// Why there is no such thing.
    pub(super) fn needed(&self) -> Result<Needed, Unusable> {
        // A checkpoint whose parts were not all written is none.
        let whole = |((_, parts), there): &(&(u64, u64), &BTreeSet<u64>)| there.len() as u64 == *parts;
        let checkpoint = self.checkpoints.iter().filter(whole).map(|(key, _)| *key).next_back();
        let newest = self.commits.last().copied().max(checkpoint.map(|(version, _)| version));
        let Some(version) = newest.or(self.second.last().copied()) else { return Err(Unusable::Nothing) };
        let first = checkpoint.map_or(0, |(version, _)| version + 1);
        let mut commits = Vec::new();
        for version in first..=version {
            let name = format!("{version:0DIGITS$}.json");
            if !self.commits.contains(&version) {
                return Err(match self.second.is_empty() {
                    true => Unusable::Gone(name),
                    false => Unusable::SecondCheckpoint,
                });
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
        Ok(Needed { version, checkpoint, commits })
    }
}

/// A number of exactly so many digits.
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

    fn needed(names: &[String]) -> Result<Needed, Unusable> {
        let mut found = Names::default();
        names.iter().for_each(|name| found.add(name));
        found.needed()
    }

    #[test]
    fn commits_follow_the_newest_whole_checkpoint() {
        let single = |version| format!("{version:020}.checkpoint.parquet");
        let of = |version, checkpoint: &[String], commits: &[u64]| Needed {
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
        let compacted = format!("{:020}.{:020}.compacted.json", 1, 3);
        assert_eq!(with(&[others.map(str::to_owned).to_vec(), vec![compacted]].concat()), needed(&all));
    }

    #[test]
    fn a_log_with_gaps_is_unusable() {
        let named =
            |version: u64| format!("{version:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json");
        assert_eq!(needed(&[]), Err(Unusable::Nothing));
        assert_eq!(needed(&[commit(0), commit(2)]), Err(Unusable::Gone(commit(1))));
        assert_eq!(needed(&[commit(3), part(2, 1, 2)]), Err(Unusable::Gone(commit(0))));
        assert_eq!(needed(&[named(2), commit(3)]), Err(Unusable::SecondCheckpoint));
        assert_eq!(needed(&[named(2)]), Err(Unusable::SecondCheckpoint));
        // Where all commits are there, nobody needs the checkpoint.
        assert!(needed(&[commit(0), commit(1), named(1)]).is_ok());
    }
}
