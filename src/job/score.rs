//! `[score]`: the rule that decides whether a candidate is a pair.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::candidates::Method;
use super::values::{Checked, require, wrong};
use crate::kernel::measure::Measure;

/// `[score]`: the rule that decides whether a candidate is a pair.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Score {
    /// The minimum similarity of a pair, in (0, 1].
    pub threshold: f64,
    /// The measure of similarity between two shingle sets. `jaccard` divides the common shingles by all shingles in either set, and
    /// `containment` by the size of the smaller set. `containment` needs a method that finds all pairs: `prefix` or `all`.
    pub measure: Measure,
    /// The similarity that must reach the threshold: the exact similarity of `shingles`, or the estimate from a `signature`.
    pub by: ScoreBy,
    /// Whether a candidate with an estimate below the threshold is dropped before the exact score.
    pub prefilter: bool,
    /// The minimum number of shingles that the documents of a pair share. If the smaller document has fewer shingles, the pair must share
    /// all of them. Short documents therefore have to share a larger part of their shingles.
    pub min_shared: u64,
}

impl Score {
    /// Returns the minimum Jaccard similarity of a pair at the threshold, for which bands are chosen.
    pub(crate) fn least_jaccard(&self) -> f64 {
        self.measure.least_jaccard(self.threshold).unwrap_or(self.threshold)
    }

    pub(crate) fn bound(&self) -> String {
        let (noun, threshold) = (self.measure.noun(), self.threshold);
        match (self.by, self.prefilter) {
            (ScoreBy::Signature, _) => format!("estimated {noun} {threshold}"),
            (ScoreBy::Shingles, true) => format!("{noun} and estimate {threshold}"),
            (ScoreBy::Shingles, false) => format!("{noun} {threshold}"),
        }
    }

    /// Returns whether `shared` common shingles are enough for a pair of documents with these sizes.
    pub(crate) fn has_min_shared(&self, shared: u64, sizes: [u64; 2]) -> bool {
        sizes.iter().any(|&size| shared >= size) || shared >= self.min_shared
    }

    pub(super) fn check(&self, method: Method) -> Checked<()> {
        let Self { threshold, measure, by, prefilter, .. } = *self;
        // The comparison also fails for NaN.
        let fault = format!("is {threshold}: expected a number over 0 and at most 1");
        require(threshold > 0.0 && threshold <= 1.0, "score.threshold", fault)?;
        if measure == Measure::Jaccard {
            return Ok(());
        }
        let other = format!(
            "with score.measure = \"{measure}\", and signatures estimate the Jaccard similarity of two sets, not their {}",
            measure.noun()
        );
        let fault = format!("is \"signature\" {other}: expected \"shingles\"");
        require(by != ScoreBy::Signature, "score.by", fault)?;
        require(!prefilter, "score.prefilter", format!("is true {other}: leave the key out"))?;
        let missed = method.misses_contained().filter(|_| measure.takes_any_size());
        missed.map_or(Ok(()), |(name, bands)| {
            let fault = format!(
                "is \"{name}\" with score.measure = \"{measure}\", and {bands} miss a short document in a long one, because their \
                 Jaccard similarity is low: expected \"prefix\", or \"all\""
            );
            wrong("candidates.method", fault)
        })
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

/// The similarity that must reach the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScoreBy {
    /// The exact Jaccard similarity of the shingle sets.
    Shingles,
    /// The share of equal values in the two signatures.
    Signature,
}
