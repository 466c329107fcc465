//! Converts the pairs in several outputs to the scores of one run over all their documents.
//!
//! Pairs of documents become scores of groups of copies. An output contains only some pairs of a large group, and a later output may
//! replace one document of a group and keep the others.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, greatest, least};
use datafusion::functions_aggregate::expr_fn::{max, min};
use datafusion::functions_window::expr_fn::lead;
use datafusion::logical_expr::{Expr, ExprFunctionExt, ident};
use datafusion::prelude::{DataFrame, col, when};

use super::copies::{key, with_same_key};
use super::{all_columns, columns, needed, renamed, suffixed};
use crate::error::Result;
use crate::udf::expr_fn::document_key;

const MEASURED: [&str; 5] = ["shared", "shingles_a", "shingles_b", "estimate", "shared_bands"];

/// The columns (a: UInt64, b: UInt64, reference_b, shared, shingles_a, shingles_b, estimate, shared_bands) of a table `pairs`.
pub(crate) fn pair_columns() -> Vec<Expr> {
    let ends =
        vec![document_key(col("id_a")).alias("a"), document_key(col("id_b")).alias("b"), col("reference_b")];
    [ends, columns(MEASURED)].concat()
}

/// Marks documents in the table `spared` as representatives in the table `clusters`, since they are kept.
pub(crate) fn with_spared(clusters: DataFrame, spared: DataFrame) -> Result<DataFrame> {
    let mut columns = all_columns(&clusters);
    for column in columns.iter_mut().filter(|column| **column == ident("representative")) {
        *column = col("representative").or(col("spared_id").is_not_null()).alias("representative");
    }
    let spared = spared.select(renamed([("id", "spared_id"), ("reference", "spared_reference")]))?;
    let keys = (&["spared_id", "spared_reference"], &["id", "reference"]);
    Ok(spared.join(clusters, JoinType::Right, keys.0, keys.1, None)?.select(columns)?)
}

/// [`pair_columns`], copies (rep, doc, size) -> the columns of scores. Only for outputs without replaced documents.
pub(crate) fn scores(pairs: DataFrame, copies: DataFrame) -> Result<DataFrame> {
    let copies = copies.filter(col("rep").not_eq(col("doc")))?;
    let end = |end: &str| suffixed(&copies, &["doc", "rep"], end);
    let joined = end("a")?.join(pairs, JoinType::Right, &["doc_a"], &["a"], None)?;
    let joined = end("b")?.join(joined, JoinType::Right, &["doc_b"], &["b"], None)?;
    let ends = vec![
        coalesce(columns(["rep_a", "a"])).alias("first"),
        coalesce(columns(["rep_b", "b"])).alias("second"),
    ];
    in_order(joined.select([ends, columns(MEASURED)].concat())?)
}

/// Adds `until` to the documents (run, doc, set_hash_0, set_hash_1, ..) of all runs, including replaced documents: the run that replaced
/// the document, or null.
pub(crate) fn versions(documents: DataFrame) -> Result<DataFrame> {
    let order = vec![col("run").sort(true, false)];
    let until = lead(col("run"), Some(1), None).partition_by(columns(["doc"])).order_by(order).build()?;
    Ok(documents.window(vec![until.alias("until")])?)
}

/// Keeps the rows of `documents` (run, doc, ..) that no later run replaced, without `run`. `later` (run, doc) contains the documents that
/// replaced others.
pub(crate) fn staying(documents: DataFrame, later: DataFrame) -> Result<DataFrame> {
    let mut columns = all_columns(&documents);
    columns.retain(|column| *column != ident("run"));
    let later = later.aggregate(renamed([("doc", "replaced")]), vec![max(col("run")).alias("until")])?;
    let all = later.join(documents, JoinType::Right, &["replaced"], &["doc"], None)?;
    let stays = col("until").is_null().or(col("until").lt_eq(col("run")));
    Ok(all.filter(stays)?.select(columns)?)
}

/// Documents (doc, set_hash_0, set_hash_1, ..) -> the [`key`] and `rep` of each group of copies: see [`super::copies::copies`]. A
/// document without copies is a group too.
pub(crate) fn representatives(documents: DataFrame) -> Result<DataFrame> {
    let same = key(&documents).into_iter().map(col).collect();
    Ok(documents.aggregate(same, vec![min(col("doc")).alias("rep")])?)
}

/// Adds the `rep` of [`representatives`] to documents, and drops documents without a group there.
pub(crate) fn with_representative(documents: DataFrame, representatives: DataFrame) -> Result<DataFrame> {
    with_same_key(representatives, vec![col("rep")], documents)
}

/// `run` and [`pair_columns`], the [`versions`] of all documents, the [`representatives`] of the remaining documents -> (first, second,
/// shared, ..). These are the pairs between and within groups with a remaining document.
pub(crate) fn pairs_of_groups(
    pairs: DataFrame,
    versions: DataFrame,
    representatives: DataFrame,
) -> Result<DataFrame> {
    // The group of each version of a document, the run that read the version, and the run that replaced it.
    let versions = versions.with_column_renamed("run", "since")?.with_column_renamed("doc", "version")?;
    let versions = with_representative(versions, representatives)?;
    let end = |end: &str| suffixed(&versions, &["since", "until", "version", "rep"], end);
    let own = |since: &str| col(since).eq(col("run"));
    let earlier =
        col("since_b").lt(col("run")).and(col("until_b").is_null().or(col("until_b").gt_eq(col("run"))));
    let joined =
        end("a")?.join(pairs, JoinType::Inner, &["version_a"], &["a"], None)?.filter(own("since_a"))?;
    let joined = end("b")?.join(joined, JoinType::Inner, &["version_b"], &["b"], None)?;
    let joined = joined.filter(when(col("reference_b"), earlier).otherwise(own("since_b"))?)?;
    let ends = renamed([("rep_a", "first"), ("rep_b", "second")]);
    Ok(joined.select([ends, columns(MEASURED)].concat())?)
}

/// [`pairs_of_groups`], the remaining documents (doc, set_hash_0, set_hash_1, ..), their [`representatives`] -> (a: UInt64, b: UInt64).
/// Each pair becomes an edge. Edges also connect the copies of a group in a pair.
pub(crate) fn connections(
    pairs: DataFrame,
    documents: DataFrame,
    representatives: DataFrame,
) -> Result<DataFrame> {
    let edges = pairs.select(renamed([("first", "a"), ("second", "b")]))?.distinct()?;
    let copies = with_representative(documents, representatives)?.filter(col("rep").not_eq(col("doc")))?;
    let copies = needed(edges.clone())?.join(copies, JoinType::RightSemi, &["needed"], &["rep"], None)?;
    let copies = copies.select(renamed([("rep", "a"), ("doc", "b")]))?;
    Ok(edges.filter(col("a").not_eq(col("b")))?.union(copies)?)
}

/// (first, second, shared, ..) -> the columns of scores. Puts the smaller document first and drops repeated pairs.
pub(crate) fn in_order(rows: DataFrame) -> Result<DataFrame> {
    let ends = || columns(["first", "second"]);
    let ordered = |one: &str, other: &str| -> Result<Expr> {
        Ok(when(col("first").lt(col("second")), col(one)).otherwise(col(other))?)
    };
    let rows = rows.filter(col("first").not_eq(col("second")))?.select(vec![
        least(ends()).alias("a"),
        greatest(ends()).alias("b"),
        col("shared"),
        ordered("shingles_a", "shingles_b")?.alias("shingles_a"),
        ordered("shingles_b", "shingles_a")?.alias("shingles_b"),
        col("estimate"),
        col("shared_bands"),
    ])?;
    Ok(rows.distinct()?)
}
