//! The shingle sets of an output, in memory: which documents have each, and which of these stay.

use std::collections::HashMap;

use datafusion::common::JoinType;
use datafusion::common::cast::{as_boolean_array, as_uint64_array};
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt};
use datafusion::prelude::{DataFrame, SessionContext, col, lit};
use futures::TryStreamExt;

use crate::error::{Error, Result};
use crate::job::Compare;
use crate::output::Stored;
use crate::pipeline::frames::{by_group, keep, merged};
use crate::schema::Table;

/// Bytes that a document takes, at most: its row, and while they are read an entry of the table of sets.
const BYTES_OF_DOCUMENT: u64 = 160;

/// A document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// Its key.
    pub(super) doc: u64,
    /// The number of its shingle set.
    pub(super) set: u32,
    /// Its place in the order of `clusters.keep`; `None` if it is removed.
    pub(super) stays_at: Option<u64>,
}

/// A shingle set, of one group where the job compares by groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set {
    /// Bits that name it whatever the order in which documents are read.
    pub(super) key: u64,
    /// Its group.
    pub(super) group: u64,
    /// The documents that have it.
    pub(super) documents: u64,
    /// The size of their cluster; 0 if they are not in a cluster.
    pub(super) cluster: u64,
    /// The least place of a document that stays.
    pub(super) stays_at: Option<u64>,
}

/// All documents and shingle sets of an output.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// By their keys.
    pub(super) members: Vec<Member>,
    pub(super) sets: Vec<Set>,
}

impl Sets {
    /// Reads those of an output.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) where they take more than half of `memory` bytes; when a table cannot be read.
    pub(super) async fn read(session: &SessionContext, stored: &Stored, memory: u64) -> Result<Self> {
        let documents = stored.manifest().counts.documents;
        let needed = documents.saturating_mul(BYTES_OF_DOCUMENT);
        if needed > memory / 2 {
            return Err(Error::job(format!(
                "{documents} documents take {} MiB while they are evaluated, which is more than half of the memory: set --memory to \
                 {} MiB or more",
                needed >> 20,
                ((2 * needed) >> 20) + 1
            )));
        }
        let mut numbers: HashMap<[u64; 3], u32> = HashMap::new();
        let mut found = Self::default();
        let mut batches = rows(session, stored)?.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let number = |at: usize| as_uint64_array(batch.column(at));
            let (docs, hashes, groups) = (number(0)?, [number(1)?, number(2)?], number(3)?);
            let (ranks, sizes, removed) = (number(4)?, number(5)?, as_boolean_array(batch.column(6))?);
            for row in 0..batch.num_rows() {
                let key = [hashes[0].value(row), hashes[1].value(row), groups.value(row)];
                let next = found.sets.len() as u32;
                let set = *numbers.entry(key).or_insert(next);
                if set == next {
                    let key = key[0] ^ key[1].rotate_left(17) ^ key[2].rotate_left(41);
                    let group = groups.value(row);
                    found.sets.push(Set { key, group, documents: 0, cluster: 0, stays_at: None });
                }
                let stays_at = (!removed.value(row)).then(|| ranks.value(row));
                let of = &mut found.sets[set as usize];
                of.documents += 1;
                of.cluster = of.cluster.max(sizes.value(row));
                of.stays_at = [of.stays_at, stays_at].into_iter().flatten().min();
                found.members.push(Member { doc: docs.value(row), set, stays_at });
            }
        }
        found.members.sort_unstable_by_key(|member| member.doc);
        Ok(found)
    }

    /// The shingle set of a document.
    pub(super) fn of(&self, doc: u64) -> Option<u32> {
        let at = self.members.binary_search_by_key(&doc, |member| member.doc).ok()?;
        self.members.get(at).map(|member| member.set)
    }

    /// Whether two sets are compared.
    pub(super) fn are_compared(&self, a: u32, b: u32, compare: Compare) -> bool {
        let same = self.sets[a as usize].group == self.sets[b as usize].group;
        a != b
            && match compare {
                Compare::All => true,
                Compare::Within => same,
                Compare::Across => !same,
            }
    }
}

/// (doc, set_hash_0, set_hash_1, group_key, rank, size: UInt64, removed: Boolean) of all documents. `rank` is their place in the order of
/// `clusters.keep`, and `size` that of their cluster, or 0.
fn rows(session: &SessionContext, stored: &Stored) -> Result<DataFrame> {
    let job = stored.job();
    let (order, group) = (job.clusters.order(), job.source.group.as_deref());
    let key = match job.candidates.compare {
        Compare::All => lit(0_u64).alias("group_key"),
        Compare::Within | Compare::Across => by_group::key(by_group::group(group).unalias()),
    };
    let mut columns = ["id", "doc", "shingle_count", "set_hash_0", "set_hash_1"].map(col).to_vec();
    columns.push(key);
    columns.extend(keep::columns(&order, group)?);
    let documents = stored.table(session, Table::Documents)?.select(columns)?;
    let rank = row_number().order_by(keep::sorted(&order)).build()?;
    let documents = documents.window(vec![rank.alias("rank")])?;
    let mut clusters = stored.table(session, Table::Clusters)?;
    if job.clusters.contained.is_some() {
        clusters = merged::with_spared(clusters, stored.table(session, Table::Spared)?)?;
    }
    let clusters = clusters.filter(!col("reference"))?.select(vec![
        col("id").alias("member"),
        col("size"),
        (!col("representative")).alias("removed"),
    ])?;
    let all = clusters.join(documents, JoinType::Right, &["member"], &["id"], None)?;
    let numbers: Vec<Expr> = ["doc", "set_hash_0", "set_hash_1", "group_key", "rank"].map(col).to_vec();
    Ok(all.select(
        numbers
            .into_iter()
            .chain([
                coalesce(vec![col("size"), lit(0_u64)]).alias("size"),
                coalesce(vec![col("removed"), lit(false)]).alias("removed"),
            ])
            .collect::<Vec<_>>(),
    )?)
}
