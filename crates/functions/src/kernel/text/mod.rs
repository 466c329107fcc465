//! From a text to the set of its shingles: normalised, cut into words or characters, and hashed.

pub mod cut;
pub mod long_text;
pub mod normalize;
pub mod passages;
pub mod shingles;
pub(crate) mod windows;
pub mod words;
pub mod written_words;
