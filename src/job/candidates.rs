//! `[candidates]`: the pairs of documents that are compared. The stages of each method are in `pipeline::stage::search`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lsh::Lsh;
use super::values::{Checked, require};
use crate::error::{Error, Result};

/// `[candidates]`: the method that finds candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Candidates {
    /// `lsh`, `prefix` or `all`. With `[passages]`, also `none`, which compares no documents.
    pub method: Method,
    /// The compared pairs by `source.group`: `all`, or only pairs `within` a group or `across` two groups.
    pub compare: Compare,
}

impl Candidates {
    pub(super) fn check(&self, has_groups: bool, has_passages: bool) -> Checked<()> {
        require(
            self.method.compares() || has_passages,
            "candidates.method",
            "set to \"none\" compares no documents and only finds passages: add the section [passages], or expected another method",
        )?;
        require(
            self.compare == Compare::All || has_groups,
            "candidates.compare",
            "is set, and no document has a group: set `source.group` to the column of groups",
        )
    }
}

/// The pairs of documents that are compared, by their groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Every pair of documents.
    #[default]
    All,
    /// Pairs within a group.
    Within,
    /// Pairs of documents from two groups.
    Across,
}

/// The method that finds candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Two documents that share a bucket.
    #[default]
    Lsh,
    /// Every pair of documents. This method is exact, and its cost grows with the square of the number of documents.
    All,
    /// Two documents that share one of their rarest shingles. This method is exact, because all similar documents share such a shingle.
    Prefix,
    /// No pairs of documents. The job only finds passages.
    None,
}

/// The number of bytes that stages exchange per document and band: the key of the document, and its entry in a bucket.
const BAND_BYTES: u64 = 24;

/// The search that measurements on a sample run for a method. The samples are in memory.
pub(crate) enum SampleSearch {
    Buckets,
    Prefixes,
    EveryTwo,
}

/// Answers a question about a method. Each method must be named, so a new method without an answer does not compile.
macro_rules! answer {
    ($method:expr, yes: $yes:pat, no: $no:pat) => {
        match $method {
            $yes => true,
            $no => false,
        }
    };
}

/// The facts about a method. The rest of the program decides by these functions.
impl Method {
    pub(crate) fn compares(self) -> bool {
        answer!(self, yes: Method::Lsh | Method::All | Method::Prefix, no: Method::None)
    }

    /// Returns whether the search plans the stage `candidates`. Otherwise it plans the stage `scores`.
    pub(crate) fn has_candidates(self) -> bool {
        answer!(self, yes: Method::Lsh | Method::Prefix, no: Method::All | Method::None)
    }

    pub(crate) fn compares_every_two(self) -> bool {
        answer!(self, yes: Method::All, no: Method::Lsh | Method::Prefix | Method::None)
    }

    /// Returns whether candidates are documents that share a bucket. Bands and rows then determine the recall.
    pub(crate) fn uses_buckets(self) -> bool {
        answer!(self, yes: Method::Lsh, no: Method::All | Method::Prefix | Method::None)
    }

    /// Returns whether the prefix join pairs all documents.
    pub(crate) fn joins_all(self) -> bool {
        answer!(self, yes: Method::Prefix, no: Method::Lsh | Method::All | Method::None)
    }

    /// Returns whether all similar documents are candidates, if documents are compared.
    pub(crate) fn finds_all_pairs(self) -> bool {
        answer!(self, yes: Method::All | Method::Prefix | Method::None, no: Method::Lsh)
    }

    /// Returns the name of a method that misses a short document in a long one, and what misses it.
    pub(crate) fn misses_contained(self) -> Option<(&'static str, &'static str)> {
        match self {
            Method::Lsh => Some(("lsh", "bands")),
            Method::All | Method::Prefix | Method::None => None,
        }
    }

    /// Returns the search that measurements run on a sample. Fails with `Kind::Job` if the method cannot be measured.
    pub(crate) fn sample_search(self) -> Result<SampleSearch> {
        match self {
            Method::Lsh => Ok(SampleSearch::Buckets),
            Method::All => Ok(SampleSearch::EveryTwo),
            Method::Prefix => Ok(SampleSearch::Prefixes),
            Method::None => Err(Error::job(
                "`candidates.method` = \"none\" compares no documents, but this command does: leave the key out",
            )),
        }
    }

    /// Describes the candidates of a job in the words that pages show.
    pub(crate) fn describe(self, lsh: &Lsh) -> String {
        match self {
            Method::Lsh => lsh.bands_of_rows(),
            Method::All => "every two documents".into(),
            Method::Prefix => "documents that share one of their rarest shingles".into(),
            Method::None => "none: only passages are found".into(),
        }
    }

    /// Describes the steps from signatures to scores, for pages that show their time.
    pub(crate) fn describe_search(self) -> &'static str {
        match self {
            Method::Lsh => "through buckets and candidates to scores",
            Method::All => "to the scores of every two documents",
            Method::Prefix | Method::None => "through the rarest shingles and candidates to scores",
        }
    }

    /// Returns the number of bytes that stages exchange per document. `shingles` is the size of its shingles in bytes.
    pub(crate) fn bytes_between_stages(self, lsh: &Lsh, shingles: u64) -> u64 {
        match self {
            Method::Lsh => BAND_BYTES * lsh.bands as u64,
            Method::All | Method::Prefix => shingles,
            Method::None => 0,
        }
    }
}
