//! `[output]`: where the tables go, and which columns they have.

use serde::{Deserialize, Serialize};

use super::{ClusterMethod, file};

/// `[output]`: where the tables go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The folder or URL prefix of the tables.
    pub url: String,
    /// How groups of identical documents are written.
    pub expand: Expand,
    /// Under [`Expand::All`], groups of more identical documents than this are written as stars; and where more documents
    /// than this share one of their rarest shingles, each is paired with a leader instead of all others. 0 is no limit.
    pub max_expand: u64,
    /// What `documents` keeps of each sketch.
    pub keep: Keep,
    /// A run that would write more pairs than this ends before it does.
    #[serde(default = "file::Output::max_pairs")]
    pub max_pairs: u64,
    /// Whether `pairs` has the longest common passages.
    #[serde(default)]
    pub passages: bool,
    /// What the tables are besides Parquet files.
    #[serde(default)]
    pub tables: Tables,
}

impl Output {
    /// Documents of a group, at most, for all of its pairs to be written; none for any number.
    pub fn most_expanded(&self) -> Option<u64> {
        (self.max_expand > 0).then_some(self.max_expand)
    }
}

/// Which columns the tables of an output have, beside those that all outputs have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Columns {
    /// What `documents` keeps of the sketches.
    pub keep: Keep,
    /// Whether `pairs` has passages.
    pub passages: bool,
    /// Whether `pairs` and `clusters` tell of groups.
    pub groups: bool,
    /// What makes the clusters, where `clusters` says how well documents are connected with their representative.
    pub represented: Option<ClusterMethod>,
}

/// What the table `documents` keeps of the sketches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Signatures, by which neighbors are found. Shingles, if needed, are cut from the source again.
    #[default]
    Signatures,
    /// Signatures and shingles. A run then reads the texts once.
    Shingles,
    /// Neither.
    None,
}

impl Keep {
    /// Whether signatures are kept.
    pub fn signatures(self) -> bool {
        self != Keep::None
    }

    /// Whether shingles are kept.
    pub fn shingles(self) -> bool {
        self == Keep::Shingles
    }
}

/// What the folders of the tables are. The Parquet files are the same either way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tables {
    /// Folders of Parquet files, which the manifest names.
    #[default]
    Parquet,
    /// Delta tables too: each folder has a log that names the same files.
    Delta,
}

/// How groups of documents with the same shingle set are written to `pairs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expand {
    /// Every pair of the group.
    All,
    /// The smallest id with each of the others.
    Star,
}
