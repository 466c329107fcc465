//! Computes sketches, which contain signatures of shingle sets, and the buckets of their bands.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_nested::expr_fn::{array_length, array_repeat};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};
use datafusion::scalar::ScalarValue;

use super::frequent_shingles::without_frequent;
use super::{columns, shingles_of_text};
use crate::error::{Error, Result};
use crate::job::{Bits, Family, Job, Lsh, ShingleHash, Short};
use crate::udf::expr_fn::{bucket_tags, lsh_bands, minhash, minhash_by, one_permutation, short_signature};

/// Adds the column `signature`, with one value per permutation: a Binary for 16-bit values, else a `List<UInt32>`. `dictionary` is the
/// number of entries in the dictionary, if there is one.
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
        // An empty set has no minima, so all values of its signature are `u32::MAX`.
        Short::Empty => coalesce(vec![signature, array_repeat(lit(u32::MAX), lit(by.permutations as u64))]),
    };
    let signature = match by.bits {
        Bits::Of16 => short_signature(signature),
        Bits::Of32 => signature,
    };
    Ok(shingles.with_column("signature", signature)?)
}

/// Adds the columns `buckets: List<UInt64>`, with one bucket per band, and `bucket_tags: Binary`, with the tag of each bucket. The number
/// of a bucket also identifies its band, unless bands share a table.
pub(crate) fn bands(signatures: DataFrame, lsh: &Lsh) -> Result<DataFrame> {
    let buckets = signatures.with_column("buckets", band_buckets(col("signature"), lsh))?;
    Ok(buckets.with_column("bucket_tags", bucket_tags(col("buckets")))?)
}

pub(crate) fn band_buckets(signature: Expr, lsh: &Lsh) -> Expr {
    lsh_bands(signature, lsh.bands, lsh.rows, lsh.bucket_hash, lsh.table_size)
}

/// Adds the column `buckets` with empty lists, without computing signatures, for documents that are not compared.
pub(crate) fn no_bands(signatures: DataFrame) -> Result<DataFrame> {
    let empty = ScalarValue::List(ScalarValue::new_list_nullable(&[], &DataType::UInt64));
    Ok(signatures.with_column("buckets", lit(empty))?)
}

/// (source, position, doc, origin, ..), distinct `needed` (needed: UInt64) -> (source, position, origin), the positions of the texts of
/// the needed documents.
///
/// # Errors
/// If a column is missing.
pub fn positions(documents: DataFrame, needed: DataFrame) -> Result<DataFrame> {
    let documents = documents.select(columns(["source", "position", "doc", "origin"]))?;
    let found = needed.join(documents, JoinType::Inner, &["needed"], &["doc"], None)?;
    Ok(found.select(columns(["source", "position", "origin"]))?)
}

/// Compared documents (text, doc, ..) -> (doc: UInt64, shingle_count: UInt64, shingles: `List<UInt64>`, signature), without `frequent`
/// shingles (shingle, ..). Every compared text has shingles, so they are not filtered: a filter would compute them a second time.
///
/// # Errors
/// If a dictionary numbers the shingles, since its numbers cannot be computed from single texts.
pub fn sketches(documents: DataFrame, job: &Job, frequent: Option<DataFrame>) -> Result<DataFrame> {
    if job.shingle.hash == ShingleHash::Dictionary {
        return Err(Error::bug("single texts do not have the numbers of a dictionary"));
    }
    let shingles = shingles_of_text(&documents, col("text"), &job.shingle)?;
    let cut = documents.select(vec![col("doc"), shingles.alias("shingles")])?;
    let cut = without_frequent(cut, frequent)?;
    let count = coalesce(vec![array_length(col("shingles")), lit(0_u64)]).alias("shingle_count");
    signatures(cut.select(vec![col("doc"), count, col("shingles")])?, job, None)
}
