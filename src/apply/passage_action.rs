//! What is done with passages that repeat inside documents, and the numbers of it.

use serde::{Deserialize, Serialize};

/// What is done with the occurrences of passages that do not stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Passages {
    /// Nothing.
    #[default]
    Leave,
    /// The documents are annotated with their places.
    Mark,
    /// They are cut out of the texts.
    Cut,
    /// They are cut out of the texts, and documents that become too short are removed.
    Drop {
        /// The fewest words that a document must have after the cut.
        min_words: u64,
    },
}

impl Passages {
    /// The default of `min_words`, as `min_doc_words` in the sentence deduplication of datatrove.
    pub const MIN_WORDS: u64 = 50;

    /// Whether texts change.
    pub(super) fn cuts(self) -> bool {
        matches!(self, Self::Cut | Self::Drop { .. })
    }
}

/// The numbers of what is cut or marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassageCounts {
    /// The occurrences of passages that do not stay, in documents that stay.
    pub spans: u64,
    /// The documents with such occurrences.
    pub documents: u64,
    /// Their words.
    pub words: u64,
    /// Their bytes in UTF-8.
    pub bytes: u64,
    /// Documents that are removed because too few words are left of them.
    pub too_short: u64,
}
