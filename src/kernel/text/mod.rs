//! From a text to the set of its shingles: normalised, cut into words or characters, and hashed.

mod auto_words;
pub(crate) mod beginning;
pub(crate) mod cut;
pub(crate) mod long_text;
pub mod normalize;
pub(crate) mod passage;
pub(crate) mod python;
pub(crate) mod runs;
pub(crate) mod shingle_texts;
pub mod shingles;
pub mod units;
pub(crate) mod winnow;
pub(crate) mod without_spans;
pub mod words;
pub(crate) mod written_words;
