//! The section `[shingle]`: how a text becomes a set of shingles.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The maximum number of words or characters in a shingle.
pub const MAX_SHINGLE_SIZE: usize = 1_000_000;

/// The settings of `[shingle]` in a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shingle {
    /// The normalisation steps for the text, in this order.
    pub normalize: Vec<Normalize>,
    /// The units of a shingle.
    pub unit: Unit,
    /// The definition of a word.
    pub words: Words,
    /// The number of units in a shingle, at least 1.
    pub size: usize,
    /// The separator that is put between words when the bytes of a shingle are hashed.
    pub separator: String,
    /// The hash of a shingle.
    pub hash: ShingleHash,
    /// The minimum number of words. Documents with fewer words are rejected; 0 rejects no document.
    pub min_words: usize,
    /// The treatment of documents with fewer units than `size`.
    pub short: Short,
}

/// The treatment of documents that are shorter than a shingle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Short {
    /// The document is put into `rejects` with the reason `too_short`.
    #[default]
    Reject,
    /// The whole text is one shingle.
    Whole,
    /// The document has no shingles, and every value of its signature is 2^32 - 1. All such documents, including empty documents, have the
    /// same signature. This is allowed only if signatures decide on pairs.
    Empty,
}

/// A step of text normalisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Normalize {
    /// Unicode lower case.
    Lowercase,
    /// Every run of characters that are not alphabetic becomes one space.
    LettersOnly,
    /// Removes characters that are neither alphabetic nor white space: "don't" becomes "dont".
    RemoveNonLetters,
    /// Removes the characters that end lines, `\n` and `\r`.
    RemoveNewlines,
    /// Every run of white space becomes one space, and runs at the ends are removed.
    CollapseWhitespace,
    /// Every run of white space becomes one space, including runs at the ends.
    CollapseWhitespaceKeepEnds,
    /// Every run of spaces (U+0020) becomes one space, including runs at the ends. Other white space is kept.
    CollapseSpaces,
    /// Every run of spaces, tabs, `\n` and `\r` becomes one space, including runs at the ends. Other white space is kept.
    CollapseTabsAndNewlines,
    /// Removes words that consist of digits, by Python's `str.isdigit`.
    DigitsOut,
    /// Removes the stop words in a named list: a language (ISO 639-1 code), or `scikit-learn-en`.
    StopWords(String),
    /// Removes these stop words. The words in the string are lower-cased, sorted, distinct and separated by spaces.
    StopWordList(String),
    /// Every white-space character becomes an underscore.
    SpacesToUnderscores,
    /// Every space (U+0020) becomes an underscore. Other white space is kept.
    OnlySpacesToUnderscores,
    /// Unicode compatibility composition (NFKC).
    Nfkc,
}

/// The unit of shingles.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Words, as defined by [`Words`].
    #[cfg_attr(feature = "clap", value(help = "Words"))]
    Word,
    /// Unicode scalar values.
    #[cfg_attr(feature = "clap", value(help = "Characters"))]
    Char,
}

impl Unit {
    /// Returns the noun for messages.
    pub fn noun(self) -> &'static str {
        match self {
            Unit::Word => "word",
            Unit::Char => "character",
        }
    }

    /// Returns the plural of [`Self::noun`].
    pub fn plural(self) -> &'static str {
        match self {
            Unit::Word => "words",
            Unit::Char => "characters",
        }
    }
}

/// The definition of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Words {
    /// The words of [`Words::Unicode`], and also emoji and other pictographs. Dictionaries divide Chinese, Japanese, Thai, Lao, Khmer and
    /// Burmese, which are written without spaces between words.
    Auto,
    /// The text between two Unicode word boundaries (UAX #29), if it contains a letter or a number: "can't" is one word.
    Unicode,
    /// A run of letters, numbers and underscores, which the regular expression `\b\w+\b` matches in Python: "can't" is two words, and vowel
    /// signs divide Hindi words.
    WordCharacters,
    /// A run of characters other than white space: "can't," is one word, with its comma.
    Spaces,
}

/// The hash that turns a shingle into a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ShingleHash {
    /// XXH3, 64 bits.
    Xxh3,
    /// CRC-32 (IEEE) of the shingle's UTF-8 bytes, with the separator between words.
    Crc32,
    /// SHA-256 of the bytes that `crc32` hashes, as a big-endian number modulo 2^31 - 1.
    #[serde(rename = "sha256-31")]
    Sha256Mod31,
    /// The shingle's number among all distinct shingles of the collection, counted from 1. Different shingles have different numbers.
    Dictionary,
}
