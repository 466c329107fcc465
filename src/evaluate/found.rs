//! Pairs of drawn sets that an output has, and documents that it keeps.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::JoinType;
use datafusion::common::cast::{as_float64_array, as_uint64_array};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{DataFrame, col};

use super::partners::Partners;
use super::sets::{Sets, clusters};
use crate::error::Result;
use crate::frames::keep;
use crate::output::Stored;
use crate::schema::Table;
use crate::udf::expr_fn::document_key;

/// A pair of sets in the output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FoundPair {
    pub(super) jaccard: f64,
    pub(super) estimate: f64,
}

/// The pairs of each drawn set, by both sets.
pub(super) type FoundPairs = BTreeMap<u64, BTreeMap<u64, FoundPair>>;

/// The ranks of the documents of each set that stay, in the order of `clusters.keep`.
pub(super) type Stay = BTreeMap<u64, Vec<u64>>;

/// The pairs of the output that have a document of a drawn set and one of another set.
///
/// # Errors
/// When a table cannot be read.
pub(super) async fn found(stored: &Stored, sets: &Sets, drawn: &[u64]) -> Result<FoundPairs> {
    let own = sets.members(stored, drawn.iter().copied())?;
    let own = own.select(vec![col("doc").alias("own"), col("set").alias("drawn")])?.cache().await?;
    let pairs = stored.table(Table::Pairs)?.select(vec![
        document_key(col("id_a")).alias("a"),
        document_key(col("id_b")).alias("b"),
        col("jaccard"),
        col("estimate"),
    ])?;
    let with = |end: &str, other: &str| -> Result<DataFrame> {
        let joined = own.clone().join(pairs.clone(), JoinType::Inner, &["own"], &[end], None)?;
        Ok(joined.select(vec![col("drawn"), col(other).alias("other"), col("jaccard"), col("estimate")])?)
    };
    let rows = with("a", "b")?.union(with("b", "a")?)?;
    let rows = sets.with_sets(stored, rows, "other")?.filter(col("drawn").not_eq(col("set")))?;
    let mut found = FoundPairs::new();
    for batch in rows.select(["drawn", "set", "jaccard", "estimate"].map(col).to_vec())?.collect().await? {
        let (sets, others) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        let (jaccards, estimates) = (as_float64_array(batch.column(2))?, as_float64_array(batch.column(3))?);
        for row in 0..batch.num_rows() {
            let pair = FoundPair { jaccard: jaccards.value(row), estimate: estimates.value(row) };
            found.entry(sets.value(row)).or_default().insert(others.value(row), pair);
        }
    }
    Ok(found)
}

/// The documents that stay of the drawn sets that have partners or copies, and of these partners.
///
/// # Errors
/// When a table cannot be read.
pub(super) async fn stay(stored: &Stored, sets: &Sets, partners: &Partners) -> Result<Stay> {
    let has_copies = |set: &u64| sets.sets.get(set).is_some_and(|set| set.documents > 1);
    let wanted: BTreeSet<u64> = partners
        .iter()
        .filter(|(set, partners)| !partners.is_empty() || has_copies(set))
        .flat_map(|(set, partners)| std::iter::once(set).chain(partners.keys()))
        .copied()
        .collect();
    let members = sets.members(stored, wanted.into_iter())?;
    let members = members.select(vec![col("doc").alias("member"), col("set")])?;
    let job = stored.job();
    let (order, group) = (job.clusters.order(), job.source.group.as_deref());
    let mut columns = ["id", "doc", "shingle_count"].map(col).to_vec();
    columns.extend(keep::order_columns(&order, group)?);
    let documents = stored.table(Table::Documents)?.select(columns)?;
    let documents = members.join(documents, JoinType::Inner, &["member"], &["doc"], None)?;
    let removed = clusters(stored)?.filter(!col("representative"))?;
    let removed = removed.select(vec![col("id").alias("removed")])?;
    let documents = removed.join(documents, JoinType::RightAnti, &["removed"], &["id"], None)?;
    let rank = row_number().order_by(keep::sorted(&order)).build()?;
    let documents = documents.window(vec![rank.alias("rank")])?.select(vec![col("set"), col("rank")])?;
    let mut stay = Stay::new();
    for batch in documents.collect().await? {
        let (sets, ranks) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        for (&set, &rank) in sets.values().iter().zip(ranks.values()) {
            stay.entry(set).or_default().push(rank);
        }
    }
    Ok(stay)
}
