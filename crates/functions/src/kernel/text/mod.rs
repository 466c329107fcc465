//! Turns a text into the set of its shingles: normalises the text, cuts it into words or characters, and hashes the shingles.

pub mod common_passages;
pub mod cut;
pub mod long_text;
pub mod normalize;
pub(crate) mod repeated_passages;
pub mod shingles;
pub mod words;
pub mod written_words;
