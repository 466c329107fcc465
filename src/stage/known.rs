//! known: the documents of earlier runs that new documents may be similar to.
//!
//! Of all that is known, the new documents touch little, so that little is found first and written. From there on it takes
//! part in everything as the new documents do, and two known documents are no pair.

use datafusion::common::JoinType;
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{Expr, ident};
use datafusion::prelude::{DataFrame, col};

use super::prefix::{self, Join};
use super::scores::needed;
use super::union;
use crate::error::Result;
use crate::job::{Lsh, Measure};
use crate::operator::token_counts::TokenCounts;
use crate::operator::touched::{Touch, Touched};
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::{document_key, lsh_bands};

/// Counters for the buckets of new documents are `2^bits`: a document has many buckets, so there are 32 for each of these, of
/// which a bucket takes three. Then about one document in a hundred stays by chance.
fn bits(buckets: u64) -> u32 {
    (buckets.saturating_mul(32).max(1).ilog2() + 1).clamp(MIN_BITS, MAX_BITS)
}

/// 1 KiB, and 32 MiB.
const MIN_BITS: u32 = 10;
const MAX_BITS: u32 = 25;

/// Counters of a bucket.
const PROBES: u32 = 3;

/// (signature, ..) of known documents, (buckets, ..) of `count` new ones -> the known documents that share a bucket with a new
/// one, and perhaps some others.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn by_buckets(known: DataFrame, new: DataFrame, count: u64, lsh: &Lsh) -> Result<DataFrame> {
    let bits = bits(count.saturating_mul(lsh.bands as u64));
    let counts = apply(
        Operator::TokenCounts(TokenCounts { bits, probes: PROBES }),
        vec![new.select(vec![col("buckets").alias("tokens")])?],
    )?;
    let rules = vec![(Touch::Any, counts)];
    touched(known, lsh_bands(col("signature"), lsh), (bits, PROBES), rules)
}

/// (doc, shingles, signature, ..) of known documents, the same of new ones, and the `frequencies` of the elements of those ->
/// the known documents that can reach the threshold with a new one, as far as these tell.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn by_elements(
    known: DataFrame,
    new: DataFrame,
    frequencies: DataFrame,
    join: &Join,
) -> Result<DataFrame> {
    let mut rules = vec![(Touch::Share(join.threshold()), frequencies.clone())];
    if join.measure() == Measure::Containment {
        // A known document may also hold a new one: then it has an element of its prefix.
        let tokens = prefix::prefixes(new, frequencies, join)?;
        let tokens = tokens.select(vec![make_array(vec![col("token")]).alias("tokens")])?;
        let of_prefixes =
            apply(Operator::TokenCounts(TokenCounts { bits: join.bits(), probes: 1 }), vec![tokens])?;
        rules.push((Touch::Any, of_prefixes));
    }
    touched(known, join.set(), (join.bits(), 1), rules)
}

/// The documents that a rule keeps, by counters of which there are `2^bits`, so many for each token.
fn touched(
    known: DataFrame,
    tokens: Expr,
    (bits, probes): (u32, u32),
    rules: Vec<(Touch, DataFrame)>,
) -> Result<DataFrame> {
    // The operator's columns are of no table any more.
    let columns: Vec<Expr> = known.schema().columns().into_iter().map(|column| ident(column.name)).collect();
    let (rules, mut inputs): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
    inputs.push(known.with_column("tokens", tokens)?);
    Ok(apply(Operator::Touched(Touched { bits, probes, rules }), inputs)?.select(columns)?)
}

/// (doc, ..) -> the rows whose document is not among the `others` (doc, ..).
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn without(documents: DataFrame, others: DataFrame) -> Result<DataFrame> {
    let others = others.select(vec![col("doc").alias("other")])?;
    Ok(others.join(documents, JoinType::RightAnti, &["other"], &["doc"], None)?)
}

/// (doc, ..) -> the rows whose document is among the `others` (doc, ..).
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn same(documents: DataFrame, others: DataFrame) -> Result<DataFrame> {
    let others = others.select(vec![col("doc").alias("other")])?;
    Ok(others.join(documents, JoinType::RightSemi, &["other"], &["doc"], None)?)
}

/// (a, b, ..) -> the pairs of which `known` (doc, ..) has one document.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn with_known(pairs: DataFrame, known: DataFrame) -> Result<DataFrame> {
    let columns: Vec<Expr> = pairs.schema().columns().into_iter().map(Expr::Column).collect();
    let of = |end: &str| known.clone().select(vec![col("doc").alias(format!("known_{end}"))]);
    let marked = of("a")?.join(pairs, JoinType::Right, &["known_a"], &["a"], None)?;
    let marked = of("b")?.join(marked, JoinType::Right, &["known_b"], &["b"], None)?;
    Ok(marked.filter(col("known_a").is_not_null().or(col("known_b").is_not_null()))?.select(columns)?)
}

/// (a, b, ..) of scores, (rep, doc, ..) of members, and what connected documents in earlier runs (a, b) -> (a: UInt64, b:
/// UInt64): what connects documents.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn connections(scores: DataFrame, members: DataFrame, earlier: DataFrame) -> Result<DataFrame> {
    let copies = members.filter(col("rep").not_eq(col("doc")))?;
    let copies = copies.select(vec![col("rep").alias("a"), col("doc").alias("b")])?;
    Ok(scores.select(vec![col("a"), col("b")])?.union(copies)?.union(earlier)?)
}

/// (id, cluster_id, ..) -> (a: UInt64, b: UInt64): each document of a cluster with the one whose id it bears.
///
/// # Errors
/// When the frame lacks its columns.
pub(crate) fn connected(clusters: DataFrame) -> Result<DataFrame> {
    let edge = vec![document_key(col("cluster_id")).alias("a"), document_key(col("id")).alias("b")];
    Ok(clusters.select(edge)?)
}

/// The founders among `clusters` (id, cluster_id, ..) of earlier runs, in the order of these: documents whose id is that of
/// their cluster -> (id).
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn founders(clusters: &[DataFrame]) -> Result<Option<DataFrame>> {
    let founders = clusters.iter().enumerate().map(|(at, of_run)| {
        let is_founder = col("id").eq(col("cluster_id"));
        let mut founders = of_run.clone().filter(is_founder.clone())?.select(vec![col("id")])?;
        // In a later run its cluster may have become a part of another one.
        for later in clusters.iter().skip(at + 1) {
            let joined = later.clone().filter(is_founder.clone().is_not_true())?;
            let joined = joined.select(vec![col("id").alias("joined")])?;
            founders = joined.join(founders, JoinType::RightAnti, &["joined"], &["id"], None)?;
        }
        Ok(founders)
    });
    Ok(union(founders)?.map(DataFrame::distinct).transpose()?)
}

/// (doc) and those that stand for them in the groups (rep, doc, size) -> (doc).
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn with_representatives(known: DataFrame, groups: DataFrame) -> Result<DataFrame> {
    let representatives = same(groups, known.clone())?.select(vec![col("rep").alias("doc")])?;
    Ok(known.union(representatives)?.distinct()?)
}

/// Of (rep, doc, size), the groups that are in a pair of a new document with a known one: those that have a document of `known`
/// (doc, ..), and those whose representative has a score (a, b, ..).
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn groups_of_pairs(groups: DataFrame, known: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let with_known = same(groups.clone(), known)?.select(vec![col("rep").alias("needed")])?;
    let scored = needed(scores.select(vec![col("a"), col("b")])?)?;
    let wanted = with_known.union(scored)?.distinct()?;
    Ok(wanted.join(groups, JoinType::RightSemi, &["needed"], &["rep"], None)?)
}
