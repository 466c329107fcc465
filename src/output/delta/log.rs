//! The log of a table, read from its end.

use std::collections::BTreeSet;

use percent_encoding::percent_decode_str;

use super::action::{Action, CommitInfo, MetaData, Protocol};
use crate::error::Result;
use crate::output::Layout;
use crate::schema::Table;

/// The folder of a log, inside the table's.
pub(super) const FOLDER: &str = "_delta_log";

/// Digits of a version in a name.
const DIGITS: usize = 20;

/// What lies in the place of a table's log.
pub(super) enum Found {
    /// Nothing.
    None,
    /// A log.
    Log(Box<Log>),
    /// Something that this program cannot go on from, and why.
    Unreadable(String),
}

/// A log, as far as its next commit needs it.
pub(super) struct Log {
    /// The version of the next commit.
    pub next: u64,
    /// The hash of the manifest that the newest commit of ours follows; none if no commit is ours.
    pub follows: Option<String>,
    pub protocol: Protocol,
    pub meta_data: MetaData,
    /// The files of the table, as the actions name them.
    pub files: BTreeSet<String>,
}

impl Log {
    /// The paths of its files inside the output. One that is not in the table's folder has none.
    pub(super) fn inside(&self, table: Table) -> impl Iterator<Item = String> {
        let decoded = self.files.iter().filter_map(|path| percent_decode_str(path).decode_utf8().ok());
        decoded.map(move |path| format!("{table}/{path}"))
    }

    /// Whether another program made the table: no commit of ours is in the log.
    pub(super) fn is_foreign(&self) -> bool {
        self.follows.is_none()
    }
}

/// The path of a commit inside the output.
pub(super) fn commit(table: Table, version: u64) -> String {
    format!("{}/{version:0DIGITS$}.json", folder(table))
}

/// The folder of a table's log inside the output.
pub(super) fn folder(table: Table) -> String {
    format!("{table}/{FOLDER}")
}

/// Whether a path inside an output is that of a commit, a checkpoint or the like, whoever wrote it.
pub(crate) fn is_part_of_log(inside: &str) -> bool {
    name_in_log(inside).is_some_and(|name| name == "_last_checkpoint" || version(name).is_some())
}

/// Whether a path inside an output is that of a file in the folder of a log.
pub(crate) fn is_in_log(inside: &str) -> bool {
    name_in_log(inside).is_some()
}

fn name_in_log(inside: &str) -> Option<&str> {
    let (table, inside) = inside.split_once('/')?;
    Table::named(table)?;
    inside.strip_prefix(FOLDER)?.strip_prefix('/').filter(|name| !name.contains('/'))
}

/// The version that a file's name begins with, and the rest behind the dot.
fn version(name: &str) -> Option<(u64, &str)> {
    let (digits, rest) = name.split_once('.')?;
    let is_version = digits.len() == DIGITS && digits.bytes().all(|b| b.is_ascii_digit());
    Some((is_version.then(|| digits.parse().ok())??, rest))
}

/// Reads the log of a table back to the newest commit of ours, or to its begin.
///
/// # Errors
/// When the store does not answer.
pub(super) async fn read(output: &Layout, table: Table) -> Result<Found> {
    let folder = folder(table);
    let listed = output.list(&folder).await?;
    let files: Vec<(u64, bool)> = listed
        .iter()
        // What lies deeper, such as copies of commits, is not in the log.
        .filter_map(|meta| output.inside(&meta.location))
        .filter_map(|inside| version(name_in_log(&inside)?).map(|(version, rest)| (version, rest == "json")))
        .collect();
    let commits: BTreeSet<u64> =
        files.iter().filter(|(_, commit)| *commit).map(|(version, _)| *version).collect();
    let Some(newest) = files.iter().map(|(version, _)| *version).max() else { return Ok(Found::None) };
    let mut read = Vec::new();
    for version in (0..=newest).rev() {
        let inside = commit(table, version);
        let bytes = if commits.contains(&version) { output.read_bytes(&inside).await? } else { None };
        let Some((bytes, _)) = bytes else {
            return Ok(Found::Unreadable(format!("{inside} is gone, which another program removed")));
        };
        let Some(actions) = actions(&bytes) else {
            return Ok(Found::Unreadable(format!("{inside} is not a commit of a Delta log")));
        };
        let ours = follows(&actions).is_some();
        read.push(actions);
        if ours {
            break;
        }
    }
    Ok(match fold(newest + 1, read) {
        Some(log) => Found::Log(Box::new(log)),
        None => Found::Unreadable(format!("{folder} says neither `protocol` nor `metaData`")),
    })
}

/// The actions of a commit; `None` if it is none.
pub(super) fn actions(bytes: &[u8]) -> Option<Vec<Action>> {
    let lines = std::str::from_utf8(bytes).ok()?.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| serde_json::from_str(line).ok()).collect()
}

fn follows(actions: &[Action]) -> Option<&str> {
    actions.iter().find_map(|action| action.commit_info.as_ref().and_then(CommitInfo::manifest))
}

/// The table after these commits, of which the newest comes first. The oldest one tells the whole table.
fn fold(next: u64, commits: Vec<Vec<Action>>) -> Option<Log> {
    let (mut protocol, mut meta_data, mut files) = (None, None, BTreeSet::new());
    let follows = commits.last().and_then(|oldest| follows(oldest)).map(str::to_owned);
    if follows.is_some() {
        // What it removes was in the table before.
        files.clear();
    }
    for actions in commits.into_iter().rev() {
        // A path that is both removed and added is there: the order inside a commit means nothing.
        for remove in actions.iter().filter_map(|action| action.remove.as_ref()) {
            files.remove(&remove.path);
        }
        for action in actions {
            files.extend(action.add.map(|add| add.path));
            protocol = action.protocol.or(protocol);
            meta_data = action.meta_data.or(meta_data);
        }
    }
    Some(Log { next, follows, protocol: protocol?, meta_data: meta_data?, files })
}
