//! The commit that updates a log to a manifest.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use uuid::Builder;
use xxhash_rust::xxh3::xxh3_128;

use super::log::{Log, log_folder};
use crate::delta::{Add, CommitInfo, MetaData, Protocol, Remove, TableCommit, schema_string};
use crate::error::{Error, Result};
use crate::output::manifest::{File, Run};
use crate::schema::{Table, contract};

/// A published result.
pub(super) struct Published {
    pub manifest: Run,
    /// The hash of its manifest.
    pub hash: String,
    /// When it was published, in milliseconds since 1970. Commits use no other clock, so two processes that update a
    /// log to the same result write the same bytes.
    pub at: i64,
}

impl Published {
    pub(super) fn new(manifest: Run, bytes: &[u8], at: i64) -> Self {
        Self { manifest, hash: format!("{:032x}", xxh3_128(bytes)), at }
    }

    /// The files of a table; `None` if the result does not have it.
    pub(super) fn files(&self, table: Table) -> Option<&[File]> {
        self.manifest.tables.get(table.name()).map(|table| table.files.as_slice())
    }

    fn schema(&self, table: Table) -> Result<SchemaRef> {
        Ok(contract(table).over(&self.manifest.source, self.manifest.job()?.columns()).arrow_schema())
    }

    /// The bytes of the commit after `log`, or of the first one if there is no log. `modified` is when each file was
    /// written. A table that the result no longer has becomes empty.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) if Delta cannot hold the table, or another program changed the log so
    /// that this one cannot continue it.
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

    /// The protocol and the metadata of the table after the commit.
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
        Ok((Protocol::of(&schema, log.map(|log| &log.protocol)), meta_data))
    }
}

/// The id of a table, from a `key` that no other table has.
pub(super) fn table_id(key: &str) -> String {
    Builder::from_random_bytes(xxh3_128(key.as_bytes()).to_be_bytes()).into_uuid().to_string()
}

/// The error for a log that this program cannot continue.
pub(super) fn cannot_continue(shown: &str, table: Table, why: &str) -> Error {
    let folder = log_folder(table);
    Error::input(format!(
        "the Delta log of {table} in {shown} cannot be continued: {why}: move the folder {shown}/{folder} away, so that the \
         next run begins a new log",
        shown = shown.trim_end_matches('/'),
    ))
}
