//! The SQL functions, by subject, which adapt the functions of [`crate::kernel`] to Arrow.
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
//! `function` is their interface and its adapter to DataFusion; `arguments` has their columns, settings and lists.
//!
//! The functions hold no settings: sizes and seeds are literal arguments, so that plans contain them. Sets are sorted lists of
//! `UInt64` without repeats, signatures lists of `UInt32`; both may also be lists of the signed type with the same bits, as in the
//! public tables. A signature may also be a `Binary` with 16 bits of each value.

pub(crate) mod arguments;
pub mod expr_fn;
mod function;
mod sets;
mod shingles;
mod signatures;
mod texts;
pub(crate) mod values;

use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;

use crate::error::Result;
use function::{Function, Udf};
use sets::{Containment, Jaccard};
use shingles::ShinglesFunction;
use signatures::{LshBands, MinhashFunction, MinhashSimilarity, OnePermutation, ShortSignature};
pub(crate) use texts::{CUT_SPAN, REPEATED, RUN, UNIT, WINDOW};

/// Every function for SQL, in the order in which a document travels through them.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    vec![
        udf::<ShinglesFunction, 1>(),
        udf::<MinhashFunction, 1>(),
        udf::<OnePermutation, 1>(),
        udf::<ShortSignature, 1>(),
        udf::<MinhashSimilarity, 2>(),
        udf::<LshBands, 1>(),
        udf::<Jaccard, 2>(),
        udf::<Containment, 2>(),
    ]
}

/// The functions that only stages use. SQL sessions do not have them; sessions that receive plans as bytes do.
#[cfg(feature = "cluster")]
pub(crate) fn of_stages() -> Vec<Arc<ScalarUDF>> {
    vec![
        udf::<values::DocumentKey, 1>(),
        udf::<values::JoinedTexts, 1>(),
        udf::<shingles::ShingleTexts, 1>(),
        udf::<shingles::ShingleSamples, 2>(),
        udf::<texts::PassagesFunction, 2>(),
        udf::<texts::Units, 1>(),
        udf::<texts::Fingerprints, 1>(),
        udf::<texts::Windows, 2>(),
        udf::<texts::WordRuns, 2>(),
        udf::<texts::TextSample, 3>(),
        udf::<texts::TextWithout, 2>(),
        udf::<texts::WordCount, 1>(),
        udf::<sets::SetHash, 1>(),
        udf::<signatures::SignatureSet, 1>(),
        Arc::new(values::OrderKey::default().into()),
        Arc::new(values::UnsignedBits::default().into()),
    ]
}

fn udf<F: Function<N>, const N: usize>() -> Arc<ScalarUDF> {
    Arc::new(Udf::<F, N>::default().into())
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
