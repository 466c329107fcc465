//! The tables of an output as Delta tables: a log in each table's folder names the files that the manifest names.
//!
//! ```text
//! OUTPUT/manifest.json                                      publishes
//!        pairs/part-*.parquet
//!        pairs/_delta_log/00000000000000000000.json         follows
//! ```
//!
//! The manifest comes first, then the logs, then the removal of files that neither names:
//!
//! - Until a log is updated, its readers see the complete previous result, whose files are removed last. In the other
//!   order, a run that dies in between would have shown them a result that was never published, and whose files the next
//!   run removes.
//! - A log holds the hash of the `manifest.json` that it follows. So the next run of the same job detects a log that is
//!   behind and updates it, and so does `resemblance clean` before it removes anything.
//! - A commit is put only if no file has its name. A second process reads the log again, and then the manifest: in this
//!   order, since an older manifest would set the log back.
//! - Each commit of ours holds the whole table: protocol, schema and every file. So a log is read from its end back to
//!   the newest commit of ours, however long it is, and even if other programs removed older commits.
//!
//! A folder that is written once, such as that of `apply`, gets one commit before its own manifest (`single_commit`).
//!
//! A log without a commit of ours belongs to another program. A job that asks for Delta tables continues such a log if
//! it names only files of ours, as when another program made a table from a result; otherwise it is refused. A job that
//! does not ask for Delta tables does not change it. The log of a result that is replaced is updated in any case: its
//! readers would look for files that are gone. Files of a log that does not follow our results are never removed
//! (`held`).

mod commit;
mod held;
mod log;
mod publish;
mod single_commit;

pub(crate) use held::{LogFiles, held};
pub(crate) use log::{is_in_log, is_part_of_log};
pub(crate) use publish::{check, is_current, publish};
pub(crate) use single_commit::{WholeFile, put_whole};
