//! spared: the documents that stay although another one represents their cluster.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::min;
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::interface::{
    AnyTable, BYTES_OF_EDGE, BYTES_OF_MEMBER, Error, Planned, Result, Stage, StageContext, StagePlan, Table,
    WorkTable, not_null, null,
};
use super::removals::{containment, is_spared};
use super::represented::{copies_are_pairs, scores_of_components};
use crate::job::{ClusterMethod, Compare};

/// (id, set, root, rank, reference) of documents, (set, root, rank, representative, jaccard, ..) of groups of copies, (set, shared,
/// shingles, of_shingles, ..) of what is lost -> the columns of `schemas/spared.toml`, and `kept_id` and `kept_reference`.
///
/// A document that does not represent its cluster is spared if it is not paired with the representative, or if that has a share of
/// its shingles less than `contained`. `copies_are_pairs` is that of [`super::clusters::clusters`].
///
/// Of copies that are pairs of each other the first is spared, and the others go because of it: `kept_id` is not null. `same` has
/// the pairs (a, b) of groups with the same shingles, and `always_stays` says by `reference` what nothing removes.
pub(crate) fn spared(
    documents: DataFrame,
    sets: DataFrame,
    losses: DataFrame,
    method: ClusterMethod,
    copies_are_pairs: Expr,
    contained: f64,
    (same, always_stays): (Option<DataFrame>, Expr),
) -> Result<DataFrame> {
    let copied = documents.clone().select(vec![
        col("root").alias("kept_root"),
        col("rank").alias("kept_rank"),
        col("id").alias("kept_id"),
        col("reference").alias("kept_reference"),
    ])?;
    let kept = documents.clone().select(vec![
        col("root").alias("of_root"),
        col("rank").alias("of_rank"),
        col("id").alias("of_id"),
    ])?;
    let sets = sets.select(vec![
        col("set").alias("of_set"),
        col("rank").alias("first"),
        col("representative").alias("of"),
        col("jaccard").is_not_null().alias("paired"),
    ])?;
    let losses = losses.select(vec![
        col("set").alias("lost_set"),
        col("shared"),
        col("shingles"),
        col("of_shingles"),
    ])?;
    // As in the table clusters: copies of a representative that are not paired with it represent themselves.
    let copies_stay = if method.keeps_chains() { lit(false) } else { !copies_are_pairs.clone() };
    let is_copy = || col("first").eq(col("of"));
    let represents_itself = col("rank").eq(col("of")).or(is_copy().and(copies_stay));
    let others =
        sets.join(documents, JoinType::Right, &["of_set"], &["set"], None)?.filter(!represents_itself)?;
    let others = losses.join(others, JoinType::Right, &["lost_set"], &["of_set"], None)?.select(vec![
        col("id"),
        col("reference"),
        col("root"),
        col("rank"),
        col("set"),
        col("first"),
        col("of"),
        col("paired"),
        is_copy().alias("is_copy"),
        col("shared"),
        col("shingles"),
        col("of_shingles"),
    ])?;
    let share = |expr: Expr| -> Result<Expr> { Ok(when(col("is_copy"), lit(1.0_f64)).otherwise(expr)?) };
    let float = |expr: Expr| cast(expr, DataType::Float64);
    let jaccard = float(col("shared")) / float(col("shingles") + col("of_shingles") - col("shared"));
    let reason = when(col("paired"), lit("not_contained")).otherwise(lit("chain"))?;
    let lost = when(col("is_copy"), lit(0_u64)).otherwise(col("shingles") - col("shared"))?;
    // A copy that is paired with the representative goes, and one that is not stays.
    let goes = col("is_copy").and(col("paired"));
    let is_spared = (!goes).and(is_spared(Some(contained), col("paired"))?);
    let mut others = others.filter(is_spared.or(always_stays.clone()))?;
    let mut copy_of = when(col("rank").gt(col("first")).and(copies_are_pairs), col("first")).end()?;
    if let Some(same) = same {
        others = beside_copies(others, same, always_stays)?;
        copy_of = coalesce(vec![when(col("beside").lt(col("rank")), col("beside")).end()?, copy_of]);
    }
    let others = others.with_column("copy_of", copy_of)?;
    let keys = (&["kept_root", "kept_rank"], &["root", "copy_of"]);
    let others = copied.join(others, JoinType::Right, keys.0, keys.1, None)?;
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

/// Spared documents (set, root, of, first, ..) -> the same with `beside`: the first document of another group with the same
/// shingles that stays and is a pair (`same`). Such a group is of another side or another `source.group`.
fn beside_copies(others: DataFrame, same: DataFrame, always_stays: Expr) -> Result<DataFrame> {
    let of = |end: &str| {
        let columns = ["set", "root", "of", "first"].map(|name| col(name).alias(format!("{name}_{end}")));
        let stays = always_stays.clone().alias(format!("stays_{end}"));
        Ok::<_, Error>(others.clone().select([&columns[..], &[stays]].concat())?.distinct()?)
    };
    let turned = same.clone().select(vec![col("b").alias("a"), col("a").alias("b")])?;
    let pairs = of("a")?.join(same.union(turned)?, JoinType::Inner, &["set_a"], &["a"], None)?;
    let keys = (&["set_b", "root_b", "of_b"], &["b", "root_a", "of_a"]);
    let pairs = of("b")?.join(pairs, JoinType::Inner, keys.0, keys.1, None)?;
    let go = pairs.clone().filter(col("first_b").lt(col("first_a")).and(!col("stays_a")))?;
    let go = go.select(vec![col("set_a").alias("goes")])?.distinct()?;
    let beside = go.join(pairs, JoinType::RightAnti, &["goes"], &["set_b"], None)?;
    let beside = beside.aggregate(vec![col("set_a")], vec![min(col("first_b")).alias("beside")])?;
    Ok(beside.join(others, JoinType::Right, &["set_a"], &["set"], None)?)
}

async fn plan<'a>(cx: &'a StageContext<'_>) -> Result<Planned<'a>> {
    let job = cx.job;
    let documents = cx.table(WorkTable::RANKS)?;
    let (sets, losses) = (cx.table(WorkTable::REPRESENTED)?, cx.table(WorkTable::LOSSES)?);
    let contained = job.clusters.contained.unwrap_or_default();
    let mut bytes = 2 * cx.rows(WorkTable::RANKS) * BYTES_OF_MEMBER + cx.bytes(WorkTable::LOSSES);
    let same = match cx.reference.is_some() || job.candidates.compare == Compare::Across {
        true => {
            let (scores, count) = scores_of_components(cx).await?;
            bytes += count * BYTES_OF_EDGE;
            let same = |name: &str| col("shared").eq(col(name));
            let scores = scores.filter(same("shingles_a").and(same("shingles_b")))?;
            Some(scores.select(vec![col("a"), col("b")])?)
        }
        // Documents with the same shingles are in one group.
        false => None,
    };
    // Nothing of a second source is removed.
    let always_stays = if job.second_source().is_some() { col("reference") } else { lit(false) };
    let (method, pairs, stays) = (job.clusters.method, copies_are_pairs(job), always_stays.clone());
    let mut frame = spared(documents, sets, losses, method, pairs, contained, (same, stays))?;
    if cx.reference.is_some() {
        // Of the other clusters, no row is written.
        let clusters = cx.table(Table::Clusters)?;
        let clusters =
            clusters.select(vec![col("id").alias("of"), col("reference").alias("of_reference")])?;
        let keys = (&["of", "of_reference"], &["id", "reference"]);
        frame = clusters.join(frame, JoinType::RightSemi, keys.0, keys.1, None)?;
    }
    Ok(Planned::new(bytes, vec![frame.filter(!always_stays)?]))
}

/// Writes which documents stay although another one represents their cluster.
pub(super) static SPARED: Stage = Stage::new(
    AnyTable::Public(Table::Spared),
    |_| "write which documents stay besides the representatives, and which are copies of those".into(),
    |job| job.clusters.contained.is_some(),
    StagePlan::Later(|cx| Box::pin(plan(cx))),
)
.with_tables(|_| vec![null(Table::Spared, "kept_id"), not_null(Table::SparedCopies, "kept_id")]);
