//! From a text to the set of its shingles: normalised, cut into words or characters, and hashed.

mod auto_words;
pub mod beginning;
pub mod cut;
pub mod long_text;
pub mod normalize;
pub(crate) mod passage;
pub(crate) mod python;
pub(crate) mod runs;
pub mod shingle_texts;
pub mod shingles;
pub mod units;
pub(crate) mod winnow;
pub mod without_spans;
pub mod words;
pub mod written_words;
