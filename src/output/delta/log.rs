//! Reads the logs of an output backwards from their ends, and updates them to the manifest.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::future::try_join_all;

use super::commit::{Published, cannot_continue, last_modified};
use crate::delta::{FOLDER, MetaData, Protocol, TableState, actions, commit_name, schema_string, version_of};
use crate::error::{Error, Result};
use crate::job::{Job, TableFormat};
use crate::output::Layout;
use crate::output::manifest::Run;
use crate::output::ownership::Ours;
use crate::schema::{SourceTypes, Table, contract};

/// The maximum number of attempts to commit if other processes commit first. Each of these processes also updates the log.
const ATTEMPTS: usize = 20;

/// Whether [`publish`] has nothing to do.
pub(crate) async fn is_current(output: &Layout, tables: TableFormat) -> Result<bool> {
    let found = read_all(output).await?;
    let Some(published) = published(output).await? else { return Ok(true) };
    Ok(!found.iter().any(|(table, found)| needs_commit(&published, *table, found, tables)))
}

/// Updates the logs of an output to its manifest, if the output has a manifest. With [`TableFormat::Delta`], every table gets a log.
/// Otherwise, only existing logs with commits of this program are updated. Fails with `Kind::Input` if a log cannot be continued.
pub(crate) async fn publish(output: &Layout, tables: TableFormat) -> Result<()> {
    for _ in 0..ATTEMPTS {
        // The logs are read before the manifest. If another process then writes a newer manifest, it updates the logs itself.
        let found = read_all(output).await?;
        let Some(published) = published(output).await? else { return Ok(()) };
        let behind = found.iter().filter(|(table, found)| needs_commit(&published, *table, found, tables));
        let put = try_join_all(behind.map(|(table, found)| put(output, &published, *table, found))).await?;
        if put.into_iter().all(|put| put) {
            return Ok(());
        }
    }
    Err(Error::input(format!(
        "other processes keep writing to the Delta logs in {}: run again when they have ended",
        output.shown()
    )))
}

/// Refuses a table with columns that Delta does not support, or a table of another program, before anything is computed. Fails with
/// `Kind::Job` and advice, or with `Kind::Input` if the table's log cannot be continued.
pub(crate) async fn check(output: &Layout, job: &Job, types: &SourceTypes) -> Result<()> {
    let shown = output.shown();
    for (table, found) in read_all(output).await? {
        let is_written = Table::written_by(job).contains(&table);
        let asked = is_written && job.output.tables == TableFormat::Delta;
        match &found {
            FoundLog::Unreadable(why) if asked => return Err(cannot_continue(shown, table, why)),
            FoundLog::Log(log) if asked || !log.is_foreign() => {
                if log.is_foreign() {
                    refuse_foreign(output, table, log).await?;
                }
                if let Some(why) = log.forbids() {
                    return Err(cannot_continue(shown, table, &why));
                }
            }
            _ => {}
        }
        if !is_written {
            continue;
        }
        let schema = contract(table).over(types, job.columns()).arrow_schema();
        let Err(why) = schema_string(&schema) else { continue };
        let asked_by = if asked {
            "output.tables = \"delta\"".to_owned()
        } else if is_ours(&found) {
            format!("{shown} holds Delta tables, which this run would replace")
        } else {
            continue;
        };
        return Err(Error::job(format!(
            "{asked_by}: {table} cannot be a Delta table: {why}, or carry other columns"
        )));
    }
    Ok(())
}

/// Refuses a table of another program, unless this program wrote all of the table's files.
async fn refuse_foreign(output: &Layout, table: Table, log: &Log) -> Result<()> {
    let ours = Ours::named(output).await?;
    let foreign = log.inside(table).find(|inside| !ours.owns(inside));
    let holds = match foreign {
        None if !log.files.is_empty() => return Ok(()),
        None => "is empty".to_owned(),
        Some(file) => format!("holds {file}"),
    };
    let shown = output.shown().trim_end_matches('/');
    Err(Error::job(format!(
        "{shown}/{table} is a Delta table that another program made, which {holds}: this program never replaces it; choose another \
         output.url, or move the folder {shown}/{table} away"
    )))
}

async fn read_all(output: &Layout) -> Result<Vec<(Table, FoundLog)>> {
    try_join_all(Table::ALL.map(|table| async move { Ok((table, read(output, table).await?)) })).await
}

async fn published(output: &Layout) -> Result<Option<Published>> {
    let Some((bytes, at)) = output.published_manifest().await? else { return Ok(None) };
    // `Layout::manifest` reports a damaged manifest.
    match serde_json::from_slice::<Run>(&bytes) {
        Ok(manifest) => Ok(Some(Published::new(manifest, &bytes, at))),
        Err(_) => output.manifest().await.map(|_| None),
    }
}

fn is_ours(found: &FoundLog) -> bool {
    matches!(found, FoundLog::Log(log) if !log.is_foreign())
}

/// Whether the log of a table must be updated to the manifest.
fn needs_commit(published: &Published, table: Table, found: &FoundLog, tables: TableFormat) -> bool {
    let asked = tables == TableFormat::Delta && published.files(table).is_some();
    match found {
        FoundLog::Log(log) if log.follows.is_some() => log.follows.as_ref() != Some(&published.hash),
        _ => asked,
    }
}

/// Writes the next commit. Returns false if another process wrote it first.
async fn put(output: &Layout, published: &Published, table: Table, found: &FoundLog) -> Result<bool> {
    let shown = output.shown();
    published.manifest.check_format(shown)?;
    let log = match found {
        FoundLog::Log(log) => {
            if log.is_foreign() {
                refuse_foreign(output, table, log).await?;
            }
            Some(log.as_ref())
        }
        FoundLog::None => None,
        FoundLog::Unreadable(why) => return Err(cannot_continue(shown, table, why)),
    };
    let modified = last_modified(output, table.name()).await?;
    let bytes: Bytes = published.commit(table, log, shown, &modified)?;
    output.create_whole(&commit_path(table, log.map_or(0, |log| log.next)), bytes).await
}

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
