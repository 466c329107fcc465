//! Rewrites the files of a source without some of their rows or spans of their texts, or with more columns.
//!
//! `one_file` chooses how a file is rewritten: Parquet value by value (`parquet`), CSV and JSON lines byte for byte
//! (`rows`), text files whole (`whole_file`), and other formats as Parquet (`as_parquet`). Files get their names when
//! they are complete. Groups of files are recorded (`record`), so that a run that was killed resumes there. `exec` is
//! the operator, which every engine can run.
//!
//! If a function here does not say more, it fails only where a table of the output cannot be read.

mod actions;
mod annotations;
mod as_parquet;
mod cuts;
mod edits;
mod exec;
mod one_file;
mod parquet;
pub(crate) mod record;
mod row_walk;
mod rows;
mod rows_of_file;
mod spans;
mod whole_file;
mod work;

pub use actions::Rejects;
pub(crate) use annotations::{
    Annotation, AnnotationTable, annotated, append_names, clustered_schema, column_exists,
    group_sizes_schema, names, sizes_schema,
};
pub(crate) use exec::{FileToWrite, PartToWrite, Rewrite};
pub use record::{Counts, SourceRecord, Written};
pub(crate) use rows_of_file::rows_of_file;
