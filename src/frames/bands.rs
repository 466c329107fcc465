//! bands: one row per document, with its bucket in each band.

use arrow::datatypes::DataType;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;

use crate::error::Result;
use crate::job::Lsh;
use crate::udf::expr_fn::lsh_bands;

/// The same rows with a column `buckets: List<UInt64>`, one for each band.
///
/// A bucket's number also identifies its band, unless the bands share a table.
///
/// # Errors
/// When the frame has no column `signature`.
pub(crate) fn bands(signatures: DataFrame, job: &Lsh) -> Result<DataFrame> {
    Ok(signatures.with_column("buckets", lsh_bands(col("signature"), job))?)
}

/// The same rows with a column `buckets` of empty lists, for documents that are not compared. No signature is computed for it.
///
/// # Errors
/// Never.
pub(crate) fn no_bands(signatures: DataFrame) -> Result<DataFrame> {
    let empty = ScalarValue::List(ScalarValue::new_list_nullable(&[], &DataType::UInt64));
    Ok(signatures.with_column("buckets", lit(empty))?)
}
