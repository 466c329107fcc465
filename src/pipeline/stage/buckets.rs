//! buckets: the buckets of all documents in order, each with the place of the document's row in the table of documents.

use datafusion::functions_nested::expr_fn::array_distinct;
use datafusion::logical_expr::{Expr, bitwise_xor};
use datafusion::prelude::{DataFrame, col, lit};

use super::interface::{AnyTable, Planned, Result, Stage, StagePlan, Table, frames};
use crate::job::Lsh;

/// The bit that is the sign where an unsigned number is read as a signed one.
const SIGN: u64 = 1 << 63;

/// (doc, source, position, signature, ..) of documents -> the columns of `schemas/buckets.toml`: a row for each bucket of each
/// document, in one partition, in order of the bucket as a signed number and of the document.
///
/// The buckets are computed from the signatures that documents keep, as a look-up computes them: so there are some for every row of
/// the table, wherever its signature came from, and nothing is joined.
///
/// # Errors
/// When the frame lacks one of these columns.
pub fn buckets(documents: DataFrame, lsh: &Lsh) -> Result<DataFrame> {
    let documents = frames::bands::bands(documents, lsh)?;
    // Where all bands share one table, two of a document may have the same bucket.
    let own = match lsh.table_size {
        None => col("buckets"),
        Some(_) => array_distinct(col("buckets")),
    };
    let mut columns = vec![own.alias("bucket")];
    columns.extend(["doc", "source", "position"].map(col));
    let rows = documents.select(columns)?.unnest_columns(&["bucket"])?;
    // Files have the bits as signed numbers. In the order of unsigned ones, the bounds of the page with both signs would include
    // every bucket.
    let by = |key: Expr| key.sort(true, false);
    Ok(rows.sort(vec![by(bitwise_xor(col("bucket"), lit(SIGN))), by(col("doc"))])?)
}

/// Rows of a batch, many more than elsewhere: for each batch that it makes, the engine's sort looks at all batches in memory, so its time
/// grows with the square of their number.
const ROWS_OF_BATCH: usize = 16_384;

/// Sorts the buckets of all documents.
pub(super) static BUCKETS: Stage = Stage::new(
    AnyTable::Public(Table::Buckets),
    |_| "sort the buckets of all documents".into(),
    |job| job.output.buckets,
    StagePlan::Now(|cx| {
        let sorted = buckets(cx.table(Table::Documents)?, &cx.job.lsh)?;
        // Nothing is shuffled: each partition sorts its rows, and they are merged into one file.
        Ok(Planned { batch_rows: Some(ROWS_OF_BATCH), ..Planned::new(0, vec![sorted]) })
    }),
);
