//! The tables that decide about documents, written into the result.

use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::Partitioning;
use datafusion::prelude::{DataFrame, col};

use crate::error::Result;
use crate::output::manifest::File;
use crate::output::write::{Rows, Target};
use crate::pipeline::runner::{Place, Runner, Work};

/// A table of the result.
pub(super) struct Wanted {
    /// Its name, which is that of its stage too.
    pub name: &'static str,
    /// Its folder in the result.
    pub folder: String,
    pub schema: SchemaRef,
    /// The columns that order the rows of a file.
    pub sorted_by: &'static [&'static str],
    pub rows: DataFrame,
}

/// The order of a table with one row for each document.
pub(super) const BY_DOCUMENT: &[&str] = &["source", "position"];

/// The order of a table with several rows for each document.
pub(super) const BY_SPAN: &[&str] = &["source", "position", "byte_start"];

/// Writes a table: the rows of a file of the source into one file, in their order. Returns its files.
///
/// # Errors
/// When the rows cannot be computed or written, or the run was stopped.
pub(super) async fn table(wanted: Wanted, runner: &Runner<'_>) -> Result<Vec<File>> {
    let Wanted { name, folder, schema, sorted_by, rows } = wanted;
    let target = Target { table: name.to_owned(), folder, rows: Rows::All, schema, carried: 0 };
    let work = Work {
        name,
        targets: vec![target],
        bytes: 0,
        batch_rows: None,
        parts: 0,
        sorted_by,
        place: Place::Engine,
    };
    let by_file = |partitions| {
        let by_file = Partitioning::Hash(vec![col("source")], partitions);
        Ok(vec![rows.clone().repartition(by_file)?])
    };
    runner.run(work, by_file).await?;
    Ok(runner.files(name))
}
