//! What an output has of the sets that were drawn.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::JoinType;
use datafusion::common::cast::{as_float64_array, as_uint64_array};
use datafusion::prelude::{DataFrame, col};
use futures::TryStreamExt;

use super::sets::{Sets, keys};
use crate::error::Result;
use crate::output::Stored;
use crate::schema::Table;
use crate::udf::expr_fn::document_key;

/// A pair of sets in the output.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FoundPair {
    pub(super) jaccard: f64,
    pub(super) estimate: f64,
}

/// The pairs of each set that was drawn, by the numbers of both.
pub(super) type Found = BTreeMap<u32, BTreeMap<u32, FoundPair>>;

/// The pairs of the output that have a document of a drawn set and one of another set.
///
/// # Errors
/// When the table cannot be read.
pub(super) async fn found(stored: &Stored, sets: &Sets, drawn: &[u32]) -> Result<Found> {
    let is_drawn: BTreeSet<u32> = drawn.iter().copied().collect();
    let docs = sets.members.iter().filter(|member| is_drawn.contains(&member.set)).map(|member| member.doc);
    let docs = keys(stored, "drawn", docs)?;
    let pairs = stored.table(Table::Pairs)?.select(vec![
        document_key(col("id_a")).alias("a"),
        document_key(col("id_b")).alias("b"),
        col("jaccard"),
        col("estimate"),
    ])?;
    let of = |end: &str, other: &str| -> Result<DataFrame> {
        let joined = docs.clone().join(pairs.clone(), JoinType::Inner, &["drawn"], &[end], None)?;
        Ok(joined.select(vec![col("drawn"), col(other).alias("other"), col("jaccard"), col("estimate")])?)
    };
    let mut found: Found = drawn.iter().map(|&set| (set, BTreeMap::new())).collect();
    let mut batches = of("a", "b")?.union(of("b", "a")?)?.execute_stream().await?;
    while let Some(batch) = batches.try_next().await? {
        let (docs, others) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        let (jaccards, estimates) = (as_float64_array(batch.column(2))?, as_float64_array(batch.column(3))?);
        for row in 0..batch.num_rows() {
            let (Some(set), Some(other)) = (sets.of(docs.value(row)), sets.of(others.value(row))) else {
                continue;
            };
            if set != other {
                let pair = FoundPair { jaccard: jaccards.value(row), estimate: estimates.value(row) };
                found.entry(set).or_default().insert(other, pair);
            }
        }
    }
    Ok(found)
}
