//! The prefix join, which pairs documents that share one of their rarest shingles. Any two similar documents share such a shingle.
//!
//! It is the exact set-similarity join of Vernica, Carey and Li, *Efficient parallel set-similarity joins using MapReduce*, SIGMOD 2010.
//! Shingles are counted in the whole collection. The prefix of a document, its rarest shingles, becomes rows (shingle, doc). Rows with
//! the same shingle are joined. Pairs become candidates if they pass the filters on sizes and positions.
//!
//! If pairs are kept by their estimate, the signature replaces the set of shingles. Its elements are (index of the permutation, value).
//! An estimate of e corresponds to a Jaccard similarity of e / (2 - e) between two such sets.
//!
//! If pairs are kept by their containment, a shingle in the smaller document's prefix can be anywhere in the larger document. So rows of
//! prefixes are joined with rows of whole sets. Only shingles that are in some prefix are used.
//!
//! # Dense groups
//!
//! Some documents share a rare shingle with very many others, for example pages that consist mostly of a header. 54,000 such pages have
//! 1.5 billion pairs, which may be similar, but are useless. Therefore a few documents become *leaders*, and the others are only compared
//! with leaders:
//!
//! 1. A *round* chooses leaders among the documents without a leader. Documents with fewer rarer shingles come first, then documents with
//!    more shingles, then documents with smaller keys. The pairs of leaders are scored like all candidates. A document with a score then
//!    has a leader or is a leader, and is *settled*.
//! 2. The next round chooses twice as many leaders among the unsettled documents.
//! 3. After the last round, each unsettled document is compared with all other documents in its dense buckets.
//!
//! This guarantees, for any order of documents and any number of partitions:
//!
//! - Every pair has its exact score. A settled document has a pair with a leader.
//! - The only similar pairs that the result can lack are pairs of two settled documents that share only dense buckets.
//! - Clusters are connected by scored pairs. Two groups of settled documents can be two clusters, even if a missing pair would have
//!   connected them.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{max, sum};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};

use super::reference::mark;
use super::{among, columns, joined_by_sorting, needed, renamed};
use crate::error::Result;
use crate::job::{Measure, Score, ScoreBy};
use crate::kernel::measure::{jaccard_of, least_contained};
use crate::operator::bucket_pairs::PairRule;
use crate::operator::dense_pairs::{DensePairs, DensePass, OPEN, SETTLED, TRIED};
use crate::operator::prefixes::{Prefixes, TokenCounts, Tokens};
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::signature_set;

/// The sets of a join, and the minimum similarity of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Join {
    by: ScoreBy,
    measure: Measure,
    pub(crate) threshold: f64,
    elements: u64,
    pub(crate) bits: u32,
    /// See [`Prefixes::least`].
    least: u8,
}

/// There are `2^bits` counters, which take at most 16 MiB. Their number does not depend on the memory budget, so every budget gives the
/// same candidates.
const MIN_BITS: u32 = 10;
const MAX_BITS: u32 = 24;

impl Join {
    /// Creates the join that finds the pairs that `score` keeps. Signatures have `permutations` values, and all sets together have
    /// `elements`. In a run `against` reference documents, `elements` counts only the sets of new documents.
    pub fn new(score: &Score, permutations: usize, elements: u64, against: bool) -> Self {
        let threshold = match score.by {
            ScoreBy::Shingles => score.least_jaccard(),
            ScoreBy::Signature => {
                let values = permutations as u64;
                jaccard_of(least_contained(values, score.threshold), values, values)
            }
        };
        // With four counters per element, four out of five elements that occur once have a counter of their own.
        let bits = elements.saturating_mul(4).max(1).ilog2() + 1;
        let Score { by, measure, .. } = *score;
        let least = if against { 1 } else { 2 };
        Self { by, measure, threshold, elements, bits: bits.clamp(MIN_BITS, MAX_BITS), least }
    }

    /// Whether prefixes are joined with whole sets, because sets of any two sizes can be similar.
    pub(crate) fn meets_whole_sets(&self) -> bool {
        self.measure.takes_any_size()
    }

    /// The maximum number of rows in the join: the elements of all prefixes, or of all sets if prefixes are joined with whole sets.
    pub(crate) fn rows(&self) -> u64 {
        if self.meets_whole_sets() {
            return self.elements;
        }
        // A prefix omits the share of a set's elements that a similar set must contain.
        (self.elements as f64 * (1.0 - self.threshold)) as u64
    }

    fn prefixes(&self, tokens: Tokens) -> Operator {
        let Self { bits, threshold, least, .. } = *self;
        Operator::Prefixes(Prefixes { bits, threshold, tokens, least })
    }

    /// The set of each row (shingles, signature, ..) as `List<UInt64>`.
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

/// Counts the `tokens` (a list) in all rows with `2^bits` counters, of which each token uses `probes`.
pub(super) fn token_counts(rows: DataFrame, tokens: Expr, (bits, probes): (u32, u32)) -> Result<DataFrame> {
    let tokens = rows.select(vec![tokens.alias("tokens")])?;
    apply(Operator::TokenCounts(TokenCounts { bits, probes }), vec![tokens])
}

/// Keeps the `documents` (doc, ..) in hot or dense buckets. `members` (a, ..) contains their keys, without copies.
pub(crate) fn only(documents: DataFrame, members: DataFrame) -> Result<DataFrame> {
    among(documents, members.select(renamed([("a", "needed")]))?)
}

/// (shingle_count, ..) -> one row (elements: UInt64), the number of elements in all sets, or null if there are no documents.
pub(crate) fn elements(documents: DataFrame, score: &Score, permutations: usize) -> Result<DataFrame> {
    let elements = match score.by {
        ScoreBy::Shingles => col("shingle_count"),
        ScoreBy::Signature => lit(permutations as u64),
    };
    Ok(documents.aggregate(vec![], vec![sum(elements).alias("elements")])?)
}

/// (doc, shingles, signature, ..) -> the columns of `operator::prefixes::counter_schema`, the number of occurrences of each element.
///
/// # Errors
/// If a column is missing.
pub fn frequencies(documents: DataFrame, join: &Join) -> Result<DataFrame> {
    token_counts(documents, join.set(), (join.bits, 1))
}

/// (doc, shingles, signature, ..), the frequencies -> the columns of [`crate::operator::prefixes::prefix_schema`].
pub(crate) fn prefixes(documents: DataFrame, frequencies: DataFrame, join: &Join) -> Result<DataFrame> {
    apply(join.prefixes(Tokens::OfPrefix), vec![frequencies, join.sets(documents)?])
}

/// (doc, shingles, signature, ..), the frequencies -> distinct (a: UInt64, b: UInt64), a < b. The result contains every pair that reaches
/// the threshold.
///
/// With `dense`, a shingle in more than `dense` prefixes gives no pairs. Each document with such a shingle has one row (doc, null), and
/// [`leader_pairs`] finds its pairs. Two `reference` documents (doc, ..) are never a pair.
///
/// # Errors
/// If a column is missing.
pub fn candidates(
    documents: DataFrame,
    frequencies: DataFrame,
    join: &Join,
    dense: Option<u64>,
    reference: Option<DataFrame>,
) -> Result<DataFrame> {
    let threshold = join.threshold;
    let (rule, mut tokens) = if join.meets_whole_sets() {
        (PairRule::MinContainment { threshold }, tokens_of_prefixes(documents, frequencies, join)?)
    } else {
        (PairRule::MinJaccard { threshold, dense }, prefixes(documents, frequencies, join)?)
    };
    if let Some(reference) = reference {
        tokens = mark(tokens, reference)?;
    }
    Ok(apply(Operator::BucketPairs(rule), vec![tokens])?.distinct()?)
}

/// Like [`prefixes`], but returns every element of a document that is in the prefix of any document.
fn tokens_of_prefixes(documents: DataFrame, frequencies: DataFrame, join: &Join) -> Result<DataFrame> {
    let tokens = prefixes(documents.clone(), frequencies.clone(), join)?;
    let of_prefixes = token_counts(tokens, make_array(columns(["token"])), (join.bits, 1))?;
    apply(join.prefixes(Tokens::OfPrefixes), vec![frequencies, of_prefixes, join.sets(documents)?])
}

/// Returns the latest state of each document that took part in a round, as (reference, state), if there are rounds. Each of the `rounds`
/// contains the scored pairs (a, b, ..) and the leaders (a).
///
/// # Errors
/// If a column is missing.
pub fn states(rounds: Vec<(DataFrame, DataFrame)>) -> Result<Option<DataFrame>> {
    let with_state = |frame: DataFrame, column: &str, state: u32| {
        Ok(frame.select(vec![col(column).alias("reference"), lit(state).alias("state")])?)
    };
    let mut frames = Vec::new();
    for (scores, leaders) in rounds {
        frames.push(with_state(needed(scores.select(columns(["a", "b"]))?)?, "needed", SETTLED));
        frames.push(with_state(leaders, "a", TRIED));
    }
    let latest =
        |all: DataFrame| all.aggregate(columns(["reference"]), vec![max(col("state")).alias("state")]);
    Ok(super::union(frames)?.map(latest).transpose()?)
}

pub(crate) fn settled(states: DataFrame) -> Result<DataFrame> {
    Ok(states.filter(col("state").eq(lit(SETTLED)))?.select(renamed([("reference", "settled")]))?)
}

/// (token, doc, size, position), the states after the previous rounds -> distinct (a: UInt64, b: UInt64), a < b.
///
/// Returns the pairs that `pairs` asks for, and one row (leader, null) for each leader. Pairs come only from shingles in the prefixes of
/// more than `dense` documents. Two `reference` documents (doc, ..) are never a pair.
///
/// # Errors
/// If a column is missing.
pub fn leader_pairs(
    prefixes: DataFrame,
    states: Option<DataFrame>,
    threshold: f64,
    dense: u64,
    pairs: DensePairs,
    reference: Option<DataFrame>,
) -> Result<DataFrame> {
    let prefixes = match reference {
        Some(reference) => mark(prefixes, reference)?,
        None => prefixes.with_column("reference", lit(false))?,
    };
    let all = |state: Expr| {
        let prefix = columns(["token", "doc", "size", "position"]);
        [prefix, vec![state.alias("state"), col("reference")]].concat()
    };
    let rows = match states {
        None => prefixes.select(all(lit(OPEN)))?,
        Some(states) => states
            .select(renamed([("reference", "state_doc"), ("state", "known_state")]))?
            .join(prefixes, JoinType::Right, &["state_doc"], &["doc"], None)?
            .select(all(coalesce(vec![col("known_state"), lit(OPEN)])))?,
    };
    let found = apply(Operator::Dense(DensePass { threshold, dense, pairs }), vec![rows])?.distinct()?;
    Ok(joined_by_sorting(found))
}

/// Scores (a, b, ..) -> (a, b). Keeps the scores of two settled documents.
pub(crate) fn scores_of_settled(scores: DataFrame, settled: DataFrame) -> Result<DataFrame> {
    let end = |column| settled.clone().select(renamed([("settled", column)]));
    let scores = scores.select(columns(["a", "b"]))?;
    let scores = end("settled_a")?.join(scores, JoinType::RightSemi, &["settled_a"], &["a"], None)?;
    let scores = end("settled_b")?.join(scores, JoinType::RightSemi, &["settled_b"], &["b"], None)?;
    Ok(joined_by_sorting(scores))
}
