//! Updates the logs of an output to its manifest.

use bytes::Bytes;
use futures::future::try_join_all;

use super::commit::{Published, cannot_continue, last_modified};
use super::log_reader::{self as log, FoundLog, Log};
use crate::delta::schema_string;
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
    let found = read(output).await?;
    let Some(published) = published(output).await? else { return Ok(true) };
    Ok(!found.iter().any(|(table, found)| needs_commit(&published, *table, found, tables)))
}

/// Updates the logs of an output to its manifest, if the output has a manifest. With [`TableFormat::Delta`], every table gets a log.
/// Otherwise, only existing logs with commits of this program are updated. Fails with `Kind::Input` if a log cannot be continued.
pub(crate) async fn publish(output: &Layout, tables: TableFormat) -> Result<()> {
    for _ in 0..ATTEMPTS {
        // The logs are read before the manifest. If another process then writes a newer manifest, it updates the logs itself.
        let found = read(output).await?;
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
    for (table, found) in read(output).await? {
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

async fn read(output: &Layout) -> Result<Vec<(Table, FoundLog)>> {
    try_join_all(Table::ALL.map(|table| async move { Ok((table, log::read(output, table).await?)) })).await
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
    output.create_whole(&log::commit_path(table, log.map_or(0, |log| log.next)), bytes).await
}
