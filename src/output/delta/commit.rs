//! The commit by which a log follows a manifest.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use uuid::Builder;
use xxhash_rust::xxh3::xxh3_128;

use super::action::{Action, Add, CommitInfo, Format, MetaData, Protocol, Remove, encoded};
use super::log::{Log, folder};
use super::schema::schema_string;
use crate::error::{Error, Result};
use crate::output::manifest::{File, Run};
use crate::schema::{Table, contract};

/// A result that logs are to follow.
pub(super) struct Published {
    pub manifest: Run,
    /// What tells its manifest from others.
    pub hash: String,
    /// When it was published, in milliseconds since 1970. Commits have no other clock: two processes that bring the same
    /// log up to the same result write the same bytes.
    pub at: i64,
}

impl Published {
    pub(super) fn new(manifest: Run, bytes: &[u8], at: i64) -> Self {
        Self { manifest, hash: format!("{:032x}", xxh3_128(bytes)), at }
    }

    /// The files of a table; none if the result does not have it.
    pub(super) fn files(&self, table: Table) -> Option<&[File]> {
        self.manifest.tables.get(table.name()).map(|table| table.files.as_slice())
    }

    /// The schema that a table is written with.
    fn schema(&self, table: Table) -> Result<SchemaRef> {
        Ok(contract(table).over(&self.manifest.source, self.manifest.columns()?).arrow_schema())
    }

    /// The bytes of the commit behind `log`, which is the first one where there is no log. `modified` is when each file was
    /// written. A table that the result does not have any more becomes empty.
    ///
    /// # Errors
    /// [`Kind::Input`](crate::error::Kind::Input) where Delta cannot hold the table, or another program made of the log what
    /// this one cannot go on from. Both messages say what to do.
    pub(super) fn commit(
        &self,
        table: Table,
        log: Option<&Log>,
        shown: &str,
        modified: &BTreeMap<String, i64>,
    ) -> Result<Bytes> {
        if let Some(why) = log.and_then(Log::forbids) {
            return Err(cannot_go_on(shown, table, &why));
        }
        let (protocol, meta_data) = self.table(table, log, shown)?;
        let prefix = format!("{table}/");
        let mut adds = Vec::new();
        for file in self.files(table).unwrap_or_default() {
            let Some(inside) = file.path.strip_prefix(&prefix) else {
                return Err(Error::bug(format!("{} is a file of {table} and not in its folder", file.path)));
            };
            adds.push(Add {
                path: encoded(inside),
                partition_values: BTreeMap::new(),
                size: file.bytes,
                modification_time: modified.get(&file.path).copied().unwrap_or(self.at),
                data_change: true,
                stats: Some(serde_json::json!({"numRecords": file.rows}).to_string()),
            });
        }
        let added: BTreeSet<&str> = adds.iter().map(|add| add.path.as_str()).collect();
        let before = log.iter().flat_map(|log| &log.files).filter(|path| !added.contains(path.as_str()));
        let removes: Vec<Remove> = before
            .map(|path| Remove { path: path.clone(), deletion_timestamp: Some(self.at), data_change: true })
            .collect();
        let mut actions = vec![
            Action { commit_info: Some(CommitInfo::new(self.at, &self.hash)), ..Action::default() },
            Action { protocol: Some(protocol), ..Action::default() },
            Action { meta_data: Some(meta_data), ..Action::default() },
        ];
        actions
            .extend(removes.into_iter().map(|remove| Action { remove: Some(remove), ..Action::default() }));
        actions.extend(adds.into_iter().map(|add| Action { add: Some(add), ..Action::default() }));
        lines(&actions)
    }

    /// What the table is after the commit.
    fn table(&self, table: Table, log: Option<&Log>, shown: &str) -> Result<(Protocol, MetaData)> {
        let before = log.map(|log| &log.meta_data);
        if let (None, Some(log)) = (self.files(table), log) {
            return Ok((log.protocol.clone(), log.meta_data.clone()));
        }
        let schema = self.schema(table)?;
        let schema_string = schema_string(&schema)
            .map_err(|why| Error::input(format!("{table} of {shown} cannot be a Delta table: {why}")))?;
        let id = || {
            let random = xxh3_128(format!("{} {table}", self.hash).as_bytes()).to_be_bytes();
            Builder::from_random_bytes(random).into_uuid().to_string()
        };
        let meta_data = MetaData {
            id: before.map_or_else(id, |before| before.id.clone()),
            name: before.and_then(|before| before.name.clone()),
            description: before.and_then(|before| before.description.clone()),
            format: Format { provider: "parquet".into(), options: BTreeMap::new() },
            schema_string,
            partition_columns: Vec::new(),
            configuration: before.map(|before| before.configuration.clone()).unwrap_or_default(),
            created_time: Some(before.and_then(|before| before.created_time).unwrap_or(self.at)),
        };
        Ok((Protocol::of(&schema, log.map(|log| &log.protocol)), meta_data))
    }
}

impl Log {
    /// Why this program must not write to the table; none if it may.
    pub(super) fn forbids(&self) -> Option<String> {
        if let Some(unknown) = self.protocol.unknown() {
            return Some(format!("another program gave it {unknown}, which this program does not know"));
        }
        let appends = self.meta_data.configuration.get("delta.appendOnly").cloned().flatten();
        appends
            .is_some_and(|value| value == "true")
            .then(|| "its files may only be added to (delta.appendOnly)".into())
    }
}

/// The error for a log that this program cannot go on from.
pub(super) fn cannot_go_on(shown: &str, table: Table, why: &str) -> Error {
    let folder = folder(table);
    Error::input(format!(
        "the Delta log of {table} in {shown} cannot be continued: {why}: move the folder {shown}/{folder} away, so that the \
         next run begins a new log",
        shown = shown.trim_end_matches('/'),
    ))
}

/// Actions as a commit has them: one in each line.
pub(super) fn lines(actions: &[Action]) -> Result<Bytes> {
    let mut bytes = Vec::new();
    for action in actions {
        serde_json::to_writer(&mut bytes, action)
            .map_err(|e| Error::bug("a Delta commit cannot be written").because(e))?;
        bytes.push(b'\n');
    }
    Ok(bytes.into())
}
