//! The tables of an output as Delta tables. A log in each table's folder lists the same files as the manifest.
//!
//! ```text
//! OUTPUT/manifest.json                                      publishes
//!        pairs/part-*.parquet
//!        pairs/_delta_log/00000000000000000000.json         follows
//! ```
//!
//! The manifest is written first, and then the logs. The files of the previous result are removed last:
//!
//! - Until a log is updated, its readers see the complete previous result. If the logs were written first, and the run died then, readers
//!   of the logs would see a result that was never published.
//! - A log contains the hash of the `manifest.json` for which it was written. So the next run of the job finds outdated logs and updates
//!   them. `resemblance clean` also does this before it removes files.
//! - A commit is written only if no file with its name exists. If another process was first, this process reads the log again, and then the
//!   manifest. In the other order, it could write a commit for an older manifest.
//! - Each commit of this program describes the whole table, with the protocol, the schema and every file. A log is therefore read backwards
//!   from its end to the newest such commit, even if other programs removed older commits.
//!
//! A folder that is written once, such as the target of `apply`, gets a single commit, which is written before the folder's manifest
//! (`commit`).
//!
//! A log without a commit of this program belongs to another program. Only a job with Delta tables continues it, and only if it lists no
//! foreign files. The log of a replaced result is always updated, because the result's files are removed. Files are never removed if a log
//! that this program does not update refers to them (`held`).

mod commit;
mod log_reader;
mod log_writer;

pub(crate) use self::commit::put_whole;
pub(crate) use self::log_reader::{LogFiles, held, is_in_log, is_part_of_log};
pub(crate) use self::log_writer::{check, is_current, publish};
