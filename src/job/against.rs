//! `[against]`: the documents that are known already.

use serde::{Deserialize, Serialize};

use super::source::Source;

/// `[against]`: the documents that are known already.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Against {
    /// The finished outputs that hold them, in the order in which they were made; none where a second source holds them.
    pub outputs: Vec<String>,
    /// The second source that holds them, if outputs do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Which documents are paired.
    pub pairs: NewPairs,
    /// What becomes of a document whose id is known already.
    pub same_id: SameId,
}

/// Which documents are paired where some are known already. Two known documents never are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewPairs {
    /// A new one with a known one, and two new ones.
    #[default]
    #[serde(rename = "new-old+new-new")]
    WithEachOther,
    /// A new one with a known one.
    #[serde(rename = "new-old")]
    WithKnown,
}

/// What becomes of a document whose id is known already.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SameId {
    /// The run ends with an error that names it.
    #[default]
    Error,
    /// It takes the place of the known document.
    Replace,
    /// It goes to `rejects` as `known_id`.
    Skip,
}
