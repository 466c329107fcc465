//! clusters: documents that are connected by pairs, or represented by the same one.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{bool_and, bool_or, count, min};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{DataFrame, cast, col, lit, when};

use super::interface::{
    AnyTable, BYTES_OF_MEMBER, Planned, Result, Stage, StageContext, StagePlan, Table, WorkTable, frames,
};
use super::ranks::clustered;
use super::represented::copies_are_pairs;
use crate::frames::cluster_id::{ClusterId, Founders, Replaced};
use crate::job::ClusterMethod;

/// (id, set, root, rank, reference) of documents, (set, root, rank, representative, jaccard, weakest_link) of groups of copies ->
/// (id, cluster_id, size, representative, jaccard_to_representative, weakest_link, reference).
///
/// Documents of a component that have the same representative are a cluster. With [`ClusterMethod::Representative`],
/// documents that are not a pair with their representative represent themselves: if copies are not pairs
/// (`copies_are_pairs`, by `reference`), these are the documents of a representative's own group, except for the first
/// one.
///
/// # Errors
/// When a frame lacks its columns.
pub fn clusters(
    documents: DataFrame,
    sets: DataFrame,
    method: ClusterMethod,
    copies_are_pairs: Expr,
    ids: ClusterId,
) -> Result<DataFrame> {
    let sets = sets.select(vec![
        col("set").alias("of_set"),
        col("rank").alias("first"),
        col("representative").alias("of"),
        col("jaccard"),
        col("weakest_link"),
    ])?;
    let copies_stay = if method.keeps_chains() { lit(false) } else { !copies_are_pairs };
    let of = when(col("first").eq(col("of")).and(copies_stay), col("rank")).otherwise(col("of"))?;
    let is_representative = || col("rank").eq(of.clone());
    let weakest = match method.keeps_chains() {
        true => when(is_representative(), lit(1.0_f64)).otherwise(col("weakest_link"))?,
        false => col("weakest_link"),
    };
    let (documents, kept, replaced) = match ids {
        ClusterId::Least => (documents, None, false),
        ClusterId::LeastNew => (documents, Some(when(!col("reference"), col("id")).end()?), false),
        ClusterId::Kept(founders) => {
            let Founders { present, replaced } = *founders;
            let founders = present.select(vec![col("id").alias("founder")])?;
            let mut documents = founders.join(documents, JoinType::Right, &["founder"], &["id"], None)?;
            let is_replaced = replaced.is_some();
            if let Some(Replaced { founders, others }) = replaced {
                let founders = founders.select(vec![col("id").alias("replaced")])?;
                let others =
                    others.select(vec![col("id").alias("other"), col("founder").alias("left_by")])?;
                documents = founders.join(documents, JoinType::Right, &["replaced"], &["id"], None)?;
                documents = others.join(documents, JoinType::Right, &["other"], &["id"], None)?;
            }
            (documents, Some(col("founder")), is_replaced)
        }
    };
    let mut columns = vec![
        col("id"),
        col("root"),
        col("rank"),
        when(is_representative(), lit(1.0_f64)).otherwise(col("jaccard"))?.alias("jaccard_to_representative"),
        weakest.alias("weakest_link"),
        of.alias("of"),
        col("reference"),
    ];
    columns.extend(kept.clone().map(|kept| kept.alias("kept")));
    if replaced {
        columns.extend(["replaced", "left_by"].map(col));
    }
    let mut rows = sets.join(documents, JoinType::Right, &["of_set"], &["set"], None)?.select(columns)?;
    let mut found = vec![min(col("id")).alias("least"), count(lit(1)).alias("documents")];
    let mut least = vec![col("least")];
    if replaced {
        rows = kept_with_others(rows)?;
        found.push(min(when(col("replaced").is_null(), col("id")).end()?).alias("least_other"));
        // A cluster of nothing but replaced founders has no other id.
        least.insert(0, col("least_other"));
    }
    if kept.is_some() {
        found.extend([
            min(col("kept")).alias("least_kept"),
            bool_and(col("reference")).alias("only_reference"),
        ]);
    }
    // The aggregation holds one row for each cluster: it does not sort.
    let of_cluster = vec![col("root").alias("cluster_root"), col("of").alias("cluster_of")];
    let clusters = rows.clone().aggregate(of_cluster, found)?;
    // If all clusters are written, every document has its cluster. The join is not an inner one, so that the documents
    // are the side that is not held, however many a cluster has, both if the engine joins by hash and if it sorts.
    let (clusters, cluster_id, join) = match kept {
        None => (clusters, col("least"), JoinType::Right),
        Some(_) => {
            least.insert(0, col("least_kept"));
            let id = coalesce(least);
            (clusters.filter(!col("only_reference"))?, id, JoinType::Inner)
        }
    };
    let keys = (&["cluster_root", "cluster_of"], &["root", "of"]);
    Ok(clusters.join(rows, join, keys.0, keys.1, None)?.select(vec![
        col("id"),
        cluster_id.alias("cluster_id"),
        cast(col("documents"), DataType::UInt64).alias("size"),
        col("rank").eq(col("of")).alias("representative"),
        col("jaccard_to_representative"),
        col("weakest_link"),
        col("reference"),
    ])?)
}

/// Documents by cluster (root, of), where `replaced` is their id if they are replaced founders and `left_by` the replaced founder of
/// their old cluster -> the same, where `kept` are the replaced founders whose new cluster has another document of their old one.
fn kept_with_others(rows: DataFrame) -> Result<DataFrame> {
    let others = rows.clone().filter(col("left_by").is_not_null())?.select(vec![
        col("root").alias("other_root"),
        col("of").alias("other_of"),
        col("left_by").alias("next_to"),
    ])?;
    let columns = rows.schema().columns().into_iter().map(|column| match column.name.as_str() {
        "kept" => coalesce(vec![col("kept"), col("next_to")]).alias("kept"),
        _ => Expr::Column(column),
    });
    let columns: Vec<Expr> = columns.collect();
    let keys = (&["other_root", "other_of", "next_to"], &["root", "of", "replaced"]);
    Ok(others.distinct()?.join(rows, JoinType::Right, keys.0, keys.1, None)?.select(columns)?)
}

/// (id, cluster_id, ..), the founders -> (old_cluster_id, cluster_id) of each cluster of an earlier run that has another id now. The
/// documents of a cluster without its founder may be in several clusters now: the smallest of their ids counts.
pub(crate) fn changes(clusters: DataFrame, Founders { present, replaced }: Founders) -> Result<DataFrame> {
    let mut old = present.select(vec![col("id").alias("old_cluster_id"), col("id").alias("document")])?;
    if let Some(Replaced { others, .. }) = replaced {
        old = old.union(others.select(vec![col("founder"), col("id")])?)?;
    }
    let clusters = clusters.select(vec![col("id"), col("cluster_id")])?;
    let now = vec![
        min(col("cluster_id")).alias("cluster_id"),
        bool_or(col("old_cluster_id").eq(col("cluster_id"))).alias("stays"),
    ];
    Ok(old
        .join(clusters, JoinType::Inner, &["document"], &["id"], None)?
        .aggregate(vec![col("old_cluster_id")], now)?
        .filter(!col("stays"))?
        .select(vec![col("old_cluster_id"), col("cluster_id")])?)
}

/// Which ids clusters get.
pub(super) fn cluster_ids(cx: &StageContext<'_>) -> Result<ClusterId> {
    match cx.reference {
        None => Ok(ClusterId::Least),
        Some(reference) => reference.cluster_id(cx),
    }
}

/// Writes the clusters.
pub(super) static CLUSTERS: Stage = Stage::new(
    AnyTable::Public(Table::Clusters),
    |job| match job.against {
        Some(_) => "write the clusters that new documents are in".into(),
        None => "write the clusters".into(),
    },
    |_| true,
    StagePlan::Now(|cx| {
        let job = cx.job;
        let (ranks, sets) = (cx.table(WorkTable::RANKS)?, cx.table(WorkTable::REPRESENTED)?);
        let method = job.clusters.method;
        let mut frame = clusters(ranks, sets, method, copies_are_pairs(job), cluster_ids(cx)?)?;
        if !method.keeps_chains() {
            frame = frame.drop_columns(&["weakest_link"])?;
        }
        if job.has_groups() {
            let documents = match cx.reference {
                None => cx.table(WorkTable::MEMBERS)?,
                Some(reference) => clustered(cx, reference)?,
            };
            frame = frames::by_group::of_clusters(frame, documents)?;
        }
        let bytes = cx.rows(WorkTable::RANKS) * BYTES_OF_MEMBER + cx.bytes(WorkTable::REPRESENTED);
        Ok(Planned::new(bytes, vec![frame]))
    }),
);
