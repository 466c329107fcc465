//! The SQL functions, one per file, which adapt the functions of [`crate::kernel`] to Arrow.
//!
//! | function | from | to |
//! |---|---|---|
//! | `shingles` | text | the sorted distinct hashes of its shingles |
//! | `minhash` | shingle set | its signature: the least hash under each permutation |
//! | `one_permutation` | shingle set | a signature in which each shingle is hashed once, or a few times |
//! | `short_signature` | signature | 16 bits of each of its values |
//! | `minhash_similarity` | two signatures | an estimate of the sets' Jaccard similarity |
//! | `lsh_bands` | signature | its bucket in each band |
//! | `jaccard` | two shingle sets | their Jaccard similarity, exact |
//! | `containment` | two shingle sets | the share of the first that is in the second |
//!
//! Only stages use the following ones, which SQL sessions do not have:
//!
//! | function | from | to |
//! |---|---|---|
//! | `document_key` | id | the key of the document |
//! | `joined_texts` | list of texts, or of structs with texts | the texts, each in a line |
//! | `word_count` | text | the number of its words |
//! | `shingle_texts` | text | its distinct shingles, as texts |
//! | `shingle_samples` | text, hashes of shingles | these shingles, as texts |
//! | `set_hash` | shingle set | a hash of the set |
//! | `signature_set` | signature | its values as a set, each with its place |
//! | `passages` | two texts | their longest common passage, in both spellings |
//! | `units` | text | its lines, sentences or paragraphs: hash, place and number of words |
//! | `fingerprints` | text | a few hashes of its windows of words, at least one in every window |
//! | `windows` | text, fingerprints | the windows of words that have one of them |
//! | `word_runs` | text, repeated windows | the runs of words in these windows |
//! | `text_sample` | text, place | the first characters at that place |
//! | `order_key` | a value | the value by which it is ordered: texts that are numbers as numbers |
//! | `text_without` | text, places | the text without what is there |
//! | `unsigned_bits` | signed numbers | the unsigned numbers of the same bits |
//!
//! What the functions share: `row_function` and `pair_function` are their interfaces, and `function` adapts both to DataFusion;
//! `arguments`, `signatures` and `struct_lists` read arguments and make results; `section` is their section in the documentation.
//!
//! The functions hold no settings: sizes and seeds are literal arguments, so that plans contain them. Sets are sorted lists of
//! `UInt64` without repeats, signatures lists of `UInt32`; both may also be lists of the signed type with the same bits, as in the
//! public tables. A signature may also be a `Binary` with 16 bits of each value.

pub(crate) mod arguments;
mod containment;
mod document_key;
mod fingerprints;
mod function;
mod jaccard;
mod joined_texts;
mod lsh_bands;
mod minhash;
mod minhash_similarity;
mod one_permutation;
pub(crate) mod order_key;
mod pair_function;
mod passages;
mod row_function;
mod section;
mod set_hash;
mod shingle_samples;
mod shingle_texts;
mod shingles;
mod short_signature;
mod signature_set;
pub(crate) mod signatures;
mod struct_lists;
mod text_sample;
mod text_without;
mod units;
pub(crate) mod unsigned_bits;
mod windows;
mod word_count;
mod word_runs;

use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ScalarUDF, ScalarUDFImpl};
use datafusion::prelude::SessionContext;

use crate::error::Result;
use containment::Containment;
use document_key::DocumentKey;
use fingerprints::Fingerprints;
use jaccard::Jaccard;
use joined_texts::JoinedTexts;
use lsh_bands::LshBands;
use minhash::Minhash;
use minhash_similarity::MinhashSimilarity;
use one_permutation::OnePermutation;
use order_key::OrderKey;
use pair_function::PairUdf;
use passages::Passages;
use row_function::RowUdf;
use set_hash::SetHash;
use shingle_samples::ShingleSamples;
use shingle_texts::ShingleTexts;
use shingles::Shingles;
use short_signature::ShortSignature;
use signature_set::SignatureSet;
use text_sample::TextSample;
pub(crate) use text_without::CUT_SPAN;
use text_without::TextWithout;
pub(crate) use units::UNIT;
use units::Units;
use unsigned_bits::UnsignedBits;
pub(crate) use windows::WINDOW;
use windows::Windows;
use word_count::WordCount;
use word_runs::WordRuns;
pub(crate) use word_runs::{REPEATED, RUN};

/// Every function for SQL, in the order in which a document travels through them.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    vec![
        shared(RowUdf::<Shingles>::default()),
        shared(RowUdf::<Minhash>::default()),
        shared(RowUdf::<OnePermutation>::default()),
        shared(RowUdf::<ShortSignature>::default()),
        shared(PairUdf::<MinhashSimilarity>::default()),
        shared(RowUdf::<LshBands>::default()),
        shared(PairUdf::<Jaccard>::default()),
        shared(PairUdf::<Containment>::default()),
    ]
}

/// The functions that only stages use. SQL sessions do not have them; sessions that receive plans as bytes do.
#[cfg(feature = "cluster")]
pub(crate) fn of_stages() -> Vec<Arc<ScalarUDF>> {
    vec![
        shared(RowUdf::<DocumentKey>::default()),
        shared(RowUdf::<JoinedTexts>::default()),
        shared(RowUdf::<ShingleTexts>::default()),
        shared(RowUdf::<ShingleSamples, 2>::default()),
        shared(RowUdf::<Passages, 2>::default()),
        shared(RowUdf::<Units>::default()),
        shared(RowUdf::<Fingerprints>::default()),
        shared(RowUdf::<Windows, 2>::default()),
        shared(RowUdf::<WordRuns, 2>::default()),
        shared(RowUdf::<TextSample, 3>::default()),
        shared(RowUdf::<TextWithout, 2>::default()),
        shared(RowUdf::<WordCount>::default()),
        shared(RowUdf::<SetHash>::default()),
        shared(RowUdf::<SignatureSet>::default()),
        shared(OrderKey::default()),
        shared(UnsignedBits::default()),
    ]
}

fn shared(function: impl ScalarUDFImpl + 'static) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(function))
}

/// Registers every SQL function in a session.
///
/// # Errors
/// If the session refuses a function.
pub fn register_all(ctx: &SessionContext) -> Result<()> {
    // A clone is the same session, and needs no exclusive access.
    register_in(&mut ctx.clone())
}

/// Registers every function in a registry, such as a session's state or a task's context.
///
/// # Errors
/// If the registry refuses a function, as read-only registries do.
pub(crate) fn register_in(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for udf in all() {
        registry.register_udf(udf)?;
    }
    Ok(())
}

/// The functions as builders of expressions.
pub mod expr_fn {
    use datafusion::logical_expr::Expr;
    use datafusion::prelude::lit;

    use super::arguments::name;
    use super::lsh_bands::HASHES as BUCKET_HASHES;
    use super::shingles::{HASHES, UNITS, WORDS};
    use super::{
        Containment, DocumentKey, Fingerprints, Jaccard, JoinedTexts, LshBands, Minhash, MinhashSimilarity,
        OnePermutation, OrderKey, PairUdf, Passages, RowUdf, ScalarUDF, ScalarUDFImpl, SetHash,
        ShingleSamples, ShingleTexts, Shingles, ShortSignature, SignatureSet, TextSample, TextWithout, Units,
        UnsignedBits, Windows, WordCount, WordRuns,
    };
    use crate::job::{Coefficients, Lsh, Shingle, ShingleHash, Short, TextUnit};

    fn call(function: impl ScalarUDFImpl + 'static, args: Vec<Expr>) -> Expr {
        ScalarUDF::from(function).call(args)
    }

    /// `shingles(text, ...)`: a list of UInt64, cut and hashed by the rules of `by`. A dictionary's numbers cannot be
    /// computed from a text alone: see [`shingle_texts()`].
    pub fn shingles(text: Expr, by: &Shingle) -> Expr {
        call(RowUdf::<Shingles>::default(), cut_arguments(text, by))
    }

    /// `shingle_texts(text, ...)`: a list of LargeUtf8, cut by the rules of `by`.
    pub fn shingle_texts(text: Expr, by: &Shingle) -> Expr {
        call(RowUdf::<ShingleTexts>::default(), cut_arguments(text, by))
    }

    /// `shingle_samples(text, numbers, ...)`: a list of LargeUtf8, the shingles with these numbers.
    pub(crate) fn shingle_samples(text: Expr, numbers: Expr, by: &Shingle) -> Expr {
        let mut arguments = cut_arguments(text, by);
        arguments.insert(1, numbers);
        call(RowUdf::<ShingleSamples, 2>::default(), arguments)
    }

    /// `joined_texts(list, field, ...)`: Utf8View, the texts in a list, or in the field at `path` of its structs.
    pub(crate) fn joined_texts(list: Expr, path: &[String]) -> Expr {
        let names = path.iter().map(|name| lit(name.as_str()));
        call(RowUdf::<JoinedTexts>::default(), std::iter::once(list).chain(names).collect())
    }

    /// `units(text, unit, ...)`: a list of structs, one for each part of the text that has at least `min_words` words, by the
    /// rules of `by`.
    pub(crate) fn units(text: Expr, unit: TextUnit, min_words: usize, by: &Shingle) -> Expr {
        let by = Shingle { min_words, short: Short::Reject, ..by.clone() };
        let mut arguments = cut_arguments(text, &by);
        arguments.insert(1, lit(unit.name()));
        call(RowUdf::<Units>::default(), arguments)
    }

    /// `fingerprints(text, length, ...)`: a list of UInt64, at least one for every window of `length` words.
    pub(crate) fn fingerprints(text: Expr, length: usize, by: &Shingle) -> Expr {
        let arguments = [vec![text], window_arguments(length, by)].concat();
        call(RowUdf::<Fingerprints>::default(), arguments)
    }

    /// `windows(text, fingerprints, length, ...)`: a list of structs, one for each window of `length` words around a fingerprint.
    pub(crate) fn windows(text: Expr, fingerprints: Expr, length: usize, by: &Shingle) -> Expr {
        let arguments = [vec![text, fingerprints], window_arguments(length, by)].concat();
        call(RowUdf::<Windows, 2>::default(), arguments)
    }

    /// `word_runs(text, windows, gap, length, ...)`: a list of structs, one for each run of words in these windows.
    pub(crate) fn word_runs(text: Expr, windows: Expr, length: usize, gap: usize, by: &Shingle) -> Expr {
        let arguments = [vec![text, windows, lit(gap as u64)], window_arguments(length, by)].concat();
        call(RowUdf::<WordRuns, 2>::default(), arguments)
    }

    /// `text_sample(text, byte_start, byte_end, characters)`: a Utf8, the first characters of these bytes.
    pub(crate) fn text_sample(text: Expr, bytes: [Expr; 2], characters: usize) -> Expr {
        let [start, end] = bytes;
        call(RowUdf::<TextSample, 3>::default(), vec![text, start, end, lit(characters as u64)])
    }

    /// `text_without(text, spans)`: a Utf8, the text without the bytes of these spans.
    pub(crate) fn text_without(text: Expr, spans: Expr) -> Expr {
        call(RowUdf::<TextWithout, 2>::default(), vec![text, spans])
    }

    /// `word_count(text, ...)`: a UInt64, the number of words of a text by the rules of `by`.
    pub(crate) fn word_count(text: Expr, by: &Shingle) -> Expr {
        call(RowUdf::<WordCount>::default(), cut_arguments(text, by))
    }

    /// The length of windows, and the settings of `shingles` behind the text.
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
            lit(name(UNITS, by.unit)),
            lit(by.size as u64),
            lit(name(HASHES, hash)),
            lit(normalize.join(",")),
            lit(by.min_words as u64),
            lit(name(WORDS, by.words)),
            lit(by.separator.as_str()),
        ];
        // The stage rejects documents that are too short, not the function.
        if by.short == Short::Whole {
            arguments.push(lit("whole"));
        }
        arguments
    }

    /// `minhash(shingles, permutations, seed, ...)`: a list of `permutations` UInt32; `linear` is (modulus, draws).
    pub fn minhash(shingles: Expr, permutations: usize, seed: u64, linear: Option<(u64, u64)>) -> Expr {
        let mut args = vec![shingles, lit(permutations as u64), lit(seed)];
        args.extend(linear.into_iter().flat_map(|(modulus, draws)| [lit(modulus), lit(draws)]));
        call(RowUdf::<Minhash>::default(), args)
    }

    /// `minhash(shingles, permutations, seed, ...)` of the linear family, with these coefficients modulo `modulus`: a list of
    /// as many UInt32.
    pub fn minhash_by(shingles: Expr, coefficients: &[Coefficients], modulus: u64) -> Expr {
        let numbers: Vec<String> = coefficients.iter().map(|(a, b)| format!("{a} {b}")).collect();
        let args = vec![
            shingles,
            lit(coefficients.len() as u64),
            lit(0_u64),
            lit(modulus),
            lit(modulus - 1),
            lit(numbers.join(" ")),
        ];
        call(RowUdf::<Minhash>::default(), args)
    }

    /// `one_permutation(shingles, permutations, seed)`: a list of `permutations` UInt32.
    pub fn one_permutation(shingles: Expr, permutations: usize, seed: u64) -> Expr {
        let args = vec![shingles, lit(permutations as u64), lit(seed)];
        call(RowUdf::<OnePermutation>::default(), args)
    }

    /// `short_signature(signature)`: a Binary with two bytes for each value.
    pub fn short_signature(signature: Expr) -> Expr {
        call(RowUdf::<ShortSignature>::default(), vec![signature])
    }

    /// `minhash_similarity(a, b)`: a Float64 in [0, 1].
    pub fn minhash_similarity(a: Expr, b: Expr) -> Expr {
        call(PairUdf::<MinhashSimilarity>::default(), vec![a, b])
    }

    /// `lsh_bands(signature, bands, rows, ...)`: a list of `bands` UInt64.
    pub fn lsh_bands(signature: Expr, by: &Lsh) -> Expr {
        let hash = lit(name(BUCKET_HASHES, by.bucket_hash));
        let mut args = vec![signature, lit(by.bands as u64), lit(by.rows as u64), hash];
        args.extend(by.table_size.map(lit));
        call(RowUdf::<LshBands>::default(), args)
    }

    /// `jaccard(a, b)`: a Float64 in [0, 1].
    pub fn jaccard(a: Expr, b: Expr) -> Expr {
        call(PairUdf::<Jaccard>::default(), vec![a, b])
    }

    /// `document_key(id)`: a UInt64.
    pub fn document_key(id: Expr) -> Expr {
        call(RowUdf::<DocumentKey>::default(), vec![id])
    }

    /// `passages(a, b)`: a struct of two texts, `a` and `b`.
    pub(crate) fn passages(a: Expr, b: Expr) -> Expr {
        call(RowUdf::<Passages, 2>::default(), vec![a, b])
    }

    /// `set_hash(shingles, half)`: a UInt64.
    pub fn set_hash(shingles: Expr, half: u64) -> Expr {
        call(RowUdf::<SetHash>::default(), vec![shingles, lit(half)])
    }

    /// `signature_set(signature)`: a list of UInt64.
    pub fn signature_set(signature: Expr) -> Expr {
        call(RowUdf::<SignatureSet>::default(), vec![signature])
    }

    /// `order_key(x)`: the value by which `x` is ordered.
    pub(crate) fn order_key(x: Expr) -> Expr {
        call(OrderKey::default(), vec![x])
    }

    /// `unsigned_bits(x)`: the unsigned numbers of the same bits.
    pub fn unsigned_bits(x: Expr) -> Expr {
        call(UnsignedBits::default(), vec![x])
    }

    /// `containment(a, b)`: a Float64 in [0, 1].
    pub fn containment(a: Expr, b: Expr) -> Expr {
        call(PairUdf::<Containment>::default(), vec![a, b])
    }
}
