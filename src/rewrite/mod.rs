//! Rewrites the files of a source. Rows and passages can be removed, and columns can be added.
//!
//! The table of decisions says what happens to each row (`decisions`). Every engine can run the operator (`exec`). It rewrites Parquet
//! value by value, CSV and JSON lines byte for byte, text files as a whole, and other formats as Parquet. A file gets its final name when
//! it is complete. Finished parts are recorded (`work`), so that a killed application can resume.
//!
//! If a function does not document its errors, it fails only if a table of the output cannot be read.

mod as_parquet;
mod decisions;
mod exec;
mod parquet;
mod rows;
pub(crate) mod work;

pub use self::decisions::Annotation;
pub(crate) use self::decisions::{
    DECISION_ORDER, FORGET, REJECT, REMOVE, annotated, column_exists, decision_schema, names, with_names,
};
pub(crate) use self::exec::{FileToWrite, PartToWrite, Rewrite, rows_of_file};
pub(crate) use self::rows::pieces;
pub use self::work::{DocumentCounts, Rejects, SourceRecord, WrittenFile};
