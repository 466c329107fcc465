//! Reads a version of a Delta table.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use percent_encoding::percent_decode_str;

use super::action::{Action, actions};
use super::names::{FOLDER, LogNames, UnreadableLog};
use super::state::{FileState, TableState};
use super::{checkpoint, protocol};
use crate::address;
use crate::error::{Context, Error, Result};

/// Files of the log that are read at the same time.
const CONCURRENT: usize = 16;

/// A table at a version.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub version: u64,
    /// Columns whose values are in the log and not in the files.
    pub partition_columns: Vec<String>,
    /// The files, by their paths in the table's folder.
    pub files: BTreeMap<String, SnapshotFile>,
}

/// A file of a table at a version.
#[derive(Debug, Default)]
pub(crate) struct SnapshotFile {
    /// Bytes.
    pub size: u64,
    /// The values of the partition columns.
    pub partition_values: BTreeMap<String, Option<String>>,
}

/// Reads the log of the table in the folder `root` of a store up to version `at`, or else to its end; `shown` is the table's name
/// in errors.
///
/// The log's folder is listed, so `_last_checkpoint`, which would save that, is not read.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) if there is no log, it is damaged, or it needs a feature that this
/// program does not support.
pub(crate) async fn read(
    store: &Arc<dyn ObjectStore>,
    root: &Path,
    shown: &str,
    at: Option<u64>,
) -> Result<Snapshot> {
    let shown = shown.trim_end_matches('/');
    let folder = root.clone().join(FOLDER);
    let listed: Vec<ObjectMeta> = store
        .list(Some(&folder))
        .try_collect()
        .await
        .context(|| format!("`{shown}/{FOLDER}` cannot be listed"))?;
    let mut names = LogNames::default();
    // Folders in that of the log belong to other programs.
    let inside = listed.iter().filter(|meta| meta.location.parts_count() == folder.parts_count() + 1);
    inside.filter_map(|meta| meta.location.filename()).for_each(|name| names.add(name));
    let needed = names.needed(at).map_err(|why| unusable(shown, why))?;

    let get = async |name: String| -> Result<(String, Bytes)> {
        let failed = || format!("{shown}/{FOLDER}/{name} cannot be read");
        let bytes = store.get(&folder.clone().join(name.as_str())).await.context(failed)?.bytes().await;
        bytes.context(failed).map(|bytes| (format!("{shown}/{FOLDER}/{name}"), bytes))
    };
    let mut table = TableState::default();
    for name in needed.checkpoint {
        let (name, bytes) = get(name).await?;
        table.apply(without_v2(checkpoint::read(bytes, &name).await?, shown)?);
    }
    let mut commits = stream::iter(needed.commits).map(get).buffered(CONCURRENT);
    while let Some((name, bytes)) = commits.try_next().await? {
        let Some(actions) = actions(&bytes) else {
            return Err(Error::input(format!("{name} is not a commit of a Delta log: restore it")));
        };
        table.apply(without_v2(actions, shown)?);
    }
    snapshot(table, needed.version, shown)
}

/// `actions`, unless one of them is of a kind that only v2 checkpoints have.
fn without_v2(actions: Vec<Action>, shown: &str) -> Result<Vec<Action>> {
    match actions.iter().any(|action| action.sidecar.is_some() || action.checkpoint_metadata.is_some()) {
        true => Err(unusable(shown, UnreadableLog::V2Checkpoint)),
        false => Ok(actions),
    }
}

fn snapshot(table: TableState, version: u64, shown: &str) -> Result<Snapshot> {
    let TableState { protocol: Some(protocol), meta_data: Some(meta_data), files } = table else {
        return Err(Error::input(format!(
            "the log of the Delta table `{shown}` says neither `protocol` nor `metaData`: restore its first commit"
        )));
    };
    if let Some(why) = protocol::unreadable(&protocol, &meta_data) {
        return Err(unreadable(shown, &why));
    }
    let mut there = BTreeMap::new();
    for (path, file) in files {
        check_path(&path, &file, shown)?;
        if file.has_deletion_vector {
            return Err(unreadable(shown, &protocol::deleted_rows(&path)));
        }
        there.insert(path, SnapshotFile { size: file.size, partition_values: file.partition_values });
    }
    Ok(Snapshot { version, partition_columns: meta_data.partition_columns, files: there })
}

/// Refuses a file outside the table's folder, and a path that no file can have.
fn check_path(path: &str, FileState { uri, .. }: &FileState, shown: &str) -> Result<()> {
    if uri.starts_with('/') || uri.starts_with("file:") || address::scheme(uri).is_some() {
        return Err(unreadable(
            shown,
            &format!(
                "its file {uri} is not in its folder, as those of a shallow clone: copy it into a table of its own"
            ),
        ));
    }
    let is_text = percent_decode_str(uri).decode_utf8().is_ok();
    if !is_text || path.chars().any(char::is_control) || Path::parse(path).is_err() {
        return Err(unreadable(shown, &format!("its log names a file {uri:?}, which no file can be called")));
    }
    Ok(())
}

fn unreadable(shown: &str, why: &str) -> Error {
    Error::input(format!("the Delta table `{shown}` cannot be read: {why}"))
}

fn unusable(shown: &str, why: UnreadableLog) -> Error {
    match why {
        UnreadableLog::NoLog => Error::input(format!(
            "`{shown}` is no Delta table, because there is no log in `{shown}/{FOLDER}`: correct [source] url, or set [source] \
             format to that of the files"
        )),
        UnreadableLog::MissingCommit(commit) => unreadable(
            shown,
            &format!("{FOLDER}/{commit} is gone, and no checkpoint replaces it: restore it"),
        ),
        UnreadableLog::V2Checkpoint => unreadable(shown, protocol::V2_CHECKPOINT),
    }
}
