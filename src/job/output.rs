//! `[output]`: the location and the columns of the tables.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clusters::ClusterMethod;
use super::source::Source;
use super::values::{Checked, require, wrong};
use crate::address;
use crate::kernel::signature::Bits;

/// `[output]`: the location and the columns of the tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// Folder or URL prefix of the tables. Required.
    pub url: String,
    /// The pairs within a group of identical documents: `all` pairs, or a `star` that pairs the smallest id with each other document.
    #[serde(default)]
    pub expand: Expand,
    /// With `all`, larger groups of identical documents are written as stars. With either value, if more documents than this share one of
    /// their rarest shingles, each is paired only with a leader. For example, pages that consist mostly of a common header share such a
    /// shingle. 0 writes all pairs, regardless of their number.
    #[serde(default = "max_expand")]
    pub max_expand: u64,
    /// The maximum number of pairs. A run with more pairs ends before it writes them, with exit code 4 and advice.
    #[serde(default = "max_pairs")]
    pub max_pairs: u64,
    /// The parts of each sketch that the table `documents` keeps: `signatures`, `shingles` (with signatures), or `none`.
    #[serde(default)]
    pub keep: Keep,
    /// Whether `pairs` contains the longest common passage of the two texts, as it occurs in each text, in the columns `passage_a` and
    /// `passage_b`. The texts of pairs are read again to find it.
    #[serde(default)]
    pub pair_passages: bool,
    /// The format of the tables: folders of `parquet` files, or `delta` tables that consist of the same files.
    #[serde(default)]
    pub tables: TableFormat,
}

fn max_expand() -> u64 {
    1000
}

fn max_pairs() -> u64 {
    1_000_000_000
}

impl Output {
    /// Checks the section for a job with this source.
    pub(super) fn check(&self, source: &Source) -> Checked<()> {
        const URL: &str = "output.url";
        let url = &self.url;
        let fault = "is empty: expected a folder or a URL prefix, as in \"out/books/\"";
        require(!url.trim().is_empty(), URL, fault)?;
        address::check(url).or_else(|fault| wrong(URL, fault))?;
        // In some formats, a source includes all files below its folder, so the next run would read the tables of this run.
        let walks = source.format.rules().takes_in_outputs;
        let is_inside = |folder: &str| {
            url.strip_prefix(folder.trim_end_matches('/'))
                .is_some_and(|rest| rest.trim_end_matches('/').is_empty() || walks && rest.starts_with('/'))
        };
        for folder in &source.urls {
            let fault = format!("is {url:?}, inside the source {folder:?}: expected a folder outside of it");
            require(!is_inside(folder), URL, fault)?;
        }
        require(
            self.max_pairs > 0,
            "output.max_pairs",
            "is 0: expected 1 or more: it is the largest number of pairs that a run may write",
        )
    }

    /// Returns the maximum size of a group of identical documents for which all pairs are written, or `None` if there is no limit.
    pub fn most_expanded(&self) -> Option<u64> {
        (self.max_expand > 0).then_some(self.max_expand)
    }
}

/// The settings that determine the optional columns in the tables of an output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Columns {
    /// The parts of sketches that `documents` keeps.
    pub keep: Keep,
    /// The number of bits per value of a signature.
    pub bits: Bits,
    /// Whether `documents` contains the tags of buckets.
    pub bucket_tags: bool,
    /// Whether `pairs` contains passages.
    pub pair_passages: bool,
    /// Whether `pairs` and `clusters` have group columns.
    pub groups: bool,
    /// The cluster method.
    pub clusters: ClusterMethod,
    /// Whether `pairs` contains decisions.
    pub decisions: bool,
}

/// The parts of sketches in the table `documents`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Signatures, which `neighbors` uses. If shingles are needed, they are cut from the source again.
    #[default]
    Signatures,
    /// Signatures and shingles. Later runs then need not read the texts again.
    Shingles,
    /// Neither signatures nor shingles.
    None,
}

impl Keep {
    /// Returns whether signatures are kept.
    pub fn signatures(self) -> bool {
        self != Keep::None
    }

    /// Returns whether shingles are kept.
    pub fn shingles(self) -> bool {
        self == Keep::Shingles
    }
}

/// The format of the tables. Both formats contain the same Parquet files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TableFormat {
    /// Folders of Parquet files. The manifest lists the files.
    #[default]
    #[value(help = "Files")]
    Parquet,
    /// Delta tables: each folder also contains a log that lists the same files.
    #[value(help = "Delta tables of the files, which must be Parquet")]
    Delta,
}

/// The pairs among documents with the same shingle set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Expand {
    /// Every pair in the group.
    #[default]
    All,
    /// The smallest id with each of the other documents.
    Star,
}
