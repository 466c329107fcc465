//! Delta tables.
//!
//! `read_log` reads a version of a table: `names` selects the files of its log, `action` parses them, and `protocol` reports unsupported
//! features. A [`TableCommit`] is a commit to be written.

mod action;
mod names;
mod protocol;
mod read_log;

pub(crate) use action::{Action, Add, CommitInfo, MetaData, Protocol, Remove, TableCommit, actions};
pub(crate) use names::{FOLDER, commit_name, version_of};
pub(crate) use protocol::{same_type, schema_string, unfit};
pub(crate) use read_log::{Snapshot, TableState, read};
