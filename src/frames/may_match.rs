//! may_match: the reference documents that may be similar to a new document.
//!
//! Usually these are few, so they are found first, by counters that need no join, and are written. All other stages
//! take them together with the new documents.

use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{Expr, ident};
use datafusion::prelude::{DataFrame, col};

use super::prefix::{self, Join};
use crate::error::Result;
use crate::job::Lsh;
use crate::operator::may_match::{MatchRule, MayMatch};
use crate::operator::token_counts::TokenCounts;
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::lsh_bands;

/// `2^bits` counters for the buckets of new documents. A document has many buckets, so there are 32 counters for each. It
/// uses three of them: about one document in a hundred then stays by chance.
fn bits(buckets: u64) -> u32 {
    (buckets.saturating_mul(32).max(1).ilog2() + 1).clamp(MIN_BITS, MAX_BITS)
}

/// 1 KiB, and 32 MiB.
const MIN_BITS: u32 = 10;
const MAX_BITS: u32 = 25;

/// Counters of a bucket.
const PROBES: u32 = 3;

/// (signature, ..) of reference documents, (buckets, ..) of `count` new ones -> the reference documents with a column `may_match:
/// Boolean`, which is true for those that share a bucket with a new one, and for some others by chance.
pub(crate) fn by_buckets(documents: DataFrame, new: DataFrame, count: u64, lsh: &Lsh) -> Result<DataFrame> {
    let bits = bits(count.saturating_mul(lsh.bands as u64));
    let buckets = new.select(vec![col("buckets").alias("tokens")])?;
    let counts = apply(Operator::TokenCounts(TokenCounts { bits, probes: PROBES }), vec![buckets])?;
    marked(documents, lsh_bands(col("signature"), lsh), (bits, PROBES), vec![(MatchRule::Any, counts)])
}

/// (doc, shingles, signature, ..) of reference documents, the same of new ones, and the `frequencies` of the elements of the new
/// ones -> the reference documents with a column `may_match: Boolean`, which is false only for those that cannot reach the
/// threshold with a new one.
pub(crate) fn by_elements(
    documents: DataFrame,
    new: DataFrame,
    frequencies: DataFrame,
    join: &Join,
) -> Result<DataFrame> {
    let mut rules = vec![(MatchRule::Share(join.threshold()), frequencies.clone())];
    if join.meets_whole_sets() {
        // A reference document may also contain a new one: then it has a token of its prefix.
        let tokens = prefix::prefixes(new, frequencies, join)?;
        let tokens = tokens.select(vec![make_array(vec![col("token")]).alias("tokens")])?;
        let counts = Operator::TokenCounts(TokenCounts { bits: join.bits(), probes: 1 });
        rules.push((MatchRule::Any, apply(counts, vec![tokens])?));
    }
    marked(documents, join.set(), (join.bits(), 1), rules)
}

/// The rows of reference documents whose `token` one of the `count` rows of new ones has, and some others by chance.
pub(crate) fn by_token(rows: DataFrame, new: DataFrame, count: u64, token: &str) -> Result<DataFrame> {
    let bits = bits(count);
    let columns: Vec<Expr> = rows.schema().columns().into_iter().map(|column| ident(column.name)).collect();
    let token = || make_array(vec![col(token)]);
    let counts = Operator::TokenCounts(TokenCounts { bits, probes: PROBES });
    let counts = apply(counts, vec![new.select(vec![token().alias("tokens")])?])?;
    let marked = marked(rows, token(), (bits, PROBES), vec![(MatchRule::Any, counts)])?;
    Ok(marked.filter(ident("may_match"))?.select(columns)?)
}

/// Marks the documents that a rule keeps, by `2^bits` counters, `probes` for each token.
fn marked(
    documents: DataFrame,
    tokens: Expr,
    (bits, probes): (u32, u32),
    rules: Vec<(MatchRule, DataFrame)>,
) -> Result<DataFrame> {
    // The operator's columns have no table name.
    let mut columns: Vec<Expr> =
        documents.schema().columns().into_iter().map(|column| ident(column.name)).collect();
    columns.push(ident("may_match"));
    let (rules, mut inputs): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
    inputs.push(documents.with_column("tokens", tokens)?);
    Ok(apply(Operator::MayMatch(MayMatch { bits, probes, rules }), inputs)?.select(columns)?)
}
