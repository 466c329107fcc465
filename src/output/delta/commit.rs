//! The commit that lists the files in a manifest, and the single commit for a folder that is written once.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::{Schema, SchemaRef};
use bytes::Bytes;
use uuid::Builder;
use xxhash_rust::xxh3::xxh3_128;

use super::log_reader::{Log, log_folder};
use crate::delta::{
    Add, CommitInfo, FOLDER, MetaData, Protocol, Remove, TableCommit, actions, commit_name, schema_string,
};
use crate::error::{Error, Result};
use crate::output::Layout;
use crate::output::manifest::{File, Run};
use crate::schema::{Table, contract};

pub(super) struct Published {
    pub manifest: Run,
    pub hash: String,
    /// The time of publication in milliseconds since 1970. Apart from the times of files, commits contain only this time, so that two
    /// processes write the same bytes for the same result.
    pub at: i64,
}

impl Published {
    pub(super) fn new(manifest: Run, bytes: &[u8], at: i64) -> Self {
        Self { manifest, hash: format!("{:032x}", xxh3_128(bytes)), at }
    }

    /// Returns the files of a table, or `None` if the result does not contain the table.
    pub(super) fn files(&self, table: Table) -> Option<&[File]> {
        self.manifest.tables.get(table.name()).map(|table| table.files.as_slice())
    }

    fn schema(&self, table: Table) -> Result<SchemaRef> {
        Ok(contract(table).over(&self.manifest.source, self.manifest.job()?.columns()).arrow_schema())
    }

    /// Returns the bytes of the commit that follows `log`, or of the first commit. `modified` contains the time at which each file was
    /// written. A table that is no longer in the result becomes empty. Fails with `Kind::Input` if Delta cannot represent the table, or if
    /// its log forbids further commits.
    pub(super) fn commit(
        &self,
        table: Table,
        log: Option<&Log>,
        shown: &str,
        modified: &BTreeMap<String, i64>,
    ) -> Result<Bytes> {
        if let Some(why) = log.and_then(Log::forbids) {
            return Err(cannot_continue(shown, table, &why));
        }
        let (protocol, meta_data) = self.table(table, log, shown)?;
        let prefix = format!("{table}/");
        let mut adds = Vec::new();
        for file in self.files(table).unwrap_or_default() {
            let Some(inside) = file.path.strip_prefix(&prefix) else {
                return Err(Error::bug(format!("{} is a file of {table} and not in its folder", file.path)));
            };
            let at = modified.get(&file.path).copied().unwrap_or(self.at);
            adds.push(Add::new(inside, file.rows, file.bytes, at));
        }
        let added: BTreeSet<&str> = adds.iter().map(|add| add.path.as_str()).collect();
        let before = log.iter().flat_map(|log| &log.files).filter(|(_, uri)| !added.contains(uri.as_str()));
        let remove =
            |uri: &String| Remove { path: uri.clone(), deletion_timestamp: self.at, data_change: true };
        let removes = before.map(|(_, uri)| remove(uri)).collect();
        let info = CommitInfo::new(self.at, Some(&self.hash));
        TableCommit { info, protocol, meta_data, removes, adds }.into_bytes()
    }

    /// Returns the protocol and the metadata of the table after the commit.
    fn table(&self, table: Table, log: Option<&Log>, shown: &str) -> Result<(Protocol, MetaData)> {
        let before = log.map(|log| &log.meta_data);
        if let (None, Some(log)) = (self.files(table), log) {
            return Ok((log.protocol.clone(), log.meta_data.clone()));
        }
        let schema = self.schema(table)?;
        let schema_string = schema_string(&schema)
            .map_err(|why| Error::input(format!("{table} of {shown} cannot be a Delta table: {why}")))?;
        let meta_data = match before {
            Some(before) => MetaData {
                format: Default::default(),
                schema_string,
                partition_columns: Vec::new(),
                created_time: Some(before.created_time.unwrap_or(self.at)),
                ..before.clone()
            },
            None => MetaData {
                id: table_id(&format!("{} {table}", self.hash)),
                schema_string,
                created_time: Some(self.at),
                ..MetaData::default()
            },
        };
        Ok((Protocol::lowest(&schema, log.map(|log| &log.protocol)), meta_data))
    }
}

/// Returns the id of a table, derived from a `key` that is unique to the table.
pub(super) fn table_id(key: &str) -> String {
    Builder::from_random_bytes(xxh3_128(key.as_bytes()).to_be_bytes()).into_uuid().to_string()
}

pub(super) fn cannot_continue(shown: &str, table: Table, why: &str) -> Error {
    let folder = log_folder(table);
    Error::input(format!(
        "the Delta log of {table} in {shown} cannot be continued: {why}: move the folder {shown}/{folder} away, so that the \
         next run begins a new log",
        shown = shown.trim_end_matches('/'),
    ))
}

/// Writes the log of the table in `folder` of an output, whose files must exist. Their paths are inside the folder. An empty `folder` is
/// the output itself. `key` distinguishes this table from all other tables. Replaces the commit of an earlier attempt if it is the only
/// commit. Fails with `Kind::Input` if Delta cannot represent a column, or if another program wrote to the log.
pub(crate) async fn put_whole(
    output: &Layout,
    folder: &str,
    schema: &Schema,
    files: &[File],
    key: &str,
) -> Result<()> {
    let schema_string = schema_string(schema).map_err(|why| {
        Error::input(format!("{} cannot be a Delta table: {why}", output.within(folder).shown()))
    })?;
    let modified = last_modified(output, folder).await?;
    let at = |file: &File| modified.get(&below(folder, &file.path)).copied().unwrap_or_default();
    // Commits contain only the times of the files, so that two attempts write the same bytes.
    let newest = files.iter().map(at).max().unwrap_or_default();
    let id = table_id(&format!("{key} {folder}"));
    let commit = TableCommit {
        info: CommitInfo::new(newest, None),
        protocol: Protocol::lowest(schema, None),
        meta_data: MetaData {
            id: id.clone(),
            schema_string,
            created_time: Some(newest),
            ..MetaData::default()
        },
        removes: Vec::new(),
        adds: files.iter().map(|file| Add::new(&file.path, file.rows, file.bytes, at(file))).collect(),
    };
    let bytes = commit.into_bytes()?;
    let log = below(folder, FOLDER);
    let commit = format!("{log}/{}", commit_name(0));
    let log = output.entries(&log).await?;
    if let Some(other) = log.iter().find(|entry| entry.inside != commit) {
        return Err(foreign(output, &other.inside));
    }
    let put = match output.read_bytes(&commit).await? {
        None => output.create_whole(&commit, bytes).await?,
        // An earlier attempt wrote this commit and was killed before it wrote its manifest. The files in the commit no longer exist.
        Some((found, version)) if is_of(&found, &id) => {
            output.replace_bytes(&commit, bytes, &found, &version).await?
        }
        Some(_) => return Err(foreign(output, &commit)),
    };
    if put {
        Ok(())
    } else {
        Err(Error::input(format!(
            "another process wrote {commit} to {}: let only one process at a time write there",
            output.shown()
        )))
    }
}

/// Joins a folder and a path. An empty folder is the output itself.
fn below(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

/// Returns when each file in a folder of an output was written, in milliseconds since 1970, by its path inside the output.
pub(super) async fn last_modified(output: &Layout, folder: &str) -> Result<BTreeMap<String, i64>> {
    let listed = output.list(folder).await?;
    let modified = listed.iter().filter_map(|meta| {
        output.inside(&meta.location).map(|inside| (inside, meta.last_modified.timestamp_millis()))
    });
    Ok(modified.collect())
}

fn foreign(output: &Layout, inside: &str) -> Error {
    let shown = output.shown().trim_end_matches('/');
    Error::input(format!(
        "{shown}/{inside} was not written by this program, so its folder gets no Delta log: move it away, or choose another \
         folder"
    ))
}

/// Whether this program made the commit for the table with this id.
fn is_of(commit: &[u8], id: &str) -> bool {
    let Some(actions) = actions(commit) else { return false };
    let ours = actions.iter().any(|action| action.commit_info.as_ref().is_some_and(CommitInfo::is_ours));
    ours && actions.iter().any(|action| action.meta_data.as_ref().is_some_and(|data| data.id == id))
}
