//! Copies: documents with the same shingle set, which are similar to the same documents. One document of each group of copies is
//! compared, and the pairs of the others are added at the end.
//!
//! Copies also have the same value of `source.group` if the job compares by groups, and are all new or all reference documents. The pairs
//! of a document depend only on these properties.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{greatest, least};
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit};

use super::{columns, has_column, needed, number, renamed};
use crate::error::Result;
use crate::job::{Compare, Expand, Job, NewPairs, Output};

/// The column of [`key`] that separates documents in decisions from their copies.
pub(crate) const JUDGED: &str = "judged";

/// The columns of `frame` in which copies have equal values.
pub(crate) fn key(frame: &DataFrame) -> Vec<&'static str> {
    let key = ["set_hash_0", "set_hash_1", "group_key", "reference", "root", JUDGED];
    key.into_iter().filter(|name| has_column(frame, name)).collect()
}

/// The groups of copies in which every two documents are a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paired {
    All,
    /// Only groups of new documents, since two reference documents are never a pair.
    New,
    None,
}

/// The rules of a job that decide which copies are pairs and which of these pairs are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    output: &'a Output,
    pub(crate) compare: Compare,
    pub(crate) new_pairs: Option<NewPairs>,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(job: &'a Job) -> Self {
        Self { output: &job.output, compare: job.candidates.compare, new_pairs: job.new_pairs() }
    }

    /// Returns the groups of copies in which every two copies are a pair.
    pub(crate) fn paired(&self) -> Paired {
        match (self.compare, self.new_pairs) {
            // All copies have the same value of `source.group`.
            (Compare::Across, _) | (_, Some(NewPairs::WithReference)) => Paired::None,
            (_, Some(NewPairs::WithEachOther)) => Paired::New,
            (_, None) => Paired::All,
        }
    }

    /// Keeps the `groups` (reference, ..) in which every two documents are a pair.
    pub(crate) fn paired_groups(&self, groups: DataFrame) -> Result<DataFrame> {
        Ok(match self.paired() {
            Paired::All => groups,
            Paired::New => groups.filter(!col("reference"))?,
            Paired::None => groups.filter(lit(false))?,
        })
    }

    /// The maximum size of a group that is not written as a star.
    pub(crate) fn most_expanded(&self) -> u64 {
        match (self.compare, self.output.expand) {
            (Compare::Across, _) => u64::MAX,
            (_, Expand::All) => self.output.most_expanded().unwrap_or(u64::MAX),
            (_, Expand::Star) => 1,
        }
    }

    /// Whether a group of this size is written as a star: each of its pairs contains its smallest id.
    pub(crate) fn is_star(&self, size: Expr) -> Expr {
        size.gt(lit(self.most_expanded()))
    }
}

/// (doc, set_hash_0, set_hash_1, ..) -> (rep: UInt64, doc: UInt64, size: UInt64, reference: Boolean), one row per document with a copy.
/// `rep` is the smallest key in its group, and `size` is the number of documents in the group. If the frame contains `group_key: UInt64`
/// or `reference: Boolean`, copies have equal values in these columns. Without `reference`, all documents are new.
///
/// # Errors
/// If a column is missing.
pub fn copies(keys: DataFrame) -> Result<DataFrame> {
    let same = key(&keys);
    let is_reference =
        if same.contains(&"reference") { col("reference") } else { lit(false).alias("reference") };
    let groups = keys
        .clone()
        .aggregate(
            same.into_iter().map(col).collect(),
            vec![min(col("doc")).alias("rep"), count(lit(1)).alias("times")],
        )?
        .filter(col("times").gt(lit(1)))?;
    let size = number(col("times")).alias("size");
    // The join keeps the groups in memory. They are few, since most documents have no copies.
    let joined = with_same_key(groups, vec![col("rep"), size], keys)?;
    Ok(joined.select(vec![col("rep"), col("doc"), col("size"), is_reference])?)
}

/// Adds `columns` from `left` to the rows of `right` with the same [`key`]. Drops the other rows of `right`.
pub(crate) fn with_same_key(left: DataFrame, columns: Vec<Expr>, right: DataFrame) -> Result<DataFrame> {
    let same = key(&right);
    let names: Vec<String> = same.iter().map(|name| format!("left_{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let renamed = same.iter().zip(&names).map(|(name, renamed)| col(*name).alias(*renamed));
    let left = left.select(renamed.chain(columns).collect::<Vec<_>>())?;
    Ok(left.join(right, JoinType::Inner, &names, &same, None)?)
}

/// (set_hash_0, set_hash_1, ..) -> (size: UInt64), the number of documents with each shingle set, in all groups and with reference
/// documents.
pub(crate) fn set_sizes(keys: DataFrame) -> Result<DataFrame> {
    let sets = columns(["set_hash_0", "set_hash_1"]);
    let sizes = keys.aggregate(sets, vec![count(lit(1)).alias("times")])?;
    Ok(sizes.select(vec![number(col("times")).alias("size")])?)
}

/// Drops the rows of `frame` (doc, ..) for copies that another document represents.
pub(crate) fn without_copies(frame: DataFrame, groups: DataFrame) -> Result<DataFrame> {
    let copies = groups.filter(col("doc").not_eq(col("rep")))?.select(renamed([("doc", "copy")]))?;
    Ok(copies.join(frame, JoinType::RightAnti, &["copy"], &["doc"], None)?)
}

/// Keeps the groups (rep, doc, size, reference) whose copies are pairs, or whose representative has a score (a, b, ..).
pub(crate) fn in_pairs(groups: DataFrame, scores: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let scored = |groups: DataFrame| -> Result<DataFrame> {
        let scored = needed(scores.select(columns(["a", "b"]))?)?;
        Ok(scored.join(groups, JoinType::RightSemi, &["needed"], &["rep"], None)?)
    };
    match rules.paired() {
        Paired::All => Ok(groups),
        Paired::New => {
            let new = groups.clone().filter(!col("reference"))?;
            Ok(new.union(scored(groups.filter(col("reference"))?)?)?)
        }
        Paired::None => scored(groups),
    }
}

/// New documents (doc, set_hash_0, set_hash_1, ..), `reference` documents (.., shingle_count) -> the columns of
/// [`crate::operator::sketches::score_schema`]. Both frames contain one document per group of copies. Scores each new document with the
/// reference document that has the same shingles. `bands` is the number of bands in a signature.
pub(crate) fn scores_of_equal_sets(new: DataFrame, reference: DataFrame, bands: usize) -> Result<DataFrame> {
    let known = vec![col("doc").alias("reference_doc"), col("shingle_count")];
    // The join only keeps reference documents in memory that may match new documents.
    let joined = with_same_key(reference, known, new)?;
    let ends = || columns(["doc", "reference_doc"]);
    Ok(joined.select(vec![
        least(ends()).alias("a"),
        greatest(ends()).alias("b"),
        col("shingle_count").alias("shared"),
        col("shingle_count").alias("shingles_a"),
        col("shingle_count").alias("shingles_b"),
        lit(1.0_f64).alias("estimate"),
        lit(u16::try_from(bands).unwrap_or(u16::MAX)).alias("shared_bands"),
    ])?)
}

/// Drops the `candidates` (a, b) that have a row in `scores` (a, b, ..).
pub(crate) fn unscored(candidates: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let scores = scores.select(renamed([("a", "scored_a"), ("b", "scored_b")]))?;
    Ok(scores.join(candidates, JoinType::RightAnti, &["scored_a", "scored_b"], &["a", "b"], None)?)
}

/// Documents (id, doc, shingle_count, reference, group, ..), the groups of copies (rep, doc, size, ..) that are in pairs, and scores (a, b,
/// ..) -> (id, doc, shingle_count, rep: UInt64, size: UInt64, reference, group). There is one row per document in a pair. A document
/// without copies is its own representative, in a group of size 1.
pub(crate) fn members(documents: DataFrame, copies: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let copies = copies.select(vec![col("rep"), col("doc").alias("grouped"), col("size")])?;
    let scored = needed(scores.select(columns(["a", "b"]))?)?;
    let documents = documents.select(columns(["id", "doc", "shingle_count", "reference", "group"]))?;
    let member = |rep: Expr, size: Expr| {
        vec![col("id"), col("doc"), col("shingle_count"), rep, size, col("reference"), col("group")]
    };
    let grouped = copies
        .clone()
        .join(documents.clone(), JoinType::Inner, &["grouped"], &["doc"], None)?
        .select(member(col("rep"), col("size")))?;
    // `grouped` also contains the representatives.
    let grouped_docs = copies.select(columns(["grouped"]))?;
    let single = grouped_docs
        .join(scored, JoinType::RightAnti, &["grouped"], &["needed"], None)?
        .join(documents, JoinType::Inner, &["needed"], &["doc"], None)?
        .select(member(col("doc").alias("rep"), lit(1_u64).alias("size")))?;
    Ok(grouped.union(single)?)
}
