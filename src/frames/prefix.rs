//! prefix: every two documents that share one of their rarest shingles, which all similar ones do.
//!
//! The exact set-similarity join of Vernica, Carey and Li, *Efficient parallel set-similarity joins using MapReduce*,
//! SIGMOD 2010: shingles are counted over the collection, each document's prefix becomes rows (shingle, doc), rows with
//! the same shingle are joined, and the pairs that pass the filters on sizes and positions are candidates.
//!
//! If pairs are kept by their estimate, a signature replaces the shingle set: its elements are (number of the
//! permutation, value), and an estimate of e is a Jaccard similarity of e / (2 - e) of two such sets.
//!
//! If pairs are kept by their containment, the larger document may have the shingle of the smaller one's prefix
//! anywhere: rows (shingle, doc) of prefixes are joined with those of whole sets, restricted to shingles of prefixes.

use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};

use super::mark::mark;
use super::sketches::among;
use crate::error::Result;
use crate::job::{Measure, Score, ScoreBy};
use crate::kernel::jaccard::{jaccard_of, least_contained};
use crate::operator::bucket_pairs::PairRule;
use crate::operator::prefixes::{Prefixes, Tokens};
use crate::operator::token_counts::TokenCounts;
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::signature_set;

/// The sets of a join, and the least similarity of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Join {
    by: ScoreBy,
    measure: Measure,
    threshold: f64,
    elements: u64,
    bits: u32,
    /// See [`Prefixes::least`].
    least: u8,
}

impl Join {
    /// The join for the pairs that `score` keeps, of signatures of `permutations` values, over sets of `elements` in
    /// all. In a run `against` reference documents these are only the new documents'.
    pub fn new(score: &Score, permutations: usize, elements: u64, against: bool) -> Self {
        let threshold = match score.by {
            ScoreBy::Shingles => score.least_jaccard(),
            ScoreBy::Signature => {
                let values = permutations as u64;
                jaccard_of(least_contained(values, score.threshold), values, values)
            }
        };
        // With four counters for each element, four in five of the elements that occur once have a counter of their
        // own.
        let bits = elements.saturating_mul(4).max(1).ilog2() + 1;
        let Score { by, measure, .. } = *score;
        let least = if against { 1 } else { 2 };
        Self { by, measure, threshold, elements, bits: bits.clamp(MIN_BITS, MAX_BITS), least }
    }

    /// Whether prefixes are joined with whole sets instead of prefixes, because similar sets may be of any size.
    pub(crate) fn meets_whole_sets(&self) -> bool {
        self.measure.takes_any_size()
    }

    /// The counters of elements are `2^bits`.
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// The least similarity of the pairs of joined sets.
    pub(crate) fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The most rows of the join: the elements of all prefixes, or of whole sets if prefixes are joined with these.
    pub(crate) fn rows(&self) -> u64 {
        match self.meets_whole_sets() {
            // A prefix leaves out the share of a set's elements that a similar one must have.
            false => (self.elements as f64 * (1.0 - self.threshold)) as u64,
            true => self.elements,
        }
    }

    fn prefixes(&self, tokens: Tokens) -> Operator {
        let Self { bits, threshold, least, .. } = *self;
        Operator::Prefixes(Prefixes { bits, threshold, tokens, least })
    }

    /// The set of a row (shingles, signature, ..): `List<UInt64>`.
    pub(crate) fn set(&self) -> Expr {
        match self.by {
            ScoreBy::Shingles => col("shingles"),
            ScoreBy::Signature => signature_set(col("signature")),
        }
    }

    /// (doc, shingles, signature, ..) -> (doc, set: `List<UInt64>`).
    fn sets(&self, documents: DataFrame) -> Result<DataFrame> {
        Ok(documents.select(vec![col("doc"), self.set().alias("set")])?)
    }
}

/// There are `2^bits` counters for any memory, so that candidates are the same for every budget: 16 MiB at most.
const MIN_BITS: u32 = 10;
const MAX_BITS: u32 = 24;

/// The documents of hot or dense buckets: the rows of (doc, ..) whose keys are in `members` (a, ..). Such buckets have
/// only documents without copies.
pub(crate) fn only(documents: DataFrame, members: DataFrame) -> Result<DataFrame> {
    among(documents, members.select(vec![col("a").alias("needed")])?)
}

/// The number of elements in all sets: (shingle_count, ..) -> one row (elements: UInt64), null for no documents.
pub(crate) fn elements(documents: DataFrame, score: &Score, permutations: usize) -> Result<DataFrame> {
    let elements = match score.by {
        ScoreBy::Shingles => col("shingle_count"),
        ScoreBy::Signature => lit(permutations as u64),
    };
    Ok(documents.aggregate(vec![], vec![sum(elements).alias("elements")])?)
}

/// How often each shingle occurs: (doc, shingles, signature, ..) -> the columns of
/// `operator::token_counts::schema`.
///
/// # Errors
/// When the frame lacks its columns.
pub fn frequencies(documents: DataFrame, join: &Join) -> Result<DataFrame> {
    let sets = join.sets(documents)?.select(vec![col("set")])?;
    apply(Operator::TokenCounts(TokenCounts { bits: join.bits, probes: 1 }), vec![sets])
}

/// (doc, shingles, signature, ..), the frequencies -> the columns of [`crate::operator::prefixes::schema`].
pub(crate) fn prefixes(documents: DataFrame, frequencies: DataFrame, join: &Join) -> Result<DataFrame> {
    apply(join.prefixes(Tokens::OfPrefix), vec![frequencies, join.sets(documents)?])
}

/// (doc, shingles, signature, ..), the frequencies -> distinct (a: UInt64, b: UInt64), a < b: among others, every pair
/// that reaches the threshold.
///
/// With `dense`, a shingle that is in the prefixes of more documents than that makes no pair. Each of these documents
/// has one row (doc, null) instead, and [`super::leaders`] finds its pairs.
///
/// Two of the reference documents `reference` (doc, ..) are never a pair.
///
/// # Errors
/// When a frame lacks its columns.
pub fn candidates(
    documents: DataFrame,
    frequencies: DataFrame,
    join: &Join,
    dense: Option<u64>,
    reference: Option<DataFrame>,
) -> Result<DataFrame> {
    let threshold = join.threshold;
    let (rule, mut tokens) = match join.meets_whole_sets() {
        false => (PairRule::MinJaccard { threshold, dense }, prefixes(documents, frequencies, join)?),
        true => (PairRule::MinContainment { threshold }, tokens_of_prefixes(documents, frequencies, join)?),
    };
    if let Some(reference) = reference {
        tokens = mark(tokens, reference)?;
    }
    Ok(apply(Operator::BucketPairs(rule), vec![tokens])?.distinct()?)
}

/// The same columns as [`prefixes`], with every element of a document that is in the prefix of any document.
fn tokens_of_prefixes(documents: DataFrame, frequencies: DataFrame, join: &Join) -> Result<DataFrame> {
    let tokens = prefixes(documents.clone(), frequencies.clone(), join)?;
    let tokens = tokens.select(vec![make_array(vec![col("token")]).alias("tokens")])?;
    let of_prefixes = apply(Operator::TokenCounts(TokenCounts { bits: join.bits, probes: 1 }), vec![tokens])?;
    apply(join.prefixes(Tokens::OfPrefixes), vec![frequencies, of_prefixes, join.sets(documents)?])
}
