//! Finds candidates, which are documents that share a bucket, and the reference documents that may be similar to a new document. Few
//! reference documents are similar to new documents. A first stage finds them with counters and without a join. Later stages read only
//! these documents.

use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{Expr, ident};
use datafusion::prelude::{DataFrame, col};

use super::copies::without_copies;
use super::prefix::{self, Join, token_counts};
use super::reference::mark;
use super::{all_columns, columns, renamed};
use crate::error::Result;
use crate::job::Lsh;
use crate::operator::bucket_pairs::PairRule;
use crate::operator::filters::{MatchRule, MayMatch};
use crate::operator::{Operator, apply};

/// (doc, buckets: `List<UInt64>`), copies (rep, doc, size) -> distinct (a: UInt64, b: UInt64), a < b.
///
/// Pairs the documents that share a bucket. Each document in a bucket with more than `hot` documents also has one row (doc, null).
///
/// Only the representative of each group of copies is paired. Only 8-byte keys are sorted and joined, and buckets with one document are
/// dropped first. A hot bucket has a quadratic number of pairs, so [`super::prefix`] finds them.
///
/// Two `reference` documents (doc, ..) are never a pair.
///
/// # Errors
/// If a column is missing.
pub fn candidates(
    keys: DataFrame,
    copies: DataFrame,
    hot: u64,
    reference: Option<DataFrame>,
) -> Result<DataFrame> {
    let mut rows = without_copies(keys.select(columns(["doc", "buckets"]))?, copies)?;
    let mut columns = renamed([("buckets", "bucket"), ("doc", "doc")]);
    if let Some(reference) = reference {
        rows = mark(rows, reference)?;
        columns.push(col("reference"));
    }
    let rows = rows.unnest_columns(&["buckets"])?.select(columns)?;
    Ok(apply(Operator::BucketPairs(PairRule::All { hot }), vec![rows])?.distinct()?)
}

/// The number of counters is `2^bits`: 1,024 to 33,554,432. A counter takes one byte.
const MIN_BITS: u32 = 10;
const MAX_BITS: u32 = 25;

/// The number of counters per token.
const PROBES: u32 = 3;

/// The number of bits for counting the tokens of new documents. With 32 counters per token and three probes, about one in a hundred
/// reference documents without a common token is kept by chance.
fn bits(tokens: u64) -> u32 {
    (tokens.saturating_mul(32).max(1).ilog2() + 1).clamp(MIN_BITS, MAX_BITS)
}

/// Adds `may_match: Boolean` to reference documents (signature, ..): whether the document shares a bucket with one of the `count` new
/// documents (buckets, ..). By chance, it is true for some other documents too.
pub(crate) fn may_match_by_buckets(
    documents: DataFrame,
    new: DataFrame,
    count: u64,
    lsh: &Lsh,
) -> Result<DataFrame> {
    let bits = bits(count.saturating_mul(lsh.bands as u64));
    let counts = token_counts(new, col("buckets"), (bits, PROBES))?;
    marked(
        documents,
        super::sketches::band_buckets(col("signature"), lsh),
        (bits, PROBES),
        vec![(MatchRule::Any, counts)],
    )
}

/// Adds `may_match: Boolean` to reference documents (doc, shingles, signature, ..). It is false only if no pair of the document and a
/// `new` document can reach the threshold. `frequencies` counts the elements of the new documents.
pub(crate) fn may_match_by_elements(
    documents: DataFrame,
    new: DataFrame,
    frequencies: DataFrame,
    join: &Join,
) -> Result<DataFrame> {
    let mut rules = vec![(MatchRule::Share(join.threshold), frequencies.clone())];
    if join.meets_whole_sets() {
        // A reference document can also contain a new document. It then contains a token of the new document's prefix.
        let tokens = prefix::prefixes(new, frequencies, join)?;
        let tokens = token_counts(tokens, make_array(vec![col("token")]), (join.bits, 1))?;
        rules.push((MatchRule::Any, tokens));
    }
    marked(documents, join.set(), (join.bits, 1), rules)
}

/// Returns the rows of reference documents with the `token` of one of the `count` rows of new documents, and by chance some other rows.
pub(crate) fn may_match_by_token(
    rows: DataFrame,
    new: DataFrame,
    count: u64,
    token: &str,
) -> Result<DataFrame> {
    let bits = bits(count);
    let columns = all_columns(&rows);
    let token = || make_array(vec![col(token)]);
    let counts = token_counts(new, token(), (bits, PROBES))?;
    let marked = marked(rows, token(), (bits, PROBES), vec![(MatchRule::Any, counts)])?;
    Ok(marked.filter(ident("may_match"))?.select(columns)?)
}

/// Adds `may_match: Boolean`, which is true if the counters of [`token_counts`] keep the document by one of the rules.
fn marked(
    documents: DataFrame,
    tokens: Expr,
    (bits, probes): (u32, u32),
    rules: Vec<(MatchRule, DataFrame)>,
) -> Result<DataFrame> {
    let columns = [all_columns(&documents), vec![ident("may_match")]].concat();
    let (rules, mut inputs): (Vec<_>, Vec<_>) = rules.into_iter().unzip();
    inputs.push(documents.with_column("tokens", tokens)?);
    Ok(apply(Operator::MayMatch(MayMatch { bits, probes, rules }), inputs)?.select(columns)?)
}
