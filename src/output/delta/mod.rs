//! The tables of an output as Delta tables. A log in each table's folder lists the same files as the manifest.
//!
//! ```text
//! OUTPUT/manifest.json                                      publishes
//!        pairs/part-*.parquet
//!        pairs/_delta_log/00000000000000000000.json         follows
//! ```
//!
//! The manifest is written first, then the logs. Files that are in neither are removed last:
//!
//! - Until a log is updated, its readers see the complete previous result, because its files are removed last. If the logs came first, a
//!   run that dies in between would show its readers a result that was never published.
//! - A log contains the hash of the `manifest.json` that it follows. The next run of the job can therefore find a log that is behind and
//!   update it. `resemblance clean` also does this before it removes files.
//! - A commit is put only if no file with its name exists. A second process reads the log again, and then the manifest. In the other order,
//!   an older manifest could set the log back.
//! - Each commit of this program contains the whole table: protocol, schema and every file. A log is therefore read backwards from its end
//!   to the newest such commit, even if other programs removed older commits.
//!
//! A folder that is written once, such as the target of `apply`, gets one commit before its own manifest (`commit`).
//!
//! A log without a commit of this program belongs to another program. A job with Delta tables continues such a log only if it lists no
//! foreign files. A job without Delta tables does not change it. The log of a replaced result is updated in any case, because the result's
//! files are removed. Files to which a log of another state refers are never removed (`held`).

mod commit;
mod log;
mod publish;

pub(crate) use self::commit::{WholeFile, put_whole};
pub(crate) use self::log::{LogFiles, held, is_in_log, is_part_of_log};
pub(crate) use self::publish::{check, is_current, publish};
