//! Delta tables: the actions of a log, the state that follows from them, and the newest version of a table.
//!
//! `snapshot` reads a table: `names` finds the files of its log that are needed, `action` and `checkpoint` parse them,
//! `state` applies them, and `protocol` reports features that are not supported. Commits are written as [`TableCommit`]
//! with a schema made by `schema`; `crate::output::delta` decides when.

mod action;
mod checkpoint;
mod names;
mod protocol;
mod schema;
mod snapshot;
mod state;

pub(crate) use action::{Action, Add, CommitInfo, MetaData, Protocol, Remove, TableCommit, actions};
pub(crate) use names::{FOLDER, commit_name, version_of};
pub(crate) use schema::{same_type, schema_string, unfit};
pub(crate) use snapshot::{Snapshot, SnapshotFile, read};
pub(crate) use state::TableState;
