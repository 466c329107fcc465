//! `[passages]`: the search for repeated passages inside documents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{Checked, require};
use crate::kernel::text::written_words::TextUnit;

/// The maximum value of each key that is a number of words.
const MAX_WORDS: usize = 1_000_000;

/// The default of `min_words`. Sequences of five words rarely agree by chance.
const MIN_WORDS: usize = 5;

/// The default of `length`. Lee et al., *Deduplicating Training Data Makes Language Models Better*, ACL 2022, use the same value, in
/// tokens.
const LENGTH: usize = 50;

/// `[passages]`: the search for repeated passages inside documents. `output.pair_passages` is independent of it and means the common
/// passages of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Passages {
    /// The parts of a text that are compared: `line`, `sentence` or `paragraph`, or `word` for runs of at least `length` words. Equal
    /// passages have the same words by `shingle.words` and `shingle.normalize`. Required.
    pub unit: PassageUnit,
    /// `line`, `sentence`, `paragraph`: the minimum number of words in a passage. Default: 5.
    pub min_words: Option<usize>,
    /// `word`: the minimum number of words in a passage. Default: 50.
    pub length: Option<usize>,
    /// `word`: two passages are joined if at most this number of other words is between them. Default: 0.
    pub gap: Option<usize>,
}

/// The parts of texts that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PassageUnit {
    /// A line, which ends at a newline.
    Line,
    /// A sentence according to Unicode (UAX #29). The end of a line also ends the sentence.
    Sentence,
    /// Consecutive lines up to a blank line.
    Paragraph,
    /// A run of words.
    Word,
}

impl Passages {
    /// Returns the unit that is compared and its minimum number of words, or `None` if the unit is `word`.
    pub fn units(self) -> Option<(TextUnit, usize)> {
        let unit = match self.unit {
            PassageUnit::Line => TextUnit::Line,
            PassageUnit::Sentence => TextUnit::Sentence,
            PassageUnit::Paragraph => TextUnit::Paragraph,
            PassageUnit::Word => return None,
        };
        Some((unit, self.min_words.unwrap_or(MIN_WORDS)))
    }

    /// Returns the minimum number of words in a passage, and the maximum number of other words between two joined passages. Returns `None`
    /// if the unit is not `word`.
    pub fn words(self) -> Option<(usize, usize)> {
        let numbers = (self.length.unwrap_or(LENGTH), self.gap.unwrap_or_default());
        (self.unit == PassageUnit::Word).then_some(numbers)
    }

    /// Checks the section and fills in its defaults.
    pub(super) fn checked(self) -> Checked<Self> {
        let Self { unit, min_words, length, gap } = self;
        if let Some((length, gap)) = self.words() {
            require(
                min_words.is_none(),
                "passages.min_words",
                "is set, and the unit is \"word\": expected `passages.length` instead",
            )?;
            let fault = format!("is {length}: expected 2 to {MAX_WORDS}");
            require((2..=MAX_WORDS).contains(&length), "passages.length", fault)?;
            require(gap <= MAX_WORDS, "passages.gap", format!("is {gap}: expected at most {MAX_WORDS}"))?;
            return Ok(Self { unit, min_words, length: Some(length), gap: Some(gap) });
        }
        for (key, value) in [("passages.length", length), ("passages.gap", gap)] {
            let fault = "is set, and works only with `passages.unit = \"word\"`: remove the key";
            require(value.is_none(), key, fault)?;
        }
        let min_words = min_words.unwrap_or(MIN_WORDS);
        let fault = format!("is {min_words}: expected 1 to {MAX_WORDS}");
        require((1..=MAX_WORDS).contains(&min_words), "passages.min_words", fault)?;
        Ok(Self { min_words: Some(min_words), ..self })
    }
}
