//! `[passages]`: what counts as a passage that repeats inside documents.

use serde::{Deserialize, Serialize};

use crate::kernel::text::units::TextUnit;

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
