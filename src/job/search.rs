//! `[lsh]`, `[candidates]` and `[score]`: how candidates are found, and which of them are pairs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernel::lsh_bands::BucketHash;
use crate::kernel::measure::Measure;

/// `[lsh]`: how a signature becomes buckets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lsh {
    /// Bands, b; `bands * rows <= permutations`.
    pub bands: usize,
    /// Rows in a band, r.
    pub rows: usize,
    /// The origin of b and r.
    pub choice: Choice,
    /// The hash of a band.
    pub bucket_hash: BucketHash,
    /// Buckets of the one table that all bands share, at least 1; `None` if each band has buckets of its own.
    pub table_size: Option<u64>,
    /// Documents in a bucket, at most, for every two of them to be candidates; those of larger buckets are joined as by
    /// [`Method::Prefix`], which makes candidates of all of them that are similar enough; of those in groups that are larger
    /// than [`Output::max_expand`](super::Output::max_expand), with a leader.
    pub hot_bucket: u64,
}

/// The rows of a band from which on values of 16 bits make no candidates by chance.
///
/// With r rows, two documents that have nothing in common share a bucket of a band once in 2^(16 r). Among a billion documents
/// those are 75 pairs for every million of them with 42 bands of 3 rows, and 7 for every single one with 64 bands of 2 rows.
/// Those that agree in all rows but one meet by chance too: at a similarity of J, r (1 - J) / 2^16 J more become candidates.
pub(crate) const ROWS_OF_16_BITS: usize = 3;

impl Lsh {
    /// Whether documents share buckets by chance if values have 16 bits.
    pub(crate) fn has_few_rows(&self) -> bool {
        self.rows < ROWS_OF_16_BITS
    }

    /// Whether values keep 32 bits unless the job says otherwise: with few rows, and where buckets are those of other programs.
    pub(crate) fn needs_32_bits(&self) -> bool {
        self.has_few_rows() || self.bucket_hash != BucketHash::Xxh3 || self.table_size.is_some()
    }
}

/// The origin of b and r.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Given in the job.
    Given,
    /// `b * r = permutations`, (1/b)^(1/r) nearest the threshold.
    Nearest,
    /// The least area of false positives and false negatives under the S-curve.
    Balanced,
    /// `b * r = permutations`, (1/b)^(1/r) at or just under the threshold.
    Recall,
    /// `b * r = permutations`, (1/b)^(1/r) at or just over the threshold.
    Precision,
    /// The largest r, then the fewest b, whose recall at the threshold reaches this share.
    TargetRecall(f64),
}

/// `[candidates]`: how candidates are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Candidates {
    /// `lsh`, `prefix`, `all`, or with `[passages]` `none`, which compares no documents.
    pub method: Method,
    /// Which documents are compared, by `source.group`: `all`, those of one group (`within`) or of two groups (`across`).
    pub compare: Compare,
}

/// Which documents are compared, by their groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Compare {
    /// Every two.
    #[default]
    All,
    /// Two of one group.
    Within,
    /// Two of two groups.
    Across,
}

/// How candidates are found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Two documents that share a bucket.
    #[default]
    Lsh,
    /// Every two documents: exact, and quadratic.
    All,
    /// Two documents that share one of their rarest shingles, which all similar ones do: exact.
    Prefix,
    /// No two documents: only passages are found.
    None,
}

/// `[score]`: what makes a candidate a pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Score {
    /// The least similarity of a pair, in (0, 1].
    pub threshold: f64,
    /// How two shingle sets are measured: `jaccard` (shared shingles over all shingles of both) or `containment` (shared shingles
    /// over those of the smaller set), which needs a method that finds all pairs: `prefix` or `all`.
    pub measure: Measure,
    /// Which similarity the threshold is for: `shingles` (exact) or `signature` (estimate).
    pub by: ScoreBy,
    /// Whether a candidate whose estimate is under the threshold is dropped before the exact score.
    pub prefilter: bool,
    /// The fewest shingles that the two documents of a pair share: all of the smaller one's, if it has fewer. So a short document
    /// has to share a larger part of itself.
    pub min_shared: u64,
}

impl Score {
    /// The Jaccard similarity for which bands are chosen: that of a pair at the threshold, at least.
    pub(crate) fn least_jaccard(&self) -> f64 {
        self.measure.least_jaccard(self.threshold).unwrap_or(self.threshold)
    }

    /// What a pair reaches, as in `similarity 0.8`.
    pub(crate) fn bound(&self) -> String {
        let (noun, threshold) = (self.measure.noun(), self.threshold);
        match (self.by, self.prefilter) {
            (ScoreBy::Signature, _) => format!("estimated {noun} {threshold}"),
            (ScoreBy::Shingles, true) => format!("{noun} and estimate {threshold}"),
            (ScoreBy::Shingles, false) => format!("{noun} {threshold}"),
        }
    }

    /// Whether documents of these sizes that have `shared` shingles in common share as many as a pair must.
    pub(crate) fn has_min_shared(&self, shared: u64, sizes: [u64; 2]) -> bool {
        sizes.iter().any(|&size| shared >= size) || shared >= self.min_shared
    }
}

impl Default for Score {
    fn default() -> Self {
        Self {
            threshold: 0.8,
            measure: Measure::Jaccard,
            by: ScoreBy::Shingles,
            prefilter: false,
            min_shared: 0,
        }
    }
}

/// Which similarity the threshold is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreBy {
    /// The exact Jaccard similarity of the shingle sets.
    Shingles,
    /// The share of equal values in the two signatures.
    Signature,
}
