//! The SQL functions, in one file per subject. They adapt the functions in [`crate::kernel`] to Arrow.
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
//! The functions that only stages use are in [`stage_functions`], and [`expr_fn`] describes them. SQL sessions do not contain them.
//!
//! The functions have no state: sizes and seeds are literal arguments, so that plans contain them. Sets are sorted lists of `UInt64`
//! without repeats, and signatures are lists of `UInt32`. Both can also be lists of the signed type with the same bits, as in the public
//! tables. A signature can also be a `Binary` with 16 bits of each value.

pub mod arguments;
pub mod expr_fn;
mod function;
mod sets;
mod texts;
pub mod values;

use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;

use datafusion::error::Result;
use function::Function;
pub use texts::{CUT_SPAN, PLACED_RUN, REPEATED, RUN, UNIT, WINDOW};

/// Returns every function for SQL, in the order in which a pipeline uses the functions.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    const ALL: [&Function; 8] = [
        &texts::SHINGLES,
        &sets::MINHASH,
        &sets::ONE_PERMUTATION,
        &sets::SHORT_SIGNATURE,
        &sets::MINHASH_SIMILARITY,
        &sets::LSH_BANDS,
        &sets::JACCARD,
        &sets::CONTAINMENT,
    ];
    ALL.map(Function::udf).into()
}

/// Returns the functions that only stages use. SQL sessions do not contain them, but sessions that decode plans from bytes do.
pub fn stage_functions() -> Vec<Arc<ScalarUDF>> {
    const ALL: [&Function; 20] = [
        &values::DOCUMENT_KEY,
        &values::JOINED_TEXTS,
        &texts::SHINGLE_TEXTS,
        &texts::SHINGLE_SAMPLES,
        &texts::PASSAGES,
        &texts::UNITS,
        &texts::FINGERPRINTS,
        &texts::WINDOWS,
        &texts::WORD_RUNS,
        &texts::PLACED_RUNS,
        &texts::TEXT_SAMPLE,
        &texts::TEXT_WITHOUT,
        &texts::WORD_COUNT,
        &sets::SET_HASH,
        &sets::SIGNATURE_SET,
        &sets::BUCKET_TAGS,
        &sets::HAS_TAG,
        &values::ORDER_KEY,
        &values::NUMBER_KEY,
        &values::UNSIGNED_BITS,
    ];
    ALL.map(Function::udf).into()
}

/// Registers every SQL function in a session. Fails if the session refuses a function.
pub fn register_all(ctx: &SessionContext) -> Result<()> {
    // Registration needs a mutable session. A clone refers to the same session.
    let mut session = ctx.clone();
    for udf in all() {
        FunctionRegistry::register_udf(&mut session, udf)?;
    }
    Ok(())
}
