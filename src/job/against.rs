//! `[against]`: the reference documents, which new documents are compared with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::source::Source;

/// `[against]`: the reference documents, which new documents are compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "AgainstKeys", into = "AgainstKeys")]
pub struct Against {
    /// The place of the reference documents.
    pub reference: Reference,
    /// Which documents are paired.
    pub pairs: NewPairs,
}

/// The place of reference documents.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// In finished outputs.
    Outputs {
        /// Their folders or URL prefixes, in the order in which they were made.
        urls: Vec<String>,
        /// What happens to a new document that has the id of a reference document.
        same_id: SameId,
    },
    /// In a second source. An id may be in both sources.
    Source(Box<Source>),
}

/// Which documents are paired. Two reference documents never are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum NewPairs {
    /// A new document with a reference document, and two new ones.
    #[default]
    #[serde(rename = "new-old+new-new")]
    WithEachOther,
    /// A new document with a reference document.
    #[serde(rename = "new-old")]
    WithReference,
}

/// What happens to a new document that has the id of a reference document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SameId {
    /// The run ends with an error that names it.
    #[default]
    Error,
    /// It replaces the reference document.
    Replace,
    /// It goes to `rejects` as `reference_id`.
    Skip,
}

/// The section in the job of a manifest.
#[derive(Serialize, Deserialize)]
struct AgainstKeys {
    outputs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Box<Source>>,
    pairs: NewPairs,
    same_id: SameId,
}

impl From<AgainstKeys> for Against {
    fn from(AgainstKeys { outputs, source, pairs, same_id }: AgainstKeys) -> Self {
        let reference = match source {
            Some(source) => Reference::Source(source),
            None => Reference::Outputs { urls: outputs, same_id },
        };
        Against { reference, pairs }
    }
}

impl From<Against> for AgainstKeys {
    fn from(Against { reference, pairs }: Against) -> Self {
        match reference {
            Reference::Outputs { urls, same_id } => {
                AgainstKeys { outputs: urls, source: None, pairs, same_id }
            }
            Reference::Source(source) => {
                AgainstKeys { outputs: Vec::new(), source: Some(source), pairs, same_id: SameId::default() }
            }
        }
    }
}
