//! signatures: one row per document, with the minima of its shingles under each permutation.

use datafusion::prelude::{DataFrame, col};

use crate::error::Result;
use crate::job::Minhash;
use crate::udf::expr_fn::minhash;

/// The same rows with a column `signature: List<UInt32>` of as many values as there are permutations.
///
/// # Errors
/// When the frame has no column `shingles`.
pub fn signatures(shingles: DataFrame, job: &Minhash) -> Result<DataFrame> {
    Ok(shingles.with_column("signature", minhash(col("shingles"), job.permutations, job.seed))?)
}
