//! `[passages]` as it is written in a job file.

use schemars::JsonSchema;
use serde::Deserialize;

/// `[passages]`: which passages are found that repeat inside documents. This is not `output.pair_passages`, which is about pairs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Passages {
    /// The parts of a text that are compared: `line`, `sentence` or `paragraph`, or `word` for runs of at least `length` words.
    /// Two are the same passage if they have the same words, by `shingle.words` and `shingle.normalize`. Required.
    pub unit: PassageUnit,
    /// `line`, `sentence`, `paragraph`: the fewest words of a passage; shorter ones never are one. Default: 5.
    pub min_words: Option<usize>,
    /// `word`: the fewest words of a passage. Default: 50.
    pub length: Option<usize>,
    /// `word`: passages that have at most this many other words between them are one passage. Default: 0.
    pub gap: Option<usize>,
}

impl Passages {
    /// The default of `min_words`: five words rarely agree by chance.
    pub const MIN_WORDS: usize = 5;
    /// The default of `length`, as in Lee et al., *Deduplicating Training Data Makes Language Models Better*, ACL 2022, in tokens.
    pub const LENGTH: usize = 50;
}

/// The parts of texts that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PassageUnit {
    /// A line, up to the newline.
    Line,
    /// A sentence by Unicode's rules (UAX #29), which the end of a line ends too.
    Sentence,
    /// Lines up to a blank one.
    Paragraph,
    /// A run of words.
    Word,
}
