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
//! - Until a log follows, its readers see the result before, whole: the files of that one are removed last. The other way
//!   round, a run that dies between would have shown them a result that was never published, and whose files the next
//!   run removes.
//! - A log tells by the hash of `manifest.json` which result it follows. So the next run of the same job, and
//!   `resemblance clean` before it removes anything, see a log that stayed behind, and let it follow.
//! - A commit is put if absent. Whoever comes second reads the log again, and then the manifest: in this order, since a
//!   manifest that is older than the log would take the log back.
//! - Each commit of ours tells the whole table: protocol, schema and every file. So a log is read from its end back to
//!   the newest commit of ours, however long it is, and also where other programs removed what is older.
//!
//! A folder that is written once, as those of `apply`, gets one commit before its own manifest (`whole`).
//!
//! What no commit of ours is in belongs to somebody else. A job that asks for Delta tables goes on from such a log if it names
//! files of ours alone, as one does that another program made of a result, and is refused beside any other; a job that does not
//! ask for them leaves it alone. The log of a result that was replaced names what replaced it, whatever the job asks for: else
//! its readers would look for files that are gone. For the same reason, files that are named by a log which does not follow
//! are never removed (`held`).

mod action;
mod commit;
mod held;
mod log;
mod publish;
mod schema;
mod whole;

pub(crate) use held::{Held, held};
pub(crate) use log::{is_in_log, is_part_of_log};
pub(crate) use publish::{check, is_current, publish};
pub(crate) use whole::{WholeFile, put_whole, same_type, unfit};
