//! copies: groups of documents with the same shingle set that are in the same pairs. One of each group is compared; the
//! others are added at the end.
//!
//! Everything that decides which pairs a document is in also decides its group: the set, the group of `source.group` if
//! the job compares by groups, and whether it is a reference document.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::{greatest, least};
use datafusion::functions_aggregate::expr_fn::{count, min};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit};

use super::scores::needed;
use crate::error::Result;
use crate::job::{Compare, Expand, Job, NewPairs, Output};

/// The columns that decide which documents are copies of each other, as far as a frame has them.
const KEY: [&str; 5] = ["set_hash_0", "set_hash_1", "group_key", "reference", "root"];

/// Those columns that `frame` has.
pub(crate) fn key(frame: &DataFrame) -> Vec<&'static str> {
    let has = |name: &&str| frame.schema().as_arrow().column_with_name(name).is_some();
    KEY.into_iter().filter(has).collect()
}

/// Which groups of copies are pairs of each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paired {
    /// All.
    All,
    /// Those of new documents: two reference documents are not a pair.
    New,
    /// None.
    None,
}

/// The rules of a job for copies: which are pairs, and which of these pairs are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<'a> {
    output: &'a Output,
    pub(crate) compare: Compare,
    pub(crate) new_pairs: Option<NewPairs>,
}

impl<'a> Rules<'a> {
    /// The rules of `job`.
    pub(crate) fn of(job: &'a Job) -> Self {
        Self { output: &job.output, compare: job.candidates.compare, new_pairs: job.new_pairs() }
    }

    /// Which copies are pairs of each other.
    pub(crate) fn paired(&self) -> Paired {
        match (self.compare, self.new_pairs) {
            // Copies are of one group.
            (Compare::Across, _) | (_, Some(NewPairs::WithReference)) => Paired::None,
            (_, Some(NewPairs::WithEachOther)) => Paired::New,
            (_, None) => Paired::All,
        }
    }

    /// Those of `groups` (reference, ..) whose documents are pairs of each other.
    pub(crate) fn of_paired(&self, groups: DataFrame) -> Result<DataFrame> {
        Ok(match self.paired() {
            Paired::All => groups,
            Paired::New => groups.filter(!col("reference"))?,
            Paired::None => groups.filter(lit(false))?,
        })
    }

    /// Whether a group of this size is written as a star: pairs of its smallest id with each other one.
    pub(crate) fn is_star(&self, size: Expr) -> Expr {
        match (self.compare, self.output.expand) {
            (Compare::Across, _) => lit(false),
            (_, Expand::All) => size.gt(lit(self.output.most_expanded().unwrap_or(u64::MAX))),
            (_, Expand::Star) => size.gt(lit(1_u64)),
        }
    }
}

/// (doc, set_hash_0, set_hash_1, ..) -> (rep: UInt64, doc: UInt64, size: UInt64, reference: Boolean), one row per document that
/// has a copy: `rep` is the least key of the group, `size` the number of its documents.
///
/// With a column `group_key: UInt64` or `reference: Boolean`, only documents with the same value in it are copies of
/// each other. Without a column `reference`, no document is a reference document.
///
/// # Errors
/// When the frame has other columns.
pub fn copies(keys: DataFrame) -> Result<DataFrame> {
    let same = key(&keys);
    let is_reference =
        if same.contains(&"reference") { col("reference") } else { lit(false).alias("reference") };
    let reps = keys
        .clone()
        .aggregate(
            same.into_iter().map(col).collect(),
            vec![min(col("doc")).alias("rep"), count(lit(1)).alias("times")],
        )?
        .filter(col("times").gt(lit(1)))?;
    let size = cast(col("times"), DataType::UInt64).alias("size");
    // The groups are the side that is held, since most documents have no copies.
    let joined = of_one_key(reps, vec![col("rep"), size], keys)?;
    Ok(joined.select(vec![col("rep"), col("doc"), col("size"), is_reference])?)
}

/// The rows of `right` with these `columns` of the row of `left` that has the same key.
pub(crate) fn of_one_key(left: DataFrame, columns: Vec<Expr>, right: DataFrame) -> Result<DataFrame> {
    let same = key(&right);
    let names: Vec<String> = same.iter().map(|name| format!("left_{name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let renamed = same.iter().zip(&names).map(|(name, renamed)| col(*name).alias(*renamed));
    let left = left.select(renamed.chain(columns).collect::<Vec<_>>())?;
    Ok(left.join(right, JoinType::Inner, &names, &same, None)?)
}

/// (set_hash_0, set_hash_1, ..) -> (size: UInt64), one row per shingle set: the number of its documents, of all groups,
/// reference documents included.
pub(crate) fn sizes_of_sets(keys: DataFrame) -> Result<DataFrame> {
    let sets = vec![col("set_hash_0"), col("set_hash_1")];
    let sizes = keys.aggregate(sets, vec![count(lit(1)).alias("times")])?;
    Ok(sizes.select(vec![cast(col("times"), DataType::UInt64).alias("size")])?)
}

/// The rows of `frame` whose column `doc` is not a copy that another document of its group represents.
pub(crate) fn without_copies(frame: DataFrame, groups: DataFrame) -> Result<DataFrame> {
    let copies = groups.filter(col("doc").not_eq(col("rep")))?.select(vec![col("doc").alias("copy")])?;
    Ok(copies.join(frame, JoinType::RightAnti, &["copy"], &["doc"], None)?)
}

/// The groups of (rep, doc, size, reference) that are in pairs: with each other, or because their representative has a
/// score (a, b, ..).
pub(crate) fn in_pairs(groups: DataFrame, scores: DataFrame, rules: Rules<'_>) -> Result<DataFrame> {
    let scored = |groups: DataFrame| -> Result<DataFrame> {
        let scored = needed(scores.select(vec![col("a"), col("b")])?)?;
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

/// New documents (doc, set_hash_0, set_hash_1, ..) and reference documents, one of each group of copies -> the scores
/// of those with the same shingles, which need no comparison: the columns of [`crate::operator::scorer::schema`].
/// Reference documents also have `shingle_count`, and `bands` is the number of bands that two identical signatures
/// share.
pub(crate) fn scores_of_sides(new: DataFrame, reference: DataFrame, bands: usize) -> Result<DataFrame> {
    let columns = vec![col("doc").alias("reference_doc"), col("shingle_count")];
    // The reference documents are the side that is held: they are only those that may match new ones.
    let joined = of_one_key(reference, columns, new)?;
    let ends = || vec![col("doc"), col("reference_doc")];
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

/// The `candidates` (a, b) without those of `scores` (a, b, ..).
pub(crate) fn unscored(candidates: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let scores = scores.select(vec![col("a").alias("scored_a"), col("b").alias("scored_b")])?;
    Ok(scores.join(candidates, JoinType::RightAnti, &["scored_a", "scored_b"], &["a", "b"], None)?)
}
