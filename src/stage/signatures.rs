//! signatures: one row per document, with the minima of its shingles under each permutation, or in each bin.

use datafusion::prelude::{DataFrame, col};

use crate::error::Result;
use crate::job::{Family, Minhash};
use crate::udf::expr_fn::{minhash, one_permutation};

/// The same rows with a column `signature: List<UInt32>` of as many values as there are permutations. `dictionary` is
/// the number of entries of the collection's dictionary, where there is one.
///
/// # Errors
/// When the frame has no column `shingles`, or when the job's modulus is the first prime above a dictionary that has
/// fewer entries than there are permutations, or too many.
pub fn signatures(shingles: DataFrame, job: &Minhash, dictionary: Option<u64>) -> Result<DataFrame> {
    let set = col("shingles");
    let signature = match job.family {
        Family::OnePermutation => one_permutation(set, job.permutations, job.seed),
        Family::MultiplyShift | Family::Linear(_) => {
            minhash(set, job.permutations, job.seed, job.linear(dictionary)?)
        }
    };
    Ok(shingles.with_column("signature", signature)?)
}
