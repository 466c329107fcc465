//! Rewrites the files of a source without some of their rows or spans of their texts, or with more columns.
//!
//! `decisions` reads the table that says which rows stay, and how they change. `one_file` chooses how a file is rewritten: Parquet
//! value by value (`parquet`), CSV and JSON lines byte for byte (`rows`), text files whole, and other formats as Parquet
//! (`as_parquet`). Files get their names when they are complete. Groups of files are recorded (`record`), so that a run that was killed
//! resumes there. `exec` is the operator, which every engine can run.
//!
//! If a function here does not say more, it fails only where a table of the output cannot be read.

mod annotations;
mod as_parquet;
mod decisions;
mod exec;
mod one_file;
mod parquet;
pub(crate) mod record;
mod rows;
mod work;

pub use annotations::Annotation;
pub(crate) use annotations::{annotated, append_names, column_exists, names};
pub(crate) use decisions::{DECISION_ORDER, REJECT, REMOVE, decision_schema};
pub(crate) use exec::{FileToWrite, PartToWrite, Rewrite};
pub(crate) use one_file::rows_of_file;
pub use record::{DocumentCounts, SourceRecord, WrittenFile};
pub(crate) use rows::pieces;
pub use work::Rejects;
