//! Reads the log of a table backwards from its end, and finds files in logs that this program does not update.

use std::collections::BTreeSet;

use crate::delta::{FOLDER, MetaData, Protocol, TableState, actions, commit_name, version_of};
use crate::error::Result;
use crate::output::Layout;
use crate::schema::Table;

/// The log of a table, if one exists.
pub(super) enum FoundLog {
    None,
    Log(Box<Log>),
    /// A log that this program cannot continue, with the reason.
    Unreadable(String),
}

/// The state of a log that is needed for the next commit.
pub(super) struct Log {
    /// The version of the next commit.
    pub next: u64,
    /// The hash of the manifest for which this program wrote its newest commit, or `None` if this program wrote no commit.
    pub follows: Option<String>,
    pub protocol: Protocol,
    pub meta_data: MetaData,
    /// The files of the table: each path in the table's folder, and the same path as written in the log's actions.
    pub files: Vec<(String, String)>,
}

impl Log {
    pub(super) fn inside(&self, table: Table) -> impl Iterator<Item = String> {
        self.files.iter().map(move |(path, _)| format!("{table}/{path}"))
    }

    /// Whether another program made the table. The table then contains no commit by this program.
    pub(super) fn is_foreign(&self) -> bool {
        self.follows.is_none()
    }

    /// Returns the reason why this program must not write to the table, or `None` if it may write.
    pub(super) fn forbids(&self) -> Option<String> {
        if let Some(unknown) = self.protocol.unknown_to_writers() {
            return Some(format!("another program gave it {unknown}, which this program does not know"));
        }
        (self.meta_data.property("delta.appendOnly") == Some("true"))
            .then(|| "its files may only be added to (delta.appendOnly)".into())
    }
}

pub(super) fn commit_path(table: Table, version: u64) -> String {
    format!("{}/{}", log_folder(table), commit_name(version))
}

pub(super) fn log_folder(table: Table) -> String {
    format!("{table}/{FOLDER}")
}

/// Whether a path inside an output is a commit, a checkpoint or another file of a log, written by any program.
pub(crate) fn is_part_of_log(inside: &str) -> bool {
    name_in_log(inside).is_some_and(|name| name == "_last_checkpoint" || version_of(name).is_some())
}

pub(crate) fn is_in_log(inside: &str) -> bool {
    name_in_log(inside).is_some()
}

fn name_in_log(inside: &str) -> Option<&str> {
    let (table, inside) = inside.split_once('/')?;
    Table::named(table)?;
    inside.strip_prefix(FOLDER)?.strip_prefix('/').filter(|name| !name.contains('/'))
}

/// Reads the log of a table back to the newest commit of this program, or to its beginning.
pub(super) async fn read(output: &Layout, table: Table) -> Result<FoundLog> {
    let folder = log_folder(table);
    let listed = output.list(&folder).await?;
    // Files in deeper folders, such as copies of commits, do not belong to the log.
    let inside: Vec<String> = listed.iter().filter_map(|meta| output.inside(&meta.location)).collect();
    let names: BTreeSet<&str> = inside.iter().filter_map(|inside| name_in_log(inside)).collect();
    let Some(newest) = names.iter().filter_map(|name| version_of(name)).max() else {
        return Ok(FoundLog::None);
    };
    let (mut commits, mut follows) = (Vec::new(), None);
    for version in (0..=newest).rev() {
        let inside = commit_path(table, version);
        let there = names.contains(commit_name(version).as_str());
        let bytes = if there { output.read_bytes(&inside).await? } else { None };
        let Some((bytes, _)) = bytes else {
            return Ok(FoundLog::Unreadable(format!("{inside} is gone, because another program removed it")));
        };
        let Some(actions) = actions(&bytes) else {
            return Ok(FoundLog::Unreadable(format!("{inside} is not a commit of a Delta log")));
        };
        follows =
            actions.iter().find_map(|action| action.commit_info.as_ref()?.manifest()).map(str::to_owned);
        commits.push(actions);
        // Each commit of this program contains the whole table, so reading stops here.
        if follows.is_some() {
            break;
        }
    }
    let mut state = TableState::default();
    commits.into_iter().rev().for_each(|actions| state.apply(actions));
    let TableState { protocol: Some(protocol), meta_data: Some(meta_data), files } = state else {
        return Ok(FoundLog::Unreadable(format!("{folder} lacks `protocol` or `metaData`")));
    };
    let files = files.into_iter().map(|(path, file)| (path, file.path)).collect();
    Ok(FoundLog::Log(Box::new(Log { next: newest + 1, follows, protocol, meta_data, files })))
}

/// Files that are kept because a Delta log may refer to them. The log belongs to another program, or this program cannot continue it.
#[derive(Debug, Default)]
pub(crate) struct LogFiles {
    files: BTreeSet<String>,
    /// Tables with logs that cannot be read.
    tables: BTreeSet<&'static str>,
}

impl LogFiles {
    /// Whether the log of a file's table may refer to the file.
    pub(crate) fn holds(&self, inside: &str) -> bool {
        let table = inside.split_once('/').map_or(inside, |(table, _)| table);
        self.tables.contains(table) || self.files.contains(inside)
    }
}

/// Finds the [`LogFiles`] of an output.
pub(crate) async fn held(output: &Layout) -> Result<LogFiles> {
    let mut held = LogFiles::default();
    for table in Table::ALL {
        match read(output, table).await? {
            FoundLog::None => {}
            FoundLog::Log(log) if !log.is_foreign() && log.forbids().is_none() => {}
            FoundLog::Log(log) => held.files.extend(log.inside(table)),
            FoundLog::Unreadable(_) => {
                held.tables.insert(table.name());
            }
        }
    }
    Ok(held)
}
