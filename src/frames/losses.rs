//! Counts lost shingles, which only removed documents contain, and finds the documents that are spared because of their shingles.

use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{bool_or, count, min, sum};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, col, lit, when};

use super::decisions::mark_apart;
use super::ranks::representatives_of_edges;
use super::{columns, float, number, renamed, suffixed};
use crate::clusters::Division;
use crate::error::Result;
use crate::job::{ClusterMethod, Job};
use crate::operator::clusters::{CHAINED, CountLosses, PAIRED, REPRESENTATIVE, STAYS};
use crate::operator::{self, Operator};

const REMOVAL: [&str; 8] =
    ["set", "of_set", "root", "place", "documents", "shared", "shingles", "of_shingles"];

/// Documents (set, reference, ..), groups of copies (set, root, rank, representative, ..), scores (a, b, shared, shingles_a, shingles_b,
/// ..) -> (set, of_set, root, place, documents, shared, shingles, of_shingles: UInt64). There is one row per shingle set that differs from
/// its representative's set, `of_set`.
///
/// `root` and `place` identify the cluster. `documents` is the number of new documents with the set. The last three columns are null if the
/// set and its representative's set are not a pair.
pub(crate) fn removals(ranks: DataFrame, represented: DataFrame, scores: DataFrame) -> Result<DataFrame> {
    let own = ranks
        .filter(!col("reference"))?
        .aggregate(columns(["set"]), vec![count(lit(1)).alias("times")])?
        .select(renamed([("set", "own_set"), ("times", "times")]))?;
    let represents_itself = || col("rank").eq(col("representative"));
    let kept = represented.clone().filter(represents_itself())?.select(renamed([
        ("set", "of_set"),
        ("root", "of_root"),
        ("rank", "of_rank"),
    ]))?;
    let others = represented.filter(!represents_itself())?.select(renamed([
        ("set", "set"),
        ("root", "root"),
        ("representative", "place"),
    ]))?;
    let removed = kept.join(others, JoinType::Inner, &["of_root", "of_rank"], &["root", "place"], None)?;
    let documents = number(coalesce(vec![col("times"), lit(0_i64)])).alias("documents");
    let removed = own
        .join(removed, JoinType::Right, &["own_set"], &["set"], None)?
        .select([columns(["set", "of_set", "root", "place"]), vec![documents]].concat())?;
    let scored = |member, other, shingles, of_shingles| {
        scores.clone().select(renamed([
            (member, "member"),
            (other, "other"),
            ("shared", "shared"),
            (shingles, "shingles"),
            (of_shingles, "of_shingles"),
        ]))
    };
    let both =
        scored("a", "b", "shingles_a", "shingles_b")?.union(scored("b", "a", "shingles_b", "shingles_a")?)?;
    let removed = removed.join(both, JoinType::Left, &["set", "of_set"], &["member", "other"], None)?;
    Ok(removed.select(columns(REMOVAL))?)
}

/// Adds `lossy: UInt64` to [`removals`]. It counts the sets in the cluster that may lose shingles, and the kept sets with shingles that
/// the representative may lack. It is null if no set in the cluster may lose shingles.
pub(crate) fn with_lossy(removed: DataFrame, job: &Job) -> Result<DataFrame> {
    let sets = vec![count(lit(1)).alias("sets"), bool_or(may_lose()).alias("loses")];
    let lossy = removed
        .clone()
        .filter(may_lose().or(stays(job)?))?
        .aggregate(columns(["root", "place"]), sets)?
        .filter(col("loses"))?
        .select(vec![
            col("root").alias("lossy_root"),
            col("place").alias("lossy_place"),
            number(col("sets")).alias("lossy"),
        ])?;
    let keys = (&["root", "place"], &["lossy_root", "lossy_place"]);
    let removed = removed.join(lossy, JoinType::Left, keys.0, keys.1, None)?;
    Ok(removed.select([columns(REMOVAL), columns(["lossy"])].concat())?)
}

/// Whether a set belongs to new documents and may contain shingles that its representative lacks.
fn may_lose() -> Expr {
    col("documents").gt(lit(0_u64)).and(may_lack())
}

/// Whether the representative may lack a shingle in the set.
fn may_lack() -> Expr {
    col("shared").is_null().or(col("shared").lt(col("shingles")))
}

/// Whether a set belongs only to kept documents, such as documents from a second source, and may have shingles that its representative
/// lacks. These shingles are not lost. If the job has decisions, the column `apart` marks sets that are kept because of them.
fn stays(job: &Job) -> Result<Expr> {
    let decided = if job.clusters.decisions.is_some() { col("apart") } else { lit(false) };
    let stays = decided
        .or(lit(job.second_source().is_some()))
        .or(is_spared(job.clusters.contained, col("shared").is_not_null())?);
    Ok(col("documents").eq(lit(0_u64)).and(may_lack()).and(stays))
}

/// Whether the losses of a set in [`with_lossy`] follow from its score. The set is then paired with its representative, and no other set
/// in the cluster may lose shingles, so that no shingle is counted twice.
fn loses_alone() -> Expr {
    may_lose().and(col("shared").is_not_null()).and(col("lossy").eq(lit(1_u64)))
}

/// [`with_lossy`] -> (doc, root, place, role, documents: UInt64), one row per shingle set. `doc` is a document with the set. Losses are
/// counted from these sets:
///
/// - sets with shingles that their representatives may lack, unless the losses follow from the score,
/// - the representatives of these sets, and
/// - kept sets in the same clusters.
pub(crate) fn roles(removals: DataFrame, job: &Job) -> Result<DataFrame> {
    let needed = may_lose().and(!loses_alone()).or(stays(job)?);
    let removals = removals.filter(col("lossy").is_not_null().and(needed))?;
    let role = when(col("documents").eq(lit(0_u64)), lit(STAYS))
        .when(col("shared").is_null(), lit(CHAINED))
        .otherwise(lit(PAIRED))?;
    let removed = removals.clone().select(vec![
        col("set").alias("doc"),
        col("root"),
        col("place"),
        role.alias("role"),
        col("documents"),
    ])?;
    let kept = removals.select(columns(["of_set", "root", "place"]))?.distinct()?.select(vec![
        col("of_set").alias("doc"),
        col("root"),
        col("place"),
        lit(REPRESENTATIVE).alias("role"),
        lit(0_u64).alias("documents"),
    ])?;
    Ok(removed.union(kept)?)
}

/// Whether a document that does not represent its cluster is spared: the rule of [`crate::clusters::is_spared`] on (shared, shingles).
fn is_spared(contained: Option<f64>, paired: Expr) -> Result<Expr> {
    let Some(least) = contained else { return Ok(lit(false)) };
    Ok(when(paired, containment().lt(lit(least))).otherwise(lit(true))?)
}

fn containment() -> Expr {
    float(col("shared")) / float(col("shingles"))
}

/// The data from which losses are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Basis {
    Shingles,
    /// Only the scores of pairs, in a merge of outputs without shingles.
    Scores,
}

/// Removals (set, documents, shared, shingles, ..) -> the columns of [`operator::clusters::losses_schema`]. These losses follow from
/// scores, so no texts are read. A set has a row if its representative contains it, if its losses follow from its score, or if it has no
/// new documents. With [`Basis::Scores`], there is a row for every set.
pub(crate) fn known_losses(removals: DataFrame, basis: Basis, contained: Option<f64>) -> Result<DataFrame> {
    let is_contained = col("shared").is_not_null().and(col("shared").eq(col("shingles")));
    let no_document = col("documents").eq(lit(0_u64));
    let removals = match basis {
        Basis::Shingles => removals.filter(is_contained.or(no_document).or(loses_alone()))?,
        Basis::Scores => removals,
    };
    let goes_alone = loses_alone().and(!is_spared(contained, lit(true))?);
    let gone = coalesce(vec![when(goes_alone, col("shingles") - col("shared")).end()?, lit(0_u64)]);
    Ok(removals.select(vec![
        col("set"),
        col("documents"),
        col("shared").is_not_null().alias("paired"),
        col("shared"),
        col("shingles"),
        col("of_shingles"),
        gone.alias("gone"),
    ])?)
}

/// [`roles`], sketches (doc, shingles, ..) of their documents -> the columns of [`operator::clusters::losses_schema`], for the sets that
/// [`known_losses`] omits.
pub(crate) fn counted_losses(
    roles: DataFrame,
    sketches: DataFrame,
    contained: Option<f64>,
) -> Result<DataFrame> {
    let sketches = sketches.select(renamed([("doc", "set"), ("shingles", "shingles")]))?;
    let sets = roles.join(sketches, JoinType::Inner, &["doc"], &["set"], None)?;
    let sets = sets.select(columns(["root", "place", "role", "set", "documents", "shingles"]))?;
    operator::apply(Operator::Losses(CountLosses { contained }), vec![sets])
}

/// A removal is lossy if it loses more than one in this many shingles (more than 2 %).
const LOSSY: u64 = 50;

/// Losses -> one row (lossy_removals, shingles). `lossy_removals` is the number of removed documents that lose more than 2 % of their
/// shingles. `shingles` is the number of shingles that only removed documents contain. Both are null if no document is removed.
pub(crate) fn total_losses(losses: DataFrame, contained: Option<f64>) -> Result<DataFrame> {
    let is_lossy = ((col("shingles") - col("shared")) * lit(LOSSY)).gt(col("shingles"));
    let is_lossy = is_lossy.and(!is_spared(contained, col("paired"))?);
    let lossy = sum(when(is_lossy, col("documents")).end()?).alias("lossy_removals");
    Ok(losses.aggregate(vec![], vec![lossy, sum(col("gone")).alias("shingles")])?)
}

pub(crate) struct SpareRules {
    pub(crate) method: ClusterMethod,
    /// An expression over `reference` that says whether documents with the same shingles are pairs.
    pub(crate) copies_are_pairs: Expr,
    pub(crate) contained: Option<f64>,
    /// The sets (set) that are kept because of decisions.
    pub(crate) apart: Option<DataFrame>,
    /// An expression over `reference` that says whether a document is never removed.
    pub(crate) always_stays: Expr,
}

/// Documents (id, set, root, rank, reference), groups of copies (set, root, rank, representative, jaccard, ..), losses (set, shared,
/// shingles, of_shingles, ..) -> the columns of `schemas/spared.toml`, with `kept_id` and `kept_reference`.
///
/// Only documents that do not represent their cluster are spared. Such a document is not paired with the representative, or the
/// representative contains less than a share `contained` of its shingles, or a decision keeps it.
///
/// If copies are pairs, the first copy is spared and replaces the others. `kept_id` is its id for the other copies, and null for all
/// other documents. `same` contains the pairs (a, b) of groups with the same shingles.
pub(crate) fn spared(
    documents: DataFrame,
    sets: DataFrame,
    losses: DataFrame,
    same: Option<DataFrame>,
    rules: SpareRules,
) -> Result<DataFrame> {
    let SpareRules { method, copies_are_pairs, contained, apart, always_stays } = rules;
    let copied = documents.clone().select(renamed([
        ("root", "kept_root"),
        ("rank", "kept_rank"),
        ("id", "kept_id"),
        ("reference", "kept_reference"),
    ]))?;
    let kept =
        documents.clone().select(renamed([("root", "of_root"), ("rank", "of_rank"), ("id", "of_id")]))?;
    let sets = sets.select(vec![
        col("set").alias("of_set"),
        col("rank").alias("first"),
        col("representative").alias("of"),
        col("jaccard").is_not_null().alias("paired"),
    ])?;
    let losses = losses.select(renamed([
        ("set", "lost_set"),
        ("shared", "shared"),
        ("shingles", "shingles"),
        ("of_shingles", "of_shingles"),
    ]))?;
    // As in the table `clusters`, a copy that is not paired with its representative represents itself.
    let copies_stay = if method.joins_unpaired() { lit(false) } else { !copies_are_pairs.clone() };
    let is_copy = || col("first").eq(col("of"));
    let represents_itself = col("rank").eq(col("of")).or(is_copy().and(copies_stay));
    let others =
        sets.join(documents, JoinType::Right, &["of_set"], &["set"], None)?.filter(!represents_itself)?;
    let document = columns(["id", "reference", "root", "rank", "set", "first", "of", "paired"]);
    let counts = columns(["shared", "shingles", "of_shingles"]);
    let others = losses
        .join(others, JoinType::Right, &["lost_set"], &["of_set"], None)?
        .select([document, vec![is_copy().alias("is_copy")], counts].concat())?;
    // A copy is removed if it is paired with the representative.
    let goes = col("is_copy").and(col("paired"));
    let is_spared = (!goes).and(is_spared(contained, col("paired"))?);
    let is_decided = apart.is_some();
    let (others, is_apart) = match apart {
        Some(apart) => (mark_apart(others, apart)?, col("apart")),
        None => (others, lit(false)),
    };
    let mut others = others.filter(is_spared.or(is_apart.clone()).or(always_stays.clone()))?;
    let mut copy_of = when(col("rank").gt(col("first")).and(copies_are_pairs), col("first")).end()?;
    if let Some(same) = same {
        others = if is_decided {
            beside_divided_copies(others, same)?
        } else {
            beside_copies(others, same, always_stays)?
        };
        copy_of = coalesce(vec![when(col("beside").lt(col("rank")), col("beside")).end()?, copy_of]);
    }
    let others = others.with_column("copy_of", copy_of)?;
    let keys = (&["kept_root", "kept_rank"], &["root", "copy_of"]);
    let others = copied.join(others, JoinType::Right, keys.0, keys.1, None)?;
    let share = |expr: Expr| when(col("is_copy"), lit(1.0_f64)).otherwise(expr);
    let jaccard = float(col("shared")) / float(col("shingles") + col("of_shingles") - col("shared"));
    let reason =
        when(is_apart, lit("different")).when(col("paired"), lit("not_contained")).otherwise(lit("chain"))?;
    let lost = when(col("is_copy"), lit(0_u64)).otherwise(col("shingles") - col("shared"))?;
    Ok(kept.join(others, JoinType::Inner, &["of_root", "of_rank"], &["root", "of"], None)?.select(vec![
        col("id"),
        col("reference"),
        col("of_id").alias("representative"),
        share(jaccard)?.alias("jaccard"),
        share(containment())?.alias("containment"),
        reason.alias("reason"),
        lost.alias("lost_shingles"),
        col("kept_id"),
        col("kept_reference"),
    ])?)
}

/// Adds `beside` to spared documents (set, root, of, first, ..). It is the rank of the first document in another kept group with the same
/// shingles, if `same` contains the pair. The other group has another `source.group`, or one group is new and the other consists of
/// reference documents.
fn beside_copies(others: DataFrame, same: DataFrame, always_stays: Expr) -> Result<DataFrame> {
    let marked = others.clone().with_column("stays", always_stays)?;
    let pairs = pairs_of_copies(same, |end| {
        Ok(suffixed(&marked, &["set", "root", "of", "first", "stays"], end)?.distinct()?)
    })?;
    let go = pairs.clone().filter(col("first_b").lt(col("first_a")).and(!col("stays_a")))?;
    let go = go.select(renamed([("set_a", "goes")]))?.distinct()?;
    with_beside(others, go.join(pairs, JoinType::RightAnti, &["goes"], &["set_b"], None)?)
}

/// Like [`beside_copies`], but for a job with decisions. Two copies of a document can then be different from each other, so a group of
/// copies is only removed if it is a pair with an earlier group that stays.
fn beside_divided_copies(others: DataFrame, same: DataFrame) -> Result<DataFrame> {
    // `first` can be the representative of the cluster, which is not in `others`.
    let first = min(col("rank")).alias("first");
    let groups = others.clone().aggregate(columns(["set", "root", "of"]), vec![first])?;
    let pairs = pairs_of_copies(same, |end| suffixed(&groups, &["set", "root", "of", "first"], end))?
        .filter(col("first_b").lt(col("first_a")))?;
    let mut edge = renamed([("root_a", "root"), ("first_a", "high"), ("first_b", "low")]);
    edge.push(lit(1.0_f64).alias("jaccard"));
    let found =
        representatives_of_edges(pairs.clone().select(edge)?, Division::Part(ClusterMethod::Representative))?;
    let keys = (&["found_root", "found_rank", "found"], &["root_a", "first_a", "first_b"]);
    with_beside(others, found.join(pairs, JoinType::RightSemi, keys.0, keys.1, None)?)
}

/// Pairs `same` (a, b) of groups, the columns (set, root, of, ..) of groups with a suffix -> the columns of both groups, with the suffixes
/// `_a` and `_b`. Each pair within a cluster is in both orders.
fn pairs_of_copies(same: DataFrame, end: impl Fn(&str) -> Result<DataFrame>) -> Result<DataFrame> {
    let turned = same.clone().select(renamed([("b", "a"), ("a", "b")]))?;
    let pairs = end("a")?.join(same.union(turned)?, JoinType::Inner, &["set_a"], &["a"], None)?;
    let keys = (&["set_b", "root_b", "of_b"], &["b", "root_a", "of_a"]);
    Ok(end("b")?.join(pairs, JoinType::Inner, keys.0, keys.1, None)?)
}

/// Adds `beside` to `others` (set, ..): the smallest `first_b` of their pairs (set_a, first_b, ..).
fn with_beside(others: DataFrame, pairs: DataFrame) -> Result<DataFrame> {
    let beside = pairs.aggregate(columns(["set_a"]), vec![min(col("first_b")).alias("beside")])?;
    Ok(beside.join(others, JoinType::Right, &["set_a"], &["set"], None)?)
}
