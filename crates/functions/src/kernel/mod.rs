//! The computations and their settings: plain functions on slices and texts, without Arrow and without an engine. [`crate::udf`] wraps them
//! as SQL functions, and operators call them directly.
//!
//! | file | from | to |
//! |---|---|---|
//! | [`shingle`] | | how a text becomes a set |
//! | [`text`] | text | normalised text, words, and the set of its shingles |
//! | [`minhash`](mod@minhash), [`linear`], [`one_permutation`](mod@one_permutation) | a set | its signature |
//! | [`signature`] | minima | the values of a signature, of 32 or 16 bits, and the estimate from two signatures |
//! | [`lsh_bands`](mod@lsh_bands) | a signature | its bucket in each band |
//! | [`bucket_tags`](mod@bucket_tags) | buckets | their tags, which show that documents share no bucket |
//! | [`measure`] | two sets | the exact size of their intersection, and their similarity by each measure |
//! | [`hash`] | an id, a set, a seed | the keys of joins, and pseudorandom numbers |
//! | [`distinct`], `vector` | | sorting, and SIMD |

pub mod bucket_tags;
pub mod distinct;
pub mod hash;
pub mod linear;
pub mod lsh_bands;
pub mod measure;
pub mod minhash;
pub mod one_permutation;
pub mod shingle;
pub mod signature;
pub mod text;
pub(crate) mod vector;
