//! known: the documents of earlier runs, or of a second source, that new documents may be similar to.
//!
//! Of all that is known, the new documents touch little, so that little is found first and written. From there on it takes
//! part in everything as the new documents do, and two known documents are no pair.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::functions_window::expr_fn::lag;
use datafusion::logical_expr::{Expr, ExprFunctionExt, ident};
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::by_group;
use super::prefix::{self, Join};
use crate::error::Result;
use crate::job::{Lsh, Measure};
use crate::operator::token_counts::TokenCounts;
use crate::operator::touched::{Touch, Touched};
use crate::operator::{Operator, apply};
use crate::schema::carried;
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

/// (signature, ..) of known documents, (buckets, ..) of `count` new ones -> the known documents with a column `touched: Boolean`,
/// which is true for those that share a bucket with a new one, and perhaps for some others.
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
/// the known documents with a column `touched: Boolean`, which is true for those that can reach the threshold with a new one, as
/// far as these tell.
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

/// Marks the documents that a rule keeps, by counters of which there are `2^bits`, so many for each token.
fn touched(
    known: DataFrame,
    tokens: Expr,
    (bits, probes): (u32, u32),
    rules: Vec<(Touch, DataFrame)>,
) -> Result<DataFrame> {
    // The operator's columns are of no table any more.
    let mut columns: Vec<Expr> =
        known.schema().columns().into_iter().map(|column| ident(column.name)).collect();
    columns.push(ident("touched"));
    let (rules, mut inputs): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
    inputs.push(known.with_column("tokens", tokens)?);
    Ok(apply(Operator::Touched(Touched { bits, probes, rules }), inputs)?.select(columns)?)
}

/// Documents of a second source with their sketches, whose groups are in the column `group` of that source, and with a mark `touched` -> the columns of the table `known` of those, and what
/// says of each row into which table it goes: `reason`, and `touched`, which is null where it is not true.
///
/// # Errors
/// When the frame lacks its columns.
pub(crate) fn of_source(marked: DataFrame, group: Option<&str>) -> Result<DataFrame> {
    let mut columns = vec![lit(0_u64).alias("origin")];
    columns.extend(KNOWN.map(ident));
    // Of a second source the group alone is carried.
    columns.push(by_group::group(group.map(|_| carried(0)).as_deref()));
    columns.extend([
        ident("reason"),
        when(ident("reason").is_null().and(ident("touched")), lit(true)).end()?.alias("touched"),
    ]);
    Ok(marked.select(columns)?)
}

/// The columns of the table `known` behind the first.
const KNOWN: [&str; 9] =
    ["id", "source", "position", "doc", "shingle_count", "set_hash_0", "set_hash_1", "signature", "shingles"];

/// (doc, ..) -> the same with keys that no document of the other source has, but by chance: an id may be in both.
///
/// # Errors
/// When the frame has no column `doc`.
pub(crate) fn turned(documents: DataFrame) -> Result<DataFrame> {
    Ok(documents.with_column("doc", turned_key(col("doc")))?)
}

/// The key of a document of a second source, whose id has this key.
pub(crate) fn turned_key(key: Expr) -> Expr {
    lit(u64::MAX) - key
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

/// (a, b, ..) of scores, (rep, doc, ..) of members, and what connected documents in earlier runs, if there were such (a, b) ->
/// (a: UInt64, b: UInt64): what connects documents.
///
/// # Errors
/// When a frame lacks its columns.
pub(crate) fn connections(
    scores: DataFrame,
    members: DataFrame,
    earlier: Option<DataFrame>,
) -> Result<DataFrame> {
    let copies = members.filter(col("rep").not_eq(col("doc")))?;
    let copies = copies.select(vec![col("rep").alias("a"), col("doc").alias("b")])?;
    let edges = scores.select(vec![col("a"), col("b")])?.union(copies)?;
    Ok(match earlier {
        Some(earlier) => edges.union(earlier)?,
        None => edges,
    })
}

/// (id, cluster_id, ..) -> (a: UInt64, b: UInt64): each document of a cluster with the one whose id it bears.
///
/// # Errors
/// When the frame lacks its columns.
pub(crate) fn connected(clusters: DataFrame) -> Result<DataFrame> {
    let edge = vec![document_key(col("cluster_id")).alias("a"), document_key(col("id")).alias("b")];
    Ok(clusters.select(edge)?)
}

/// (run, id, cluster_id) of the clusters of earlier runs -> (id) of the founders: documents whose id is that of their cluster. In a
/// later run that cluster may have become a part of another one.
///
/// # Errors
/// When the frame lacks its columns.
pub(crate) fn founders(clusters: DataFrame) -> Result<DataFrame> {
    let is_founder = || col("id").eq(col("cluster_id"));
    let last = |is: Expr| -> Result<Expr> { Ok(max(when(is, col("run")).end()?)) };
    let runs = vec![last(is_founder())?.alias("founded"), last(is_founder().is_not_true())?.alias("joined")];
    let stays = col("joined").is_null().or(col("joined").lt(col("founded")));
    let founders = clusters.aggregate(vec![col("id")], runs)?;
    Ok(founders.filter(col("founded").is_not_null().and(stays))?.select(vec![col("id")])?)
}

/// (run, doc, id) of the documents of several runs -> (before, run, id: Utf8): for every two runs that have a document, with none
/// between them that has it, the smallest id of such.
///
/// # Errors
/// When the frame lacks its columns.
pub(crate) fn shared(documents: DataFrame) -> Result<DataFrame> {
    let order = vec![col("run").sort(true, false)];
    let before = lag(col("run"), Some(1), None).partition_by(vec![col("doc")]).order_by(order).build()?;
    Ok(documents
        .window(vec![before.alias("before")])?
        .filter(col("before").is_not_null())?
        .aggregate(vec![col("before"), col("run")], vec![min(col("id")).alias("least")])?
        .sort(vec![col("run").sort(true, false), col("before").sort(true, false)])?
        .select(vec![col("before"), col("run"), cast(col("least"), DataType::Utf8).alias("id")])?)
}
