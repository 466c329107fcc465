//! The files of a source, written again without some of their rows, or with more columns.
//!
//! Each file is read once (`one_file`): Parquet value by value (`parquet`), CSV and JSON lines byte for byte (`records`), text files
//! whole (`copy`), Reuters stories as Parquet (`stories`). Files have their names when they are whole, and groups of them are recorded
//! (`record`), so that work which was killed is taken up there. `exec` makes an operator of it, which any engine runs.

mod annotations;
mod copy;
mod exec;
mod fate;
mod one_file;
mod parquet;
pub(crate) mod record;
mod records;
mod stories;
mod text_columns;
mod work;

pub(crate) use annotations::{NAMES, annotated, clustered_schema, id_type};
pub(crate) use exec::{FileToWrite, PartToWrite, Rewrite};
pub use fate::Rejects;
pub use record::{Counts, SourceRecord, Written};
pub(crate) use text_columns::{header_fields, taken};
pub(crate) use work::{KEPT, REJECTED};
