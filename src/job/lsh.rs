//! `[lsh]`: the settings for computing buckets from a signature.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{Checked, require, wrong};
use crate::error::counts::counted;
use crate::kernel::lsh_bands::{BucketHash, Buckets};

/// The default of `target_recall`. It is used if `[lsh]` sets neither bands nor a rule.
pub const DEFAULT_TARGET_RECALL: f64 = 0.99;

/// The default of `hot_bucket`. In larger buckets, a join of documents by their rarest shingles compares fewer pairs.
pub const HOT_BUCKET: u64 = 256;

/// `[lsh]`: the settings for computing buckets from a signature. Set `bands` and `rows`, or `choose`, or `target_recall`. Without any of
/// them, `target_recall` is [`DEFAULT_TARGET_RECALL`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LshSection {
    /// The number of bands, b.
    pub bands: Option<usize>,
    /// The number of rows per band, r.
    pub rows: Option<usize>,
    /// A rule that chooses bands and rows for the threshold: `nearest`, `balanced`, `recall` or `precision`.
    pub choose: Option<BandRule>,
    /// The share of pairs at the threshold that the bands must find, in (0, 1).
    pub target_recall: Option<f64>,
    /// The hash that maps a band to a bucket: `xxh3`, `crc32` or `crc32-tuple`.
    pub bucket_hash: BucketHash,
    /// The number of buckets in a table that all bands share. Default: each band has its own unlimited buckets.
    pub table_size: Option<u64>,
    /// The maximum size of a bucket in which every two documents are candidates. Default: [`HOT_BUCKET`].
    pub hot_bucket: Option<u64>,
}

/// A rule that chooses bands and rows for the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BandRule {
    /// `b * r = permutations`, with (1/b)^(1/r) nearest to the threshold.
    Nearest,
    /// The minimum area of false positives and false negatives under the S-curve.
    Balanced,
    /// `b * r = permutations`, with (1/b)^(1/r) at or just under the threshold.
    Recall,
    /// `b * r = permutations`, with (1/b)^(1/r) at or just over the threshold.
    Precision,
}

/// The way in which bands and rows are determined.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The job gives bands and rows.
    Given,
    /// A rule chooses bands and rows.
    Rule(BandRule),
    /// The program chooses the largest r, then the smallest b, with at least this recall at the threshold.
    TargetRecall(f64),
}

impl LshSection {
    /// Returns the way in which the section chooses bands and rows. Refuses a section with several ways.
    pub(super) fn choice(&self) -> Checked<Choice> {
        const EITHER: &str = "expected bands and rows, or choose, or target_recall, or none of them";
        let together = |key, other| wrong(key, format!("is set together with {other}: {EITHER}"));
        match (self.bands, self.rows, self.choose, self.target_recall) {
            (Some(_), None, ..) => wrong("lsh.bands", format!("is set without `lsh.rows`: {EITHER}")),
            (None, Some(_), ..) => wrong("lsh.rows", format!("is set without `lsh.bands`: {EITHER}")),
            (Some(_), Some(_), Some(_), _) => together("lsh.choose", "`lsh.bands` and `lsh.rows`"),
            (Some(_), Some(_), _, Some(_)) => together("lsh.target_recall", "`lsh.bands` and `lsh.rows`"),
            (Some(_), Some(_), None, None) => Ok(Choice::Given),
            (None, None, Some(_), Some(_)) => together("lsh.target_recall", "`lsh.choose`"),
            (None, None, Some(rule), None) => Ok(Choice::Rule(rule)),
            (None, None, None, target) => {
                let target = target.unwrap_or(DEFAULT_TARGET_RECALL);
                let fault = format!("is {target}: expected a number over 0 and under 1");
                require(target > 0.0 && target < 1.0, "lsh.target_recall", fault)?;
                Ok(Choice::TargetRecall(target))
            }
        }
    }

    /// Resolves the section. `chosen` contains bands and rows if the section does not give them.
    pub(super) fn with_bands(&self, choice: Choice, chosen: Option<(usize, usize)>) -> Lsh {
        let (bands, rows) = chosen.unwrap_or((self.bands.unwrap_or(0), self.rows.unwrap_or(0)));
        let hot_bucket = self.hot_bucket.unwrap_or(HOT_BUCKET);
        let Self { bucket_hash, table_size, .. } = *self;
        Lsh { bands, rows, choice, bucket_hash, table_size, hot_bucket }
    }
}

/// `[lsh]`: the settings for computing buckets from a signature.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lsh {
    /// The number of bands, b; `bands * rows <= permutations`.
    pub bands: usize,
    /// The number of rows per band, r.
    pub rows: usize,
    /// The way in which b and r were determined.
    pub choice: Choice,
    /// The hash that maps a band to a bucket.
    pub bucket_hash: BucketHash,
    /// The number of buckets in the table that all bands share, at least 1. `None` means that each band has its own buckets.
    pub table_size: Option<u64>,
    /// The maximum size of a bucket in which every two documents are candidates. Documents in larger buckets are joined by their rarest
    /// shingles, as in [`Method::Prefix`](super::Method::Prefix). In groups larger than [`Output::max_expand`](super::Output::max_expand),
    /// each document is a candidate only with a leader.
    pub hot_bucket: u64,
}

/// The minimum number of rows per band at which 16-bit values make few candidates by chance.
///
/// With r rows, two unrelated documents share a bucket in a band with probability 1 / 2^(16 r). Among a billion documents, 42 bands of 3
/// rows make 75 candidates by chance per million documents. 64 bands of 2 rows make 7 per document. Two documents that agree in all rows of
/// a band except one can also share its bucket by chance. At similarity J, this adds a share of r (1 - J) / (2^16 J) to the candidates.
pub(crate) const ROWS_OF_16_BITS: usize = 3;

impl Lsh {
    /// Returns the settings of the buckets.
    pub(crate) fn buckets(&self) -> Buckets {
        Buckets { bands: self.bands, rows: self.rows, hash: self.bucket_hash, table_size: self.table_size }
    }

    /// Returns the numbers of bands and rows in words, as in `42 bands of 3 rows`.
    pub(crate) fn bands_of_rows(&self) -> String {
        format!("{} of {}", counted(self.bands as u64, "band"), counted(self.rows as u64, "row"))
    }

    /// Returns whether bands have so few rows that documents with 16-bit values share buckets by chance.
    pub(crate) fn has_few_rows(&self) -> bool {
        self.rows < ROWS_OF_16_BITS
    }

    /// Returns whether values have 32 bits by default: if bands have few rows, or if buckets are defined as in other programs.
    pub(crate) fn needs_32_bits(&self) -> bool {
        self.has_few_rows() || self.bucket_hash != BucketHash::Xxh3 || self.table_size.is_some()
    }

    pub(super) fn check(&self, permutations: usize) -> Checked<()> {
        let Self { bands, rows, table_size, hot_bucket, .. } = *self;
        require(bands > 0, "lsh.bands", "is 0: expected 1 or more")?;
        require(rows > 0, "lsh.rows", "is 0: expected 1 or more")?;
        require(
            bands.checked_mul(rows).is_some_and(|used| used <= permutations),
            "lsh.bands",
            format!(
                "times `lsh.rows` is {bands} * {rows}: expected at most {permutations}, the number of \
                 `minhash.permutations`"
            ),
        )?;
        require(
            table_size != Some(0),
            "lsh.table_size",
            "is 0: expected 1 or more, or no key for an unlimited number of buckets",
        )?;
        require(
            hot_bucket >= 2,
            "lsh.hot_bucket",
            format!(
                "is {hot_bucket}: expected 2 or more: in larger buckets, not every two documents are compared"
            ),
        )
    }
}
