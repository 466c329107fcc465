//! dense: documents that share one of their rarest shingles with very many others, as pages do that are mostly header.
//!
//! All pairs of such documents may be true but useless: 54,000 pages have 1.5 billion. So a few of them are leaders,
//! chosen in a fixed order, and each other one is compared with the leaders:
//!
//! 1. A *round* chooses leaders among the documents without one: those with the fewest rarer shingles come first, of
//!    these those with the most shingles, and of these those with the least keys. Their pairs are scored like all
//!    candidates. A document with a score then has a leader, or is one, and is *settled*.
//! 2. The next round chooses twice as many leaders among the remaining documents.
//! 3. After the last round, each remaining document is compared with all others of its dense buckets.
//!
//! This guarantees, for any order of the documents and any number of partitions:
//!
//! - Every pair has its exact score. A settled document has a pair with a leader.
//! - No pair is missing if one of its documents is not settled. A pair of two settled documents may be missing, unless
//!   they also share a bucket that is not dense.
//! - Clusters are connected by pairs that were scored. Two groups of settled documents may be two clusters, although
//!   some of the missing pairs would have connected them.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::max;
use datafusion::prelude::{DataFrame, col, lit};

use super::joined_by_sorting;
use super::mark::mark;
use super::scores::needed;
use crate::error::Result;
use crate::operator::dense_pairs::{DensePairs, DensePass, OPEN, SETTLED, TRIED};
use crate::operator::{Operator, apply};

/// The states after some rounds: the scores of the leaders' pairs (a, b, ..) and the leaders (a) of each ->
/// (settled_doc, state), one row per document that was in one of them; `None` for no rounds.
///
/// # Errors
/// When a frame lacks its columns.
pub fn states(rounds: Vec<(DataFrame, DataFrame)>) -> Result<Option<DataFrame>> {
    let mut states: Option<DataFrame> = None;
    for (scores, leaders) in rounds {
        let of = |frame: DataFrame, column: &str, state: u32| {
            frame.select(vec![col(column).alias("reference"), lit(state).alias("state")])
        };
        let settled = of(needed(scores.select(vec![col("a"), col("b")])?)?, "needed", SETTLED)?;
        let round = settled.union(of(leaders, "a", TRIED)?)?;
        states = Some(match states {
            Some(states) => states.union(round)?,
            None => round,
        });
    }
    let latest =
        |states: DataFrame| states.aggregate(vec![col("reference")], vec![max(col("state")).alias("state")]);
    Ok(states.map(latest).transpose()?)
}

/// The documents that are settled: what [`states`] returns -> (settled).
pub(crate) fn settled(states: DataFrame) -> Result<DataFrame> {
    Ok(states.filter(col("state").eq(lit(SETTLED)))?.select(vec![col("reference").alias("settled")])?)
}

/// (token, doc, size, position), the states so far -> distinct (a: UInt64, b: UInt64), a < b: the pairs of `pairs`, and
/// for each leader a row (leader, null).
///
/// A shingle that is in the prefixes of more than `dense` documents makes a dense bucket; others yield nothing. Two of
/// the reference documents `reference` (doc, ..) are never a pair.
///
/// # Errors
/// When a frame lacks its columns.
pub fn pairs(
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
    let columns =
        |state| vec![col("token"), col("doc"), col("size"), col("position"), state, col("reference")];
    let rows = match states {
        None => prefixes.select(columns(lit(OPEN).alias("state")))?,
        Some(states) => states
            .select(vec![col("reference").alias("state_doc"), col("state").alias("known_state")])?
            .join(prefixes, JoinType::Right, &["state_doc"], &["doc"], None)?
            .select(columns(coalesce(vec![col("known_state"), lit(OPEN)]).alias("state")))?,
    };
    let found = apply(Operator::Dense(DensePass { threshold, dense, pairs }), vec![rows])?.distinct()?;
    Ok(joined_by_sorting(found))
}

/// The scores (a, b, ..) of two settled documents -> (a, b).
pub(crate) fn scored(scores: DataFrame, settled: DataFrame) -> Result<DataFrame> {
    let of = |column: &str| settled.clone().select(vec![col("settled").alias(format!("settled_{column}"))]);
    let scores = scores.select(vec![col("a"), col("b")])?;
    let scores = of("a")?.join(scores, JoinType::RightSemi, &["settled_a"], &["a"], None)?;
    let scores = of("b")?.join(scores, JoinType::RightSemi, &["settled_b"], &["b"], None)?;
    Ok(joined_by_sorting(scores))
}
