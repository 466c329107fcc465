//! Rewrites the files of a source. Rows and passages can be removed, and columns can be added.
//!
//! `decisions` reads the table with the decision about each row. `exec` contains the operator, which every engine can run. It rewrites
//! Parquet value by value (`parquet`), and CSV and JSON lines byte for byte (`rows`). It copies text files as a whole, and rewrites other
//! formats as Parquet (`as_parquet`). A file gets its final name when it is complete. Finished parts are recorded (`work`), so that a
//! killed application can resume.
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
    DECISION_ORDER, REJECT, REMOVE, annotated, append_names, column_exists, decision_schema, names,
};
pub(crate) use self::exec::{FileToWrite, PartToWrite, Rewrite, rows_of_file};
pub(crate) use self::rows::pieces;
pub use self::work::{DocumentCounts, Rejects, SourceRecord, WrittenFile};
