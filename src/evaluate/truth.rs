//! Compares an output with pairs or clusters that are known to be right.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::prelude::{CsvReadOptions, DataFrame, ParquetReadOptions, SessionContext, cast, col, ident};
use futures::TryStreamExt;
use serde::Serialize;

use crate::address;
use crate::clusters::Components;
use crate::error::{Context, Error, Result};
use crate::frames;
use crate::output::Stored;
use crate::schema::Table;
use crate::udf::expr_fn::document_key;

/// How far an output agrees with what is known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Agreement {
    /// What is known: `pairs`, or `clusters`, whose pairs are every two documents of a cluster.
    pub of: &'static str,
    /// Known pairs.
    pub known: u64,
    /// Pairs of the output.
    pub found: u64,
    /// Pairs that are both.
    pub both: u64,
    /// `both / found`; `None` if the output has no pair.
    pub precision: Option<f64>,
    /// `both / known`; `None` if no pair is known.
    pub recall: Option<f64>,
    /// The harmonic mean of the two.
    pub f1: Option<f64>,
    /// The adjusted Rand index of the clusters of the output and the known ones, or those that known pairs connect (Hubert and
    /// Arabie, *Comparing partitions*, 1985): 1 where they are the same, and about 0 for clusters by chance. All other documents
    /// are alone.
    pub adjusted_rand: Option<f64>,
    /// Known ids that no compared document of the output has, sorted. Pairs with them are known and never found.
    pub unknown_ids: Vec<String>,
}

/// The keys of two documents.
type Keys = (u64, u64);

/// Holds an output against the known pairs (id_a, id_b) or clusters (id, cluster_id) of a CSV or Parquet file.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where the file cannot be read or lacks these columns;
/// [`Kind::Job`](crate::error::Kind::Job) where pairs are known and the output leaves some of its own out.
pub(super) async fn agreement(stored: &Stored, file: &str) -> Result<Agreement> {
    let known = read(stored.session(), file).await?;
    let has = |name: &str| known.schema().as_arrow().column_with_name(name).is_some();
    let unknown_ids = unknown(stored, &known).await?;
    let clusters = clusters(stored).await?;
    let documents = stored.manifest().counts.documents;
    if has("id") && has("cluster_id") {
        let mut of: HashMap<u64, u64> = HashMap::new();
        for (id, cluster) in keys(known, ["id", "cluster_id"]).await? {
            if of.insert(id, cluster).is_some_and(|before| before != cluster) {
                return Err(Error::input(format!(
                    "{file} has a document in two clusters: give each id one cluster_id"
                )));
            }
        }
        let (known, found, both) = (within(of.values()), within(clusters.values()), shared(&of, &clusters));
        let adjusted_rand = adjusted_rand(&of, &clusters, documents);
        return Ok(Agreement { adjusted_rand, unknown_ids, ..counted("clusters", known, found, both) });
    }
    if !(has("id_a") && has("id_b")) {
        return Err(Error::input(format!(
            "{file} has neither the columns id_a and id_b (known pairs) nor id and cluster_id (known clusters): rename its columns"
        )));
    }
    let left_out = stored.manifest().counts.pairs_left_out;
    if left_out > 0 {
        return Err(Error::job(format!(
            "the output leaves out {left_out} pairs of identical documents, which are written as stars, so known pairs cannot be counted \
             in it: run its job again with output.max_expand = 0, or name a file of known clusters"
        )));
    }
    let in_order = |(a, b): Keys| (a.min(b), a.max(b));
    let known: HashSet<Keys> =
        keys(known, ["id_a", "id_b"]).await?.into_iter().map(in_order).filter(|(a, b)| a != b).collect();
    let mut both = 0;
    let pairs = stored.table(Table::Pairs)?;
    let mut batches = keyed(pairs, ["id_a", "id_b"])?.execute_stream().await?;
    while let Some(batch) = batches.try_next().await? {
        let (a, b) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        let pairs = a.values().iter().zip(b.values());
        both += pairs.filter(|(a, b)| known.contains(&in_order((**a, **b)))).count() as u64;
    }
    let mut components = Components::default();
    known.iter().for_each(|&(a, b)| components.join(a, b));
    let (docs, roots) = components.roots(0..usize::MAX);
    let of: HashMap<u64, u64> = docs.into_iter().zip(roots).collect();
    let adjusted_rand = adjusted_rand(&of, &clusters, documents);
    let counted = counted("pairs", known.len() as u64, stored.manifest().counts.pairs, both);
    Ok(Agreement { adjusted_rand, unknown_ids, ..counted })
}

/// The known ids that no document of the output has, sorted.
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
    let mut found = Vec::new();
    for batch in unknown.collect().await? {
        found.extend(as_string_array(batch.column(0))?.iter().flatten().map(str::to_owned));
    }
    Ok(found)
}

async fn read(session: &SessionContext, file: &str) -> Result<DataFrame> {
    if let Some(missing) = address::missing(file) {
        return Err(Error::input(format!("{missing}: name a file of known pairs or clusters as --truth")));
    }
    let why = || format!("{file} cannot be read as a table of known pairs or clusters");
    match file.rsplit_once('.').map(|(_, ending)| ending) {
        // Ids are text: 007 is not 7.
        Some("csv") => {
            session.read_csv(file, CsvReadOptions::new().schema_infer_max_records(0)).await.context(why)
        }
        Some("parquet") => session.read_parquet(file, ParquetReadOptions::new()).await.context(why),
        _ => {
            Err(Error::job(format!("--truth: expected a file that ends in .csv or .parquet, and got {file}")))
        }
    }
}

/// The keys of two columns of ids.
fn keyed(frame: DataFrame, columns: [&str; 2]) -> Result<DataFrame> {
    let key = |name: &str| document_key(cast(ident(name), DataType::Utf8)).alias(name);
    Ok(frame.select(columns.map(key).to_vec())?)
}

async fn keys(frame: DataFrame, columns: [&str; 2]) -> Result<Vec<Keys>> {
    let whole = frame.filter(ident(columns[0]).is_not_null().and(ident(columns[1]).is_not_null()))?;
    let mut found = Vec::new();
    for batch in keyed(whole, columns)?.collect().await? {
        let (a, b) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        found.extend(a.values().iter().copied().zip(b.values().iter().copied()));
    }
    Ok(found)
}

/// The cluster of each document of the output's source that is in one.
async fn clusters(stored: &Stored) -> Result<HashMap<u64, u64>> {
    let clusters = stored.table(Table::Clusters)?.filter(!col("reference"))?;
    Ok(keys(clusters, ["id", "cluster_id"]).await?.into_iter().collect())
}

/// Every two of so many.
fn twos(count: u64) -> u64 {
    count * count.saturating_sub(1) / 2
}

/// The sizes of the groups of equal values.
fn sizes<T: Ord>(values: impl Iterator<Item = T>) -> impl Iterator<Item = u64> {
    let mut sizes: BTreeMap<T, u64> = BTreeMap::new();
    values.for_each(|value| *sizes.entry(value).or_default() += 1);
    sizes.into_values()
}

/// Every two documents of a cluster.
fn within<'a>(clusters: impl Iterator<Item = &'a u64>) -> u64 {
    sizes(clusters).map(twos).sum()
}

/// Every two documents that are of one cluster in both.
fn shared(known: &HashMap<u64, u64>, found: &HashMap<u64, u64>) -> u64 {
    sizes(known.iter().filter_map(|(doc, cluster)| Some((*cluster, *found.get(doc)?)))).map(twos).sum()
}

fn adjusted_rand(known: &HashMap<u64, u64>, found: &HashMap<u64, u64>, documents: u64) -> Option<f64> {
    let (a, b) = (within(known.values()) as f64, within(found.values()) as f64);
    let by_chance = a * b / twos(documents) as f64;
    let most = (a + b) / 2.0;
    // Where no two documents are together, and where all are, chance decides nothing.
    (most > by_chance).then(|| (shared(known, found) as f64 - by_chance) / (most - by_chance))
}

fn counted(of: &'static str, known: u64, found: u64, both: u64) -> Agreement {
    let share = |all: u64| (all > 0).then(|| both as f64 / all as f64);
    let f1 = (known + found > 0).then(|| 2.0 * both as f64 / (known + found) as f64);
    Agreement {
        of,
        known,
        found,
        both,
        precision: share(found),
        recall: share(known),
        f1,
        adjusted_rand: None,
        unknown_ids: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Hubert and Arabie's index in the manual of scikit-learn, and equal partitions.
    #[test]
    fn the_index_is_the_published_one() {
        let of = |clusters: &[u64]| (0..).zip(clusters.iter().copied()).collect::<HashMap<u64, u64>>();
        let index = |a: &[u64], b: &[u64]| adjusted_rand(&of(a), &of(b), a.len() as u64);
        assert!((index(&[0, 0, 1, 2], &[0, 0, 1, 1]).unwrap() - 0.571_428_571_428_571_4).abs() < 1e-12);
        assert_eq!(index(&[0, 0, 1, 1], &[1, 1, 0, 0]), Some(1.0));
        assert!(index(&[0, 0, 1, 1], &[0, 1, 0, 1]).unwrap() < 0.0);
        assert_eq!(index(&[0, 1, 2], &[0, 1, 2]), None);
    }
}
