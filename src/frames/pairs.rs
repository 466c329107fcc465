//! Expands scores between groups of copies to pairs of all documents in the groups, and finds the longest common passage of each pair.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{coalesce, get_field};
use datafusion::functions::string::expr_fn::octet_length;
use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit, when};

use super::copies::{Paired, Rules};
use super::reference::second_source_key;
use super::{all_columns, columns, float, number, renamed, suffixed, utf8};
use crate::error::Result;
use crate::job::{Compare, NewPairs};
use crate::operator::copy_pairs::CopyPairs;
use crate::operator::{Operator, apply};
use crate::udf::expr_fn::{document_key, passages as common_passages};

/// (rep, doc, size, reference) -> one row (pairs: UInt64), the number of written pairs of copies, or null if there are no groups.
pub(crate) fn count_of_copies(groups: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let size = || col("size");
    let star = size() - lit(1_u64);
    let all = size() * star.clone() / lit(2_u64);
    let pairs = when(rules.is_star(size()), star).otherwise(all)?;
    let groups = rules.paired_groups(groups.filter(col("doc").eq(col("rep")))?)?;
    let groups = groups.select(vec![pairs.alias("pairs")])?;
    Ok(groups.aggregate(vec![], vec![sum(col("pairs")).alias("pairs")])?)
}

/// (id, doc, shingle_count, rep, size, reference), (a, b, shared, ..) -> the columns of `schemas/pairs.toml`. See also [`pairs_of_copies`].
///
/// A score between two groups of copies becomes a pair for each document in one group and each in the other.
///
/// If a group is written as a star, only its smallest id has pairs with other groups. Each other document is paired only with the smallest
/// id. The number of pairs in a group is then linear in the number of documents, and the clusters are the same.
///
/// If every pair consists of a new and a reference document, copies are not pairs. Every new document in a star, except for the smallest
/// id, is then paired with the smallest id in each group of reference documents.
pub(crate) fn pairs(members: DataFrame, scores: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let rule = rules.new_pairs;
    let visible = || columns(["rep", "id", "reference"]);
    if rules.compare == Compare::Across {
        let all = members.select(visible())?;
        return between(all.clone(), all, scores, rule);
    }
    let star = rules.is_star(col("size"));
    let full = members.clone().filter(star.clone().is_not_true())?;
    let starred = members.clone().filter(star)?;
    let smallest = |members: DataFrame| -> Result<DataFrame> {
        let groups = columns(["rep", "reference"]);
        Ok(members.aggregate(groups, vec![min(col("id")).alias("id")])?.select(visible())?)
    };
    let centers = smallest(starred.clone())?;
    let shown = full.select(visible())?.union(centers.clone())?;
    let of_scores = between(shown.clone(), shown, scores.clone(), rule)?;
    if rules.paired() != Paired::None {
        return Ok(of_scores);
    }
    let centers = centers.select(renamed([("rep", "of"), ("id", "center")]))?;
    let on = [col("of").eq(col("rep")), col("center").lt(col("id"))];
    let others =
        centers.join_on(starred.filter(!col("reference"))?, JoinType::Inner, on)?.select(visible())?;
    let reference = smallest(members.filter(col("reference"))?)?;
    let of_others = between(others.clone(), reference.clone(), scores.clone(), rule)?;
    Ok(of_scores.union(of_others)?.union(between(reference, others, scores, rule)?)?)
}

/// (id, shingle_count, rep, size, reference) -> the columns of `schemas/pairs.toml`, with ids as dictionaries. If copies are pairs, every two
/// documents in a group become a pair with a similarity of 1, except in a star: see [`pairs`]. `bands` is the number of bands that two
/// identical signatures share.
pub(crate) fn pairs_of_copies(members: DataFrame, rules: Rules<'_>, bands: usize) -> Result<DataFrame> {
    let groups = rules.paired_groups(members.filter(col("size").gt(lit(1_u64)))?)?;
    let id = match groups.schema().field_with_unqualified_name("id")?.data_type() {
        DataType::Int64 => col("id"),
        _ => utf8("id"),
    };
    let groups = groups.select(vec![col("rep"), id, col("size"), col("shingle_count")])?;
    let pairs = apply(Operator::CopyPairs(CopyPairs { full: rules.most_expanded() }), vec![groups])?;
    let bands = u16::try_from(bands).unwrap_or(u16::MAX);
    let mut all = columns(["id_a", "id_b"]);
    let ratios = ["jaccard", "estimate", "containment_a", "containment_b"];
    all.extend(ratios.map(|name| lit(1.0_f64).alias(name)));
    all.extend(["shared", "shingles_a", "shingles_b"].map(|name| col("shingle_count").alias(name)));
    all.extend([lit(bands).alias("shared_bands"), lit(false).alias("reference_b")]);
    Ok(pairs.select(all)?)
}

/// Expands each score (a, b, ..) to pairs of the documents (rep, id, reference) in the groups of a (`of_a`) and b (`of_b`).
fn between(of_a: DataFrame, of_b: DataFrame, scores: DataFrame, rule: Option<NewPairs>) -> Result<DataFrame> {
    let left = renamed([("rep", "left_rep"), ("id", "left_id"), ("reference", "left_reference")]);
    let right = renamed([("rep", "right_rep"), ("id", "right_id"), ("reference", "right_reference")]);
    // The joins keep the documents in memory instead of the scores, since there can be as many scores as pairs. The new name of b keeps
    // the optimizer from reordering the joins.
    let measured = columns(["shared", "shingles_a", "shingles_b", "estimate", "shared_bands"]);
    let ends = vec![col("left_id"), col("left_reference"), col("b").alias("other_rep")];
    let joined = of_a
        .select(left)?
        .join(scores, JoinType::Inner, &["left_rep"], &["a"], None)?
        .select([ends, measured].concat())?;
    let joined = of_b.select(right)?.join(joined, JoinType::Inner, &["right_rep"], &["other_rep"], None)?;
    // The smaller id is a, except that a reference document is always b.
    let smaller = col("left_id").lt(col("right_id"));
    let (left_is_a, reference_b) = match rule {
        None => (smaller, lit(false)),
        Some(_) => {
            let one_is_reference = col("left_reference").not_eq(col("right_reference"));
            let left_is_a = when(one_is_reference, col("right_reference")).otherwise(smaller)?;
            (left_is_a, col("left_reference").or(col("right_reference")))
        }
    };
    let ordered = |first: &str, second: &str| when(left_is_a.clone(), col(first)).otherwise(col(second));
    let joined = joined.select(vec![
        ordered("left_id", "right_id")?.alias("id_a"),
        ordered("right_id", "left_id")?.alias("id_b"),
        col("estimate"),
        col("shared"),
        ordered("shingles_a", "shingles_b")?.alias("shingles_a"),
        ordered("shingles_b", "shingles_a")?.alias("shingles_b"),
        col("shared_bands"),
        reference_b.alias("reference_b"),
    ])?;
    let union = col("shingles_a") + col("shingles_b") - col("shared");
    let shared_in = |all: Expr| float(col("shared")) / float(all);
    let ratios = vec![
        shared_in(union).alias("jaccard"),
        col("estimate"),
        shared_in(col("shingles_a")).alias("containment_a"),
        shared_in(col("shingles_b")).alias("containment_b"),
    ];
    let counts = columns(["shared", "shingles_a", "shingles_b", "shared_bands", "reference_b"]);
    Ok(joined.select([columns(["id_a", "id_b"]), ratios, counts].concat())?)
}

/// Adds `shown: UInt64` and `one_by_one: UInt64` to groups (rep, size, reference), for a score with another group. `shown` documents are
/// paired with every shown document in the other group. `one_by_one` documents are paired with a single document in it.
fn with_shown(groups: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let (size, star) = (|| col("size"), || rules.is_star(col("size")));
    let one_by_one = match rules.paired() {
        Paired::None => when(star().and(!col("reference")), size() - lit(1_u64)).otherwise(lit(0_u64))?,
        Paired::All | Paired::New => lit(0_u64),
    };
    Ok(groups
        .with_column("shown", when(star(), lit(1_u64)).otherwise(size())?)?
        .with_column("one_by_one", one_by_one)?)
}

/// Groups of copies (rep, doc, size, reference), scores (a, b, ..) -> one row (pairs: UInt64). This is the number of pairs to which scores
/// are expanded, or null if there are no scores.
pub(crate) fn count_of_scores(groups: DataFrame, scores: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let groups = groups.filter(col("doc").eq(col("rep")))?;
    let groups = with_shown(groups.select(columns(["rep", "size", "reference"]))?, rules)?;
    let end = |name: &str| suffixed(&groups, &["rep", "shown", "one_by_one"], name);
    let scores = scores.select(columns(["a", "b"]))?;
    let with_a = end("a")?.join(scores, JoinType::Right, &["rep_a"], &["a"], None)?;
    let with_a = with_a.select(vec![col("shown_a"), col("one_by_one_a"), col("b").alias("other")])?;
    let both = end("b")?.join(with_a, JoinType::Right, &["rep_b"], &["other"], None)?;
    let number = |name: &str, otherwise: u64| coalesce(vec![col(name), lit(otherwise)]);
    let pairs = number("shown_a", 1) * number("shown_b", 1);
    let pairs = pairs + number("one_by_one_a", 0) + number("one_by_one_b", 0);
    let both = both.select(vec![pairs.alias("pairs")])?;
    Ok(both.aggregate(vec![], vec![sum(col("pairs")).alias("pairs")])?)
}

/// Members (rep, size, reference, ..), scores (a, b, ..) -> one row (left_out: UInt64). This is the number of similar pairs that stars
/// omit, or null if there are no groups.
pub(crate) fn count_of_left_out(
    members: DataFrame,
    scores: DataFrame,
    rules: Rules<'_>,
) -> Result<DataFrame> {
    let groups = members.aggregate(columns(["rep", "reference"]), vec![max(col("size")).alias("size")])?;
    let groups = with_shown(groups, rules)?;
    let size = || col("size");
    let all = size() * (size() - lit(1_u64)) / lit(2_u64);
    let within = rules.paired_groups(groups.clone().filter(rules.is_star(size()))?)?;
    let within = within.select(vec![(all - (size() - lit(1_u64))).alias("out")])?;
    let end = |name: &str| suffixed(&groups, &["rep", "size", "shown", "one_by_one"], name);
    let scores = scores.select(columns(["a", "b"]))?;
    let joined = end("a")?.join(scores, JoinType::Inner, &["rep_a"], &["a"], None)?;
    let of_a = columns(["size_a", "shown_a", "one_by_one_a"]);
    let joined = joined.select([of_a, renamed([("b", "other_rep")])].concat())?;
    let left_out = col("size_a") * col("size_b") - col("shown_a") * col("shown_b");
    let left_out = left_out - (col("one_by_one_a") + col("one_by_one_b"));
    let between = end("b")?
        .join(joined, JoinType::Inner, &["rep_b"], &["other_rep"], None)?
        .select(vec![left_out.alias("out")])?;
    Ok(within.union(between)?.aggregate(vec![], vec![sum(col("out")).alias("left_out")])?)
}

/// (doc, text, ..) -> (doc: UInt64, text, bytes: UInt64), the texts for [`with_passages`].
pub(crate) fn texts(documents: DataFrame) -> Result<DataFrame> {
    let bytes = number(octet_length(col("text"))).alias("bytes");
    Ok(documents.select(vec![col("doc"), col("text"), bytes])?)
}

/// Adds the longest common passage of the two `texts` (doc, text) as `passage_a` and `passage_b` to pairs (id_a, id_b, reference_b, ..).
/// Documents from a second source have the keys of [`second_source_key`].
pub(crate) fn with_passages(pairs: DataFrame, texts: DataFrame, is_second_source: bool) -> Result<DataFrame> {
    let mut columns = all_columns(&pairs);
    let mut key_b = document_key(col("id_b"));
    if is_second_source {
        key_b = when(col("reference_b"), second_source_key(key_b.clone())).otherwise(key_b)?;
    }
    let keyed = pairs.with_column("key_a", document_key(col("id_a")))?.with_column("key_b", key_b)?;
    let end = |doc, text| texts.clone().select(renamed([("doc", doc), ("text", text)]));
    let with_a = end("doc_a", "text_a")?.join(keyed, JoinType::Right, &["doc_a"], &["key_a"], None)?;
    let both = end("doc_b", "text_b")?.join(with_a, JoinType::Right, &["doc_b"], &["key_b"], None)?;
    let found = both.with_column("common", common_passages(col("text_a"), col("text_b")))?;
    columns.push(get_field(col("common"), "a").alias("passage_a"));
    columns.push(get_field(col("common"), "b").alias("passage_b"));
    Ok(found.select(columns)?)
}
