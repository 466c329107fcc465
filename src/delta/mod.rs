//! Delta tables: the files and actions of their logs, the versions of a table, and the supported features of the protocol.

mod action;
mod names;
mod protocol;
mod read_log;

pub(crate) use action::{Add, CommitInfo, MetaData, Protocol, Remove, TableCommit, actions};
pub(crate) use names::{FOLDER, commit_name, version_of};
pub(crate) use protocol::{same_type, schema_string, unfit};
pub(crate) use read_log::{Snapshot, TableState, read};
