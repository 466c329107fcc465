//! signatures: one row per document, with the minima of its shingles under each permutation, or in each bin.

use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_nested::expr_fn::array_repeat;
use datafusion::prelude::{DataFrame, col, lit};

use crate::error::Result;
use crate::job::{Bits, Family, Job, Short};
use crate::udf::expr_fn::{minhash, minhash_by, one_permutation, short_signature};

/// The same rows with a column `signature` of as many values as there are permutations: a Binary if values have 16 bits, or a
/// `List<UInt32>`. `dictionary` is the number of entries of the collection's dictionary, if there is one.
///
/// # Errors
/// When the frame has no column `shingles`, or when the job's modulus is the first prime above a dictionary that has
/// fewer entries than there are permutations, or too many.
pub(crate) fn signatures(shingles: DataFrame, job: &Job, dictionary: Option<u64>) -> Result<DataFrame> {
    let set = col("shingles");
    let by = &job.minhash;
    let signature = match (by.family, by.linear(dictionary)?, &by.coefficients) {
        (Family::OnePermutation, _, _) => one_permutation(set, by.permutations, by.seed),
        (Family::Linear, Some((modulus, _)), Some(given)) => minhash_by(set, given, modulus),
        (Family::MultiplyShift | Family::Linear, linear, _) => minhash(set, by.permutations, by.seed, linear),
    };
    let signature = match job.shingle.short {
        Short::Reject | Short::Whole => signature,
        // A set without elements has no minima, and keeps the greatest value.
        Short::Empty => coalesce(vec![signature, array_repeat(lit(u32::MAX), lit(by.permutations as u64))]),
    };
    let signature = match by.bits {
        Bits::Of16 => short_signature(signature),
        Bits::Of32 => signature,
    };
    Ok(shingles.with_column("signature", signature)?)
}
