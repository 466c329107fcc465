//! Builds expressions that call the functions.

use std::sync::Arc;

use arrow::array::ListArray;
use arrow::datatypes::UInt32Type;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::prelude::lit;

use super::arguments::name;
use super::function::Function;
use super::sets::BUCKET_HASHES;
use super::texts::{SHINGLE_HASHES, SHINGLE_UNITS, WORD_RULES};
use super::{sets, texts, values};
use crate::kernel::lsh_bands::BucketHash;
use crate::kernel::shingle::{Shingle, ShingleHash, Short};
use crate::kernel::text::written_words::TextUnit;

fn call(function: &'static Function, arguments: Vec<Expr>) -> Expr {
    function.udf().call(arguments)
}

/// `shingles(text, ...)` returns a list of UInt64: the hashed shingles by the settings `by`. The numbers of the hash `dictionary` cannot be
/// computed from a single text: use [`shingle_texts()`] instead.
pub fn shingles(text: Expr, by: &Shingle) -> Expr {
    call(&texts::SHINGLES, cut_arguments(text, by))
}

/// `shingle_texts(text, ...)` returns a list of LargeUtf8: the shingles by the settings `by`.
pub fn shingle_texts(text: Expr, by: &Shingle) -> Expr {
    call(&texts::SHINGLE_TEXTS, cut_arguments(text, by))
}

/// `shingle_samples(text, numbers, ...)` returns a list of LargeUtf8: the shingle with each number, or null if the text lacks it.
pub fn shingle_samples(text: Expr, numbers: Expr, by: &Shingle) -> Expr {
    let mut arguments = cut_arguments(text, by);
    arguments.insert(1, numbers);
    call(&texts::SHINGLE_SAMPLES, arguments)
}

/// `joined_texts(list, field, ...)` returns a Utf8View with the texts in a list, one per line. In a list of structs, these are the texts in
/// the field at `path`.
pub fn joined_texts(list: Expr, path: &[String]) -> Expr {
    let names = path.iter().map(|name| lit(name.as_str()));
    call(&values::JOINED_TEXTS, std::iter::once(list).chain(names).collect())
}

/// `units(text, unit, ...)` returns a list of structs, one per unit of the text with at least `min_words` words by the settings `by`.
pub fn units(text: Expr, unit: TextUnit, min_words: usize, by: &Shingle) -> Expr {
    let by = Shingle { min_words, short: Short::Reject, ..by.clone() };
    let mut arguments = cut_arguments(text, &by);
    arguments.insert(1, lit(unit.name()));
    call(&texts::UNITS, arguments)
}

/// `fingerprints(text, length, ...)` returns a list of UInt64: winnowed hashes, at least one of which is in every window of `length` words.
pub fn fingerprints(text: Expr, length: usize, by: &Shingle) -> Expr {
    let arguments = [vec![text], window_arguments(length, by)].concat();
    call(&texts::FINGERPRINTS, arguments)
}

/// `windows(text, fingerprints, length, ...)` returns a list of structs, one per window of `length` words that contains a fingerprint.
pub fn windows(text: Expr, fingerprints: Expr, length: usize, by: &Shingle) -> Expr {
    let arguments = [vec![text, fingerprints], window_arguments(length, by)].concat();
    call(&texts::WINDOWS, arguments)
}

/// `word_runs(windows, gap, length)` returns a list of structs, one per run of words in these windows that are not first occurrences.
pub fn word_runs(windows: Expr, length: usize, gap: usize) -> Expr {
    call(&texts::WORD_RUNS, vec![windows, lit(gap as u64), lit(length as u64)])
}

/// `placed_runs(text, runs, ...)` returns a list of structs, one per run of words, with its hash and its position in the text.
pub fn placed_runs(text: Expr, runs: Expr, by: &Shingle) -> Expr {
    let mut arguments = cut_arguments(text, by);
    arguments.insert(1, runs);
    call(&texts::PLACED_RUNS, arguments)
}

/// `text_sample(text, byte_start, byte_end, characters)` returns a Utf8: the first `characters` characters in this byte range.
pub fn text_sample(text: Expr, bytes: [Expr; 2], characters: usize) -> Expr {
    let [start, end] = bytes;
    call(&texts::TEXT_SAMPLE, vec![text, start, end, lit(characters as u64)])
}

/// `word_count(text, ...)` returns a UInt64: the number of words in a text by the settings `by`.
pub fn word_count(text: Expr, by: &Shingle) -> Expr {
    call(&texts::WORD_COUNT, cut_arguments(text, by))
}

fn window_arguments(length: usize, by: &Shingle) -> Vec<Expr> {
    let by = Shingle { min_words: 0, short: Short::Reject, ..by.clone() };
    cut_arguments(lit(length as u64), &by)
}

fn cut_arguments(text: Expr, by: &Shingle) -> Vec<Expr> {
    let hash = match by.hash {
        // `shingle_texts` does not hash.
        ShingleHash::Dictionary => ShingleHash::Xxh3,
        hash => hash,
    };
    let normalize: Vec<_> = by.normalize.iter().map(ToString::to_string).collect();
    let mut arguments = vec![
        text,
        lit(name(SHINGLE_UNITS, by.unit)),
        lit(by.size as u64),
        lit(name(SHINGLE_HASHES, hash)),
        lit(normalize.join(",")),
        lit(by.min_words as u64),
        lit(name(WORD_RULES, by.words)),
        lit(by.separator.as_str()),
    ];
    // The stage rejects documents that are too short, so the function needs no value for `reject` and `empty`.
    if by.short == Short::Whole {
        arguments.push(lit("whole"));
    }
    arguments
}

/// `minhash(shingles, permutations, seed, ...)` returns a list of `permutations` UInt32 values. `linear` contains the modulus and the
/// number of values from which coefficients are drawn.
pub fn minhash(shingles: Expr, permutations: usize, seed: u64, linear: Option<(u64, u64)>) -> Expr {
    let mut args = vec![shingles, lit(permutations as u64), lit(seed)];
    args.extend(linear.into_iter().flat_map(|(modulus, draws)| [lit(modulus), lit(draws)]));
    call(&sets::MINHASH, args)
}

/// `minhash(shingles, permutations, seed, ...)` returns one UInt32 per pair of coefficients, by linear functions with this modulus.
pub fn minhash_by(shingles: Expr, coefficients: &[(u64, u64)], modulus: u64) -> Expr {
    let numbers: Vec<String> = coefficients.iter().map(|(a, b)| format!("{a} {b}")).collect();
    let args = vec![
        shingles,
        lit(coefficients.len() as u64),
        lit(0_u64),
        lit(modulus),
        lit(modulus - 1),
        lit(numbers.join(" ")),
    ];
    call(&sets::MINHASH, args)
}

/// `one_permutation(shingles, permutations, seed)` returns a list of `permutations` UInt32 values.
pub fn one_permutation(shingles: Expr, permutations: usize, seed: u64) -> Expr {
    let args = vec![shingles, lit(permutations as u64), lit(seed)];
    call(&sets::ONE_PERMUTATION, args)
}

/// `lsh_bands(signature, bands, rows, ...)` returns a list of `bands` UInt64 values.
pub fn lsh_bands(
    signature: Expr,
    bands: usize,
    rows: usize,
    hash: BucketHash,
    table_size: Option<u64>,
) -> Expr {
    let hash = lit(name(BUCKET_HASHES, hash));
    let mut args = vec![signature, lit(bands as u64), lit(rows as u64), hash];
    args.extend(table_size.map(lit));
    call(&sets::LSH_BANDS, args)
}

/// `has_tag(tags, set)` returns whether a document with these tags may share a bucket with a document in a
/// [`tag_set`](crate::kernel::bucket_tags::tag_set). In place of tags, it takes a UInt64, which is a bucket of a single band.
pub fn has_tag(tags: Expr, set: Vec<u32>) -> Expr {
    // Copies of a list share its elements.
    let set = ListArray::from_iter_primitive::<UInt32Type, _, _>([Some(set.into_iter().map(Some))]);
    call(&sets::HAS_TAG, vec![tags, lit(ScalarValue::List(Arc::new(set)))])
}

/// `set_hash(shingles, half)` returns a UInt64.
pub fn set_hash(shingles: Expr, half: u64) -> Expr {
    call(&sets::SET_HASH, vec![shingles, lit(half)])
}

/// Declares functions that only pass on their arguments.
macro_rules! calls {
    ($($(#[$doc:meta])+ $name:ident($($argument:ident),+) => $function:path;)+) => {
        $($(#[$doc])+
        pub fn $name($($argument: Expr),+) -> Expr {
            call(&$function, vec![$($argument),+])
        })+
    };
}

calls! {
    /// `text_without(text, spans)` returns a Utf8: the text without the bytes in these spans.
    text_without(text, spans) => texts::TEXT_WITHOUT;
    /// `short_signature(signature)` returns a Binary with two bytes per value.
    short_signature(signature) => sets::SHORT_SIGNATURE;
    /// `minhash_similarity(a, b)` returns a Float64 in [0, 1].
    minhash_similarity(a, b) => sets::MINHASH_SIMILARITY;
    /// `jaccard(a, b)` returns a Float64 in [0, 1].
    jaccard(a, b) => sets::JACCARD;
    /// `document_key(id)` returns a UInt64.
    document_key(id) => values::DOCUMENT_KEY;
    /// `passages(a, b)` returns a struct of two texts, `a` and `b`.
    passages(a, b) => texts::PASSAGES;
    /// `signature_set(signature)` returns a list of UInt64.
    signature_set(signature) => sets::SIGNATURE_SET;
    /// `bucket_tags(buckets)` returns a Binary with four bytes per bucket.
    bucket_tags(buckets) => sets::BUCKET_TAGS;
    /// `order_key(x)` returns the value by which `x` is ordered.
    order_key(x) => values::ORDER_KEY;
    /// `number_key(x)`: the key of the text `x` if it is a number.
    number_key(x) => values::NUMBER_KEY;
    /// `unsigned_bits(x)`: the unsigned numbers with the same bits.
    unsigned_bits(x) => values::UNSIGNED_BITS;
    /// `containment(a, b)` returns a Float64 in [0, 1].
    containment(a, b) => sets::CONTAINMENT;
}
