//! Computes shingle sets, their signatures, and the buckets of their bands. A shingle set contains the sorted distinct numbers of a
//! document's shingles, by a hash function or a dictionary. A sketch is a set with its signature.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{btrim, coalesce};
use datafusion::functions_aggregate::expr_fn::array_agg;
use datafusion::functions_nested::expr_fn::{array_length, array_repeat, array_sort, array_to_string};
use datafusion::functions_window::expr_fn::{dense_rank, lag};
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{DataFrame, Expr, col, lit, when};
use datafusion::scalar::ScalarValue;

use super::frequent_shingles::without_frequent;
use super::{columns, document_columns, number, shingles_of_text};
use crate::error::{Error, Result};
use crate::job::{Bits, Family, Job, Lsh, Shingle, ShingleHash, Short, Unit};
use crate::kernel::text::shingles::MAX_SHINGLES;
use crate::udf::expr_fn::{
    bucket_tags, document_key, lsh_bands, minhash, minhash_by, one_permutation, set_hash, shingle_texts,
    short_signature,
};

/// (source, position, id, text, doc, reason) -> the columns of [`measured`].
pub(crate) fn shingles(documents: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    counting_shingles(documents, shingle, None)
}

/// Like [`shingles`], but without `frequent` shingles (shingle, ..). A document without other shingles gets the reason `only_template`.
pub(crate) fn counting_shingles(
    documents: DataFrame,
    shingle: &Shingle,
    frequent: Option<DataFrame>,
) -> Result<DataFrame> {
    if shingle.hash == ShingleHash::Dictionary {
        let cuts = cuts(documents, shingle)?;
        return measured(numbered(cuts.clone(), numbers(cuts)?)?, shingle);
    }
    let cut = cut(documents, shingle)?;
    if frequent.is_none() {
        return measured(cut, shingle);
    }
    // Short texts are recognised before frequent shingles are removed.
    let reason = coalesce(vec![col("reason"), wrong_length(shingle, "too_short")?]).alias("reason");
    let columns = document_columns(&cut, [col("doc"), reason, col("shingles")]);
    with_sizes(without_frequent(cut.select(columns)?, frequent)?, wrong_length(shingle, "only_template")?)
}

/// (source, position, id, text, doc, reason) -> (source, position, id, doc, reason, shingles). Texts that are empty after normalisation
/// get the reason `empty_text`.
fn cut(documents: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    // Rejected texts are not split into shingles, since they can contain anything.
    let text = when(col("reason").is_null(), col("text")).end()?;
    let set = shingles_of_text(&documents, text, shingle)?.alias("shingles");
    let columns = document_columns(&documents, [col("text"), col("doc"), col("reason"), set]);
    let cut = documents.select(columns)?;
    let reason = match shingle.short {
        // Every text is compared, including empty texts.
        Short::Empty => col("reason"),
        Short::Reject | Short::Whole => coalesce(vec![col("reason"), empty_text("shingles", shingle)?]),
    };
    let columns = document_columns(&cut, [col("doc"), reason.alias("reason"), col("shingles")]);
    Ok(cut.select(columns)?)
}

/// (source, position, id, doc, reason, shingles) -> (source, position, id, doc, reason, shingles: `List<UInt64>`, shingle_count: UInt64,
/// set_hash_0: UInt64, set_hash_1: UInt64). Both hashes together (128 bits) identify a shingle set.
///
/// A document with too few words gets the reason `too_short`, unless [`Short::Empty`] keeps it. A document with more than 2^27 shingles
/// gets the reason `too_long`.
pub(crate) fn measured(cut: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    with_sizes(cut, wrong_length(shingle, "too_short")?)
}

fn length(list: &str) -> Expr {
    coalesce(vec![array_length(col(list)), lit(0_u64)])
}

/// The reason to reject a set for its length, which is `empty` for a set without shingles.
fn wrong_length(shingle: &Shingle, empty: &str) -> Result<Expr> {
    let too_long = length("shingles").gt(lit(MAX_SHINGLES as u64));
    Ok(match shingle.short {
        Short::Empty => when(too_long, lit("too_long")).end()?,
        Short::Reject | Short::Whole => {
            when(length("shingles").eq(lit(0_u64)), lit(empty)).when(too_long, lit("too_long")).end()?
        }
    })
}

fn with_sizes(cut: DataFrame, wrong_length: Expr) -> Result<DataFrame> {
    let sizes = [
        col("doc"),
        coalesce(vec![col("reason"), wrong_length]).alias("reason"),
        col("shingles"),
        length("shingles").alias("shingle_count"),
        set_hash(col("shingles"), 0).alias("set_hash_0"),
        set_hash(col("shingles"), 1).alias("set_hash_1"),
    ];
    let columns = document_columns(&cut, sizes);
    Ok(cut.select(columns)?)
}

/// The reason `empty_text` if the normalised text is empty, else null. Normalises only texts with an empty list `cut` again.
fn empty_text(cut: &str, shingle: &Shingle) -> Result<Expr> {
    // The distinct characters of the normalised text.
    let letters = Shingle { unit: Unit::Char, size: 1, min_words: 0, ..shingle.clone() };
    let left = array_to_string(shingle_texts(col("text"), &letters), lit(""));
    let blank = btrim(vec![left, lit(" \t\r\n")]).eq(lit(""));
    let reason = when(blank, lit("empty_text")).end()?;
    Ok(when(col("reason").is_null().and(length(cut).eq(lit(0_u64))), reason).end()?)
}

/// (source, position, id, text, doc, reason) -> (source, position, id, doc, reason, texts: `List<LargeUtf8>`), the shingles as texts.
pub(crate) fn cuts(documents: DataFrame, shingle: &Shingle) -> Result<DataFrame> {
    let texts = shingle_texts(when(col("reason").is_null(), col("text")).end()?, shingle).alias("texts");
    let columns = document_columns(&documents, [col("text"), col("doc"), col("reason"), texts]);
    let cut = documents.select(columns)?;
    // Documents without shingles are rejected here. `numbered` joins by id, and would give them the shingles of another document.
    let too_short = when(length("texts").eq(lit(0_u64)), lit("too_short")).end()?;
    let reason = coalesce(vec![col("reason"), empty_text("texts", shingle)?, too_short]).alias("reason");
    let columns = document_columns(&cut, [col("doc"), reason, col("texts")]);
    Ok(cut.select(columns)?)
}

/// (doc, reason, texts, ..) -> (doc: UInt64, number: UInt64, shingle: LargeUtf8), one row per shingle in each document. For each number,
/// `shingle` is null in all rows but one. The rows with a shingle are the dictionary.
///
/// The number of a shingle is its rank, from 1, in the order of (XXH3-64 of its bytes, its bytes). So numbers do not depend on the order
/// of documents, and do not follow the order of words, as the hash functions of signatures require. One sort finds all ranks.
pub(crate) fn numbers(cuts: DataFrame) -> Result<DataFrame> {
    let rows = cuts
        .filter(col("reason").is_null())?
        .select(vec![col("doc"), col("texts").alias("shingle")])?
        .unnest_columns(&["shingle"])?
        .filter(col("shingle").is_not_null())?
        // The key of a document is computed in the same way: XXH3-64 of the bytes.
        .select(vec![document_key(col("shingle")).alias("hash"), col("shingle"), col("doc")])?;
    let by_shingle = ["hash", "shingle", "doc"].map(|name| col(name).sort(true, false)).to_vec();
    // The finer order comes first and implies the coarser one, so the plan has one sort.
    let rank = dense_rank().order_by(by_shingle[..2].to_vec()).build()?.alias("number");
    let before = lag(col("shingle"), Some(1), None).order_by(by_shingle).build()?.alias("before");
    let ranked = rows.window(vec![before])?.window(vec![rank])?;
    let first = col("before").is_null().or(col("before").not_eq(col("shingle")));
    Ok(ranked.select(vec![
        col("doc"),
        number(col("number")).alias("number"),
        when(first, col("shingle")).end()?.alias("shingle"),
    ])?)
}

/// (source, position, id, doc, reason, ..), (doc, number, ..) -> (source, position, id, doc, reason, shingles: `List<UInt64>`), sorted.
pub(crate) fn numbered(cuts: DataFrame, numbers: DataFrame) -> Result<DataFrame> {
    let sets = numbers
        .select(vec![col("doc").alias("numbered"), col("number")])?
        .aggregate(columns(["numbered"]), vec![array_agg(col("number")).alias("set")])?;
    let set = when(col("reason").is_null(), col("set")).end()?;
    let shingles = array_sort(set, lit("ASC"), lit("NULLS FIRST")).alias("shingles");
    let columns = document_columns(&cuts, [col("doc"), col("reason"), shingles]);
    Ok(cuts.join(sets, JoinType::Left, &["doc"], &["numbered"], None)?.select(columns)?)
}

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
