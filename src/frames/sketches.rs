//! sketches: shingles and signatures of documents from their texts alone.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_nested::expr_fn::array_length;
use datafusion::prelude::{DataFrame, col, lit};

use super::frequent::without;
use super::shingles_of_text;
use super::signatures::signatures;
use crate::error::{Error, Result};
use crate::job::{Job, ShingleHash};

/// The positions of the documents `needed` (needed: UInt64, distinct) in their files: (source, position, doc, origin,
/// ..) -> (source, position, origin).
///
/// # Errors
/// When a frame lacks its columns.
pub fn positions(documents: DataFrame, needed: DataFrame) -> Result<DataFrame> {
    let documents = documents.select(vec![col("source"), col("position"), col("doc"), col("origin")])?;
    let found = needed.join(documents, JoinType::Inner, &["needed"], &["doc"], None)?;
    Ok(found.select(vec![col("source"), col("position"), col("origin")])?)
}

/// (doc, ..) -> the rows whose document is `needed` (needed: UInt64).
pub(crate) fn among(documents: DataFrame, needed: DataFrame) -> Result<DataFrame> {
    Ok(needed.join(documents, JoinType::RightSemi, &["needed"], &["doc"], None)?)
}

/// (text, doc, ..) -> (doc: UInt64, shingle_count: UInt64, shingles: `List<UInt64>`, signature), of documents that can be
/// compared: the columns that `scores` and [`super::prefix`] take. Shingles that are `frequent` (shingle, ..) are left out.
///
/// No filter checks again that these texts have shingles: it would cut them once more.
///
/// # Errors
/// When the frame lacks its columns, or shingles are numbered by a dictionary, which texts alone do not have.
pub fn sketches(documents: DataFrame, job: &Job, frequent: Option<DataFrame>) -> Result<DataFrame> {
    if job.shingle.hash == ShingleHash::Dictionary {
        return Err(Error::bug("the numbers of a dictionary are not those of single texts"));
    }
    let shingles = shingles_of_text(&documents, col("text"), &job.shingle)?;
    let cut = without(documents.select(vec![col("doc"), shingles.alias("shingles")])?, frequent)?;
    let count = coalesce(vec![array_length(col("shingles")), lit(0_u64)]).alias("shingle_count");
    signatures(cut.select(vec![col("doc"), count, col("shingles")])?, job, None)
}
