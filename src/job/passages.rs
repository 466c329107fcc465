//! `[passages]`: what counts as a passage that repeats inside documents.

use serde::{Deserialize, Serialize};

/// `[passages]`: what counts as a passage that repeats inside documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Passages {
    /// Whole lines, sentences or paragraphs.
    Units {
        /// The parts into which texts are cut.
        unit: TextUnit,
        /// The fewest words of a passage, at least 1.
        min_words: usize,
    },
    /// Runs of words.
    Words {
        /// The fewest words of a passage, at least 2.
        length: usize,
        /// The most other words between two runs that are joined.
        gap: usize,
    },
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextUnit {
    /// A line, up to the newline.
    Line,
    /// A sentence by Unicode's rules (UAX #29), which the end of a line ends too.
    Sentence,
    /// Lines up to a blank one.
    Paragraph,
}

impl TextUnit {
    /// Its name in a job file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            TextUnit::Line => "line",
            TextUnit::Sentence => "sentence",
            TextUnit::Paragraph => "paragraph",
        }
    }
}
