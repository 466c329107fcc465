//! shingles: one row per document, with the sorted distinct hashes of its shingles instead of its text.

use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_nested::expr_fn::array_length;
use datafusion::prelude::{DataFrame, Expr, col, lit, when};

use super::dictionary;
use super::empty_text::empty;
use super::frequent::without;
use super::{of_documents, shingles_of_text};
use crate::error::Result;
use crate::job::{Shingle, ShingleHash, Short};
use crate::kernel::text::shingles::MAX_SHINGLES;
use crate::udf::expr_fn::set_hash;

/// (source, position, id, text, doc, reason) -> the columns of [`measured`]: the shingles of each document, cut and
/// turned into numbers by the rules of `shingle`.
pub(crate) fn shingles(documents: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    that_count(documents, shingle, None)
}

/// The same without shingles that are `frequent` (shingle, ..). A document without other shingles gets the reason `only_template`.
pub(crate) fn that_count(
    documents: DataFrame,
    shingle: &Shingle,
    frequent: Option<DataFrame>,
) -> Result<DataFrame> {
    if shingle.hash == ShingleHash::Dictionary {
        let cuts = dictionary::cuts(documents, shingle)?;
        return measured(dictionary::numbered(cuts.clone(), dictionary::numbers(cuts)?)?, shingle);
    }
    if frequent.is_none() {
        return measured(cut(documents, shingle)?, shingle);
    }
    with_sizes(without(cut_and_judged(documents, shingle)?, frequent)?, length(shingle, "only_template")?)
}

/// (source, position, id, text, doc, reason) -> (source, position, id, doc, reason, shingles): texts that are empty after
/// normalisation have their reason.
fn cut(documents: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    // A rejected text is not cut: it may be anything.
    let text = when(col("reason").is_null(), col("text")).end()?;
    let set = shingles_of_text(&documents, text, shingle)?.alias("shingles");
    let columns = of_documents(&documents, [col("text"), col("doc"), col("reason"), set]);
    let cut = documents.select(columns)?;
    let reason = match shingle.short {
        // Every text is compared, even one that is empty after normalisation.
        Short::Empty => col("reason"),
        Short::Reject | Short::Whole => coalesce(vec![col("reason"), empty("shingles", shingle)?]),
    };
    let columns = of_documents(&cut, [col("doc"), reason.alias("reason"), col("shingles")]);
    Ok(cut.select(columns)?)
}

/// The same, where texts that are too short have their reason: they have no shingles before the frequent ones leave.
pub(super) fn cut_and_judged(documents: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    let cut = cut(documents, shingle)?;
    let reason = coalesce(vec![col("reason"), length(shingle, "too_short")?]).alias("reason");
    let columns = of_documents(&cut, [col("doc"), reason, col("shingles")]);
    Ok(cut.select(columns)?)
}

/// (source, position, id, doc, reason, shingles) -> (source, position, id, doc, reason, shingles: `List<UInt64>`,
/// shingle_count: UInt64, set_hash_0: UInt64, set_hash_1: UInt64).
///
/// Two documents have equal set hashes when they have the same shingles (128 bits tell sets apart). A document
/// with too few words gets the reason `too_short`, unless [`Short::Empty`] keeps it, one of more than 2^27 shingles `too_long`.
pub(crate) fn measured(cut: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    with_sizes(cut, length(shingle, "too_short")?)
}

/// The number of shingles of a row.
fn count() -> Expr {
    coalesce(vec![array_length(col("shingles")), lit(0_u64)])
}

/// Why a set of this length is not compared; `empty` is the reason for a set without shingles.
pub(super) fn length(shingle: &Shingle, empty: &str) -> Result<Expr> {
    let too_long = count().gt(lit(MAX_SHINGLES as u64));
    Ok(match shingle.short {
        Short::Empty => when(too_long, lit("too_long")).end()?,
        Short::Reject | Short::Whole => {
            when(count().eq(lit(0_u64)), lit(empty)).when(too_long, lit("too_long")).end()?
        }
    })
}

/// The columns of a measured set; `wrong_length` is the reason for a set that is not compared.
pub(super) fn sizes(wrong_length: Expr) -> [Expr; 6] {
    [
        col("doc"),
        coalesce(vec![col("reason"), wrong_length]).alias("reason"),
        col("shingles"),
        count().alias("shingle_count"),
        set_hash(col("shingles"), 0).alias("set_hash_0"),
        set_hash(col("shingles"), 1).alias("set_hash_1"),
    ]
}

fn with_sizes(cut: DataFrame, wrong_length: Expr) -> Result<DataFrame> {
    let columns = of_documents(&cut, sizes(wrong_length));
    Ok(cut.select(columns)?)
}
