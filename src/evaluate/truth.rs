//! Compares an output with known pairs or clusters.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::cast::as_uint64_array;
use datafusion::functions::expr_fn::{greatest, least};
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::prelude::{DataFrame, cast, col, ident, lit};
use serde::Serialize;

use crate::clusters::Components;
use crate::error::counts::plural;
use crate::error::{Error, Result};
use crate::frames;
use crate::output::Stored;
use crate::pipeline::numbers::{one_number, texts_of};
use crate::schema::Table;
use crate::source::table_file;
use crate::udf::expr_fn::document_key;

/// The agreement between an output and known pairs or clusters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// The kind of the known data: `pairs` or `clusters`. Any two documents in a known cluster are a known pair.
    pub of: &'static str,
    /// The number of known pairs.
    pub known: u64,
    /// The number of pairs in the output. With known clusters, any two documents in a cluster of the output are a pair.
    pub found: u64,
    /// The number of known pairs that the output contains.
    pub both: u64,
    /// `both / found`; `None` if the output has no pair.
    pub precision: Option<f64>,
    /// `both / known`; `None` if no pair is known.
    pub recall: Option<f64>,
    /// The harmonic mean of precision and recall.
    pub f1: Option<f64>,
    /// The adjusted Rand index between the clusters of the output and the known clusters (Hubert and Arabie, *Comparing partitions*, 1985).
    /// It is 1 for equal clusters and about 0 for random clusters. Documents that known pairs connect form a known cluster. All other
    /// documents are singletons.
    pub adjusted_rand: Option<f64>,
    /// The known ids that no compared document of the output has, sorted. Known pairs with these ids count as missed.
    pub unknown_ids: Vec<String>,
}

/// Compares an output with known pairs (id_a, id_b) or known clusters (id, cluster_id) from a CSV or Parquet file. Fails with
/// `Kind::Input` if the file cannot be read, lacks these columns, or has a document in two clusters. Fails with `Kind::Job` if the file
/// contains pairs and the output left out pairs of identical documents.
pub(super) async fn agreement(stored: &Stored, file: &str) -> Result<Agreement> {
    let known = table_file(stored.session(), file, ("--truth", "known pairs or clusters")).await?;
    let has = |name: &str| known.schema().as_arrow().column_with_name(name).is_some();
    let unknown_ids = unknown(stored, &known).await?;
    let counts = &stored.manifest().counts;
    if has("id") && has("cluster_id") {
        let known = keys(known, CLUSTER)?.distinct()?.cache().await?;
        if twos(&known, &["id"]).await? > 0 {
            return Err(Error::input(format!(
                "{file} has a document in two clusters: give each id one cluster_id"
            )));
        }
        let (pairs, adjusted_rand) = clusters(stored, known).await?;
        return Ok(counted("clusters", pairs, adjusted_rand, unknown_ids));
    }
    if !(has("id_a") && has("id_b")) {
        return Err(Error::input(format!(
            "{file} has neither the columns id_a and id_b (known pairs) nor id and cluster_id (known clusters): rename its columns"
        )));
    }
    let left_out = counts.pairs_left_out;
    if left_out > 0 {
        return Err(Error::job(format!(
            "the output leaves out {left_out} {} of identical documents (stars), so known pairs cannot be counted: run its job again \
             with output.max_expand = 0, or name a file of known clusters",
            plural(left_out, "pair")
        )));
    }
    let in_order = |pairs: DataFrame, [a, b]: [&str; 2]| {
        let ends = || PAIR.map(ident).to_vec();
        Ok::<_, Error>(keys(pairs, PAIR)?.select(vec![least(ends()).alias(a), greatest(ends()).alias(b)])?)
    };
    let known = in_order(known, PAIR)?.filter(col("id_a").not_eq(col("id_b")))?.distinct()?.cache().await?;
    let found = in_order(stored.table(Table::Pairs)?, ["a", "b"])?;
    let both = known.clone().join(found, JoinType::Inner, &PAIR, &["a", "b"], None)?.count().await?;
    let (mut components, mut all) = (Components::default(), 0);
    for batch in known.collect().await? {
        let (a, b) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        a.values().iter().zip(b.values()).for_each(|(&a, &b)| components.join(a, b));
        all += batch.num_rows() as u64;
    }
    let (docs, roots) = components.roots(0..usize::MAX);
    let column = |values: Vec<u64>| Arc::new(UInt64Array::from(values)) as ArrayRef;
    let connected = RecordBatch::try_from_iter(CLUSTER.into_iter().zip([column(docs), column(roots)]))?;
    let (_, adjusted_rand) = clusters(stored, stored.session().read_batch(connected)?).await?;
    Ok(counted("pairs", [all, counts.pairs, both as u64], adjusted_rand, unknown_ids))
}

/// The columns of known clusters, and of known pairs.
const CLUSTER: [&str; 2] = ["id", "cluster_id"];
const PAIR: [&str; 2] = ["id_a", "id_b"];

/// Compares the known clusters (id, cluster_id) with the clusters of the output. Returns the number of pairs within known clusters,
/// within clusters of the output, and within both, and the adjusted Rand index.
async fn clusters(stored: &Stored, known: DataFrame) -> Result<([u64; 3], Option<f64>)> {
    let found = keys(stored.table(Table::Clusters)?.filter(!col("reference"))?, CLUSTER)?;
    let found = found.select(vec![col("id").alias("doc"), col("cluster_id").alias("cluster")])?;
    let both = known.clone().join(found.clone(), JoinType::Inner, &["id"], &["doc"], None)?;
    let pairs = [
        twos(&known, &["cluster_id"]).await?,
        twos(&found, &["cluster"]).await?,
        twos(&both, &["cluster_id", "cluster"]).await?,
    ];
    let documents = stored.manifest().counts.documents;
    Ok((pairs, adjusted_rand(pairs, documents * documents.saturating_sub(1) / 2)))
}

/// Returns the number of pairs of rows that have equal values in the columns `by`.
async fn twos(rows: &DataFrame, by: &[&str]) -> Result<u64> {
    let same = vec![cast(count(lit(1)), DataType::UInt64).alias("same")];
    let same = rows.clone().aggregate(by.iter().copied().map(col).collect(), same)?;
    let pairs = sum(col("same") * (col("same") - lit(1_u64)) / lit(2_u64));
    one_number(same.aggregate(vec![], vec![pairs.alias("pairs")])?).await
}

/// Returns the known ids that no document of the output has, sorted.
async fn unknown(stored: &Stored, known: &DataFrame) -> Result<Vec<String>> {
    let id = |name: &str| cast(ident(name), DataType::Utf8).alias("id");
    let there = |name: &&str| known.schema().as_arrow().column_with_name(name).is_some();
    let ids = ["id", "id_a", "id_b"].into_iter().filter(there);
    let Some(all) = frames::union(ids.map(|name| Ok(known.clone().select(vec![id(name)])?)))? else {
        return Ok(Vec::new());
    };
    let documents = stored.table(Table::Documents)?.select(vec![id("id").alias("compared")])?;
    let unknown = all
        .filter(col("id").is_not_null())?
        .distinct()?
        .join(documents, JoinType::LeftAnti, &["id"], &["compared"], None)?
        .sort(vec![col("id").sort(true, false)])?;
    texts_of(unknown).await
}

/// Replaces the ids in two columns by the keys of documents. Drops rows without both ids.
fn keys(frame: DataFrame, columns: [&str; 2]) -> Result<DataFrame> {
    let whole = frame.filter(ident(columns[0]).is_not_null().and(ident(columns[1]).is_not_null()))?;
    let key = |name: &str| document_key(cast(ident(name), DataType::Utf8)).alias(name);
    Ok(whole.select(columns.map(key).to_vec())?)
}

/// Returns the adjusted Rand index from the numbers of known pairs, of found pairs, and of pairs that are both. `all` is the number of
/// all pairs of documents.
fn adjusted_rand([known, found, both]: [u64; 3], all: u64) -> Option<f64> {
    let (known, found) = (known as f64, found as f64);
    let by_chance = known * found / all as f64;
    let most = f64::midpoint(known, found);
    // The index is undefined if no two documents share a cluster, or if all documents are in one cluster.
    (most > by_chance).then(|| (both as f64 - by_chance) / (most - by_chance))
}

fn counted(
    of: &'static str,
    [known, found, both]: [u64; 3],
    adjusted_rand: Option<f64>,
    unknown_ids: Vec<String>,
) -> Agreement {
    let share = |all: u64| (all > 0).then(|| both as f64 / all as f64);
    let f1 = (known + found > 0).then(|| 2.0 * both as f64 / (known + found) as f64);
    let (precision, recall) = (share(found), share(known));
    Agreement { of, known, found, both, precision, recall, f1, adjusted_rand, unknown_ids }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example for the adjusted Rand index in the manual of scikit-learn, and equal partitions.
    #[test]
    fn the_index_is_the_published_one() {
        // The partitions (0, 0, 1, 2) and (0, 0, 1, 1).
        assert!((adjusted_rand([1, 2, 1], 6).unwrap() - 0.571_428_571_428_571_4).abs() < 1e-12);
        assert_eq!(adjusted_rand([2, 2, 2], 6), Some(1.0));
        assert!(adjusted_rand([2, 2, 0], 6).unwrap() < 0.0);
        assert_eq!(adjusted_rand([0, 0, 0], 3), None);
    }
}
