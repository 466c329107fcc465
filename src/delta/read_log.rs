//! Reads versions of Delta tables: checkpoints, commits, and the state of the table after them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::json::LineDelimitedWriter;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use percent_encoding::percent_decode_str;

use super::action::{Action, Add, MetaData, Protocol, actions};
use super::names::{FOLDER, LogNames, UnreadableLog};
use super::protocol;
use crate::address;
use crate::error::guard::guarded;
use crate::error::{Context, Error, Result};
use crate::parquet_headers::check_file;

/// The number of log files that are read at the same time.
const CONCURRENT: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub version: u64,
    /// The columns whose values are in the log.
    pub partition_columns: Vec<String>,
    /// The files by their paths in the folder of the table.
    pub files: BTreeMap<String, Add>,
}

/// Reads version `at`, or the newest version, of the table in the folder `root` of a store. `shown` is the name of the table in errors. The
/// folder of the log is listed, so `_last_checkpoint` is not read. Fails with `Kind::Input` if there is no log, the log is damaged, or the
/// table needs a feature that this program does not support.
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
    // Folders in the log belong to other programs.
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
        table.apply(read_checkpoint(bytes, &name).await?);
    }
    let mut commits = stream::iter(needed.commits).map(get).buffered(CONCURRENT);
    while let Some((name, bytes)) = commits.try_next().await? {
        let Some(actions) = actions(&bytes) else {
            return Err(Error::input(format!("{name} is not a commit of a Delta log: restore it")));
        };
        table.apply(actions);
    }
    snapshot(table, needed.version, shown)
}

fn snapshot(table: TableState, version: u64, shown: &str) -> Result<Snapshot> {
    let TableState { protocol: Some(protocol), meta_data: Some(meta_data), files } = table else {
        return Err(Error::input(format!(
            "the log of the Delta table `{shown}` lacks `protocol` or `metaData`: restore its first commit"
        )));
    };
    if let Some(why) = protocol::unreadable(&protocol, &meta_data) {
        return Err(unreadable(shown, &why));
    }
    for (path, file) in &files {
        check_path(path, &file.path, shown)?;
        if file.deletion_vector.is_some() {
            return Err(unreadable(shown, &protocol::deleted_rows(path)));
        }
    }
    Ok(Snapshot { version, partition_columns: meta_data.partition_columns, files })
}

/// Refuses a file outside the folder of the table, and an invalid path.
fn check_path(path: &str, uri: &str, shown: &str) -> Result<()> {
    if uri.starts_with('/') || uri.starts_with("file:") || address::scheme(uri).is_some() {
        return Err(unreadable(
            shown,
            &format!(
                "its file {uri} is outside its folder, as in a shallow clone: copy all rows into a new table"
            ),
        ));
    }
    let is_text = percent_decode_str(uri).decode_utf8().is_ok();
    if !is_text || path.chars().any(char::is_control) || Path::parse(path).is_err() {
        return Err(unreadable(shown, &format!("its log names a file {uri:?}, which is no valid path")));
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
            &format!(
                "{FOLDER}/{commit} is gone, and no checkpoint without the feature `v2Checkpoint` replaces it: restore it, or set the \
                 table's property delta.checkpointPolicy to classic and let its writer make a checkpoint"
            ),
        ),
    }
}

#[derive(Debug, Default)]
pub(crate) struct TableState {
    pub protocol: Option<Protocol>,
    pub meta_data: Option<MetaData>,
    pub files: BTreeMap<String, Add>,
}

impl TableState {
    /// Applies the actions of a commit or of a part of a checkpoint.
    pub(crate) fn apply(&mut self, actions: Vec<Action>) {
        // The actions in a commit have no order. A file that is both removed and added is in the table.
        for remove in actions.iter().filter_map(|action| action.remove.as_ref()) {
            self.files.remove(&decoded(&remove.path));
        }
        for action in actions {
            self.files.extend(action.add.map(|file| (decoded(&file.path), file)));
            self.protocol = action.protocol.or(self.protocol.take());
            self.meta_data = action.meta_data.or(self.meta_data.take());
        }
    }
}

/// Decodes the path in a URI. A URI that is not an encoded path is returned unchanged.
fn decoded(uri: &str) -> String {
    percent_decode_str(uri).decode_utf8().map_or_else(|_| uri.to_owned(), |path| path.into_owned())
}

/// The fields of a checkpoint that are read. Removed files are only needed by programs that delete files.
const FIELDS: [&str; 8] = [
    "protocol.minReaderVersion",
    "protocol.readerFeatures",
    "metaData.partitionColumns",
    "metaData.configuration",
    "add.path",
    "add.partitionValues",
    "add.size",
    "add.deletionVector",
];

/// Reads the actions in a checkpoint or in a part of a checkpoint. `shown` is the name of the table in errors. Fails with `Kind::Input` if
/// the bytes are not Parquet, or not a checkpoint.
async fn read_checkpoint(bytes: Bytes, shown: &str) -> Result<Vec<Action>> {
    let read = tokio::task::spawn_blocking(move || guarded(|| json_lines(bytes)).flatten()).await;
    let failed = || Error::input(format!("{shown} is not a checkpoint of a Delta log"));
    let lines = read.map_err(|e| failed().because(e))?.context(|| format!("{shown} cannot be read"))?;
    actions(&lines).ok_or_else(failed)
}

/// Converts the rows of a checkpoint to the format of a commit: one line of JSON per action.
fn json_lines(bytes: Bytes) -> Result<Vec<u8>> {
    check_file(&bytes)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
    let fields = ProjectionMask::columns(builder.parquet_schema(), FIELDS);
    let mut writer = LineDelimitedWriter::new(Vec::new());
    for batch in builder.with_projection(fields).build()? {
        writer.write(&batch?)?;
    }
    writer.finish()?;
    Ok(writer.into_inner())
}
