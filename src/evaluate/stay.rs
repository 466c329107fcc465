//! Which documents of some shingle sets stay, in the order of `clusters.keep`.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::JoinType;
use datafusion::common::cast::as_uint64_array;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::col;
use futures::TryStreamExt;

use super::partners::{Common, Partners};
use super::sets::{Sets, clusters, keys};
use crate::error::Result;
use crate::frames::keep;
use crate::output::Stored;
use crate::schema::Table;

/// The places of the documents of sets that stay, by the numbers of the sets.
pub(super) type Stay = BTreeMap<u32, Vec<u64>>;

/// The places of those documents that stay of the drawn sets that have partners or copies, and of these partners.
///
/// # Errors
/// When a table cannot be read.
pub(super) async fn stay(stored: &Stored, sets: &Sets, partners: &Partners) -> Result<Stay> {
    let has_others = |set: &u32, partners: &BTreeMap<u32, Common>| {
        !partners.is_empty() || sets.sets[*set as usize].documents > 1
    };
    let paired = partners.iter().filter(|(set, partners)| has_others(set, partners));
    let wanted: BTreeSet<u32> =
        paired.flat_map(|(set, partners)| std::iter::once(*set).chain(partners.keys().copied())).collect();
    let mut stay: Stay = wanted.iter().map(|&set| (set, Vec::new())).collect();
    let docs = sets.members.iter().filter(|member| wanted.contains(&member.set)).map(|member| member.doc);
    let docs = keys(stored, "wanted", docs)?;
    let job = stored.job();
    let (order, group) = (job.clusters.order(), job.source.group.as_deref());
    let mut columns = ["id", "doc", "shingle_count"].map(col).to_vec();
    columns.extend(keep::columns(&order, group)?);
    let documents = stored.table(Table::Documents)?.select(columns)?;
    let documents = docs.join(documents, JoinType::RightSemi, &["wanted"], &["doc"], None)?;
    let removed = clusters(stored)?.filter(!col("representative"))?;
    let removed = removed.select(vec![col("id").alias("removed")])?;
    let documents = removed.join(documents, JoinType::RightAnti, &["removed"], &["id"], None)?;
    let rank = row_number().order_by(keep::sorted(&order)).build()?;
    let documents = documents.window(vec![rank.alias("rank")])?.select(vec![col("doc"), col("rank")])?;
    let mut batches = documents.execute_stream().await?;
    while let Some(batch) = batches.try_next().await? {
        let (docs, ranks) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        for (&doc, &rank) in docs.values().iter().zip(ranks.values()) {
            if let Some(places) = sets.of(doc).and_then(|set| stay.get_mut(&set)) {
                places.push(rank);
            }
        }
    }
    Ok(stay)
}
