//! The computations: plain functions on slices and texts, without Arrow and without an engine. [`crate::udf`] makes SQL
//! functions of them, and operators call them directly. The settings that they take stand with them; a job is made of these.
//!
//! | file | from | to |
//! |---|---|---|
//! | [`shingle`] | | how a text becomes a set |
//! | [`text`] | text | normalised text, words, and the set of its shingles |
//! | [`minhash`](mod@minhash), [`linear`], [`one_permutation`](mod@one_permutation) | a set | its signature |
//! | [`signature`] | minima | the values of a signature, of 32 or 16 bits |
//! | [`lsh_bands`](mod@lsh_bands) | a signature | its bucket in each band |
//! | [`minhash_similarity`](mod@minhash_similarity) | two signatures | the estimate |
//! | [`jaccard`], `containment`, [`measure`] | two sets | what they share, exactly, by each measure |
//! | [`document_key`](mod@document_key), `set_hash` | an id, a set | the keys of joins |
//! | [`distinct`], `random`, `vector` | | sorting, drawing numbers, and SIMD, for the others |

pub mod containment;
pub mod distinct;
pub mod document_key;
pub mod jaccard;
pub mod linear;
pub mod lsh_bands;
pub mod measure;
pub mod minhash;
pub mod minhash_similarity;
pub mod one_permutation;
pub mod random;
pub(crate) mod set_hash;
pub mod shingle;
pub mod signature;
pub(crate) mod signature_set;
pub mod text;
pub(crate) mod vector;
