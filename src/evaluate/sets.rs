//! The shingle sets of an output, in memory, and the documents that have each.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::cast::as_uint64_array;
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::prelude::{DataFrame, Expr, cast, col, lit};

use crate::error::{Error, Result};
use crate::frames::{groups, merged};
use crate::job::Compare;
use crate::output::Stored;
use crate::schema::Table;
use crate::udf::expr_fn::document_key;

/// Bytes that a document takes, at most: the row of its set, and an entry of the map of all sets.
const BYTES_OF_DOCUMENT: u64 = 160;

/// The columns that tell two shingle sets apart.
const KEY: [&str; 3] = ["set_hash_0", "set_hash_1", "group_key"];

/// The key columns of sets in a frame that also has the key columns of documents.
const KEY_OF_SET: [&str; 3] = ["hash_0", "hash_1", "group"];

fn renamed() -> Vec<Expr> {
    let key = KEY.iter().zip(KEY_OF_SET).map(|(name, of_set)| col(*name).alias(of_set));
    key.chain([col("set")]).collect()
}

/// A shingle set, of one group where the job compares by groups.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set {
    /// The hash of its shingles.
    pub(super) hashes: [u64; 2],
    /// Its group.
    pub(super) group: u64,
    /// Its shingles.
    pub(super) shingles: u64,
    /// The documents that have it.
    pub(super) documents: u64,
    /// The size of the cluster of the documents; 0 if they are not in a cluster.
    pub(super) cluster: u64,
}

impl Set {
    /// Bits that name it whatever the order in which documents are read.
    pub(super) fn key(&self) -> u64 {
        self.hashes[0] ^ self.hashes[1].rotate_left(17) ^ self.group.rotate_left(41)
    }
}

/// All shingle sets of an output, by the least key of a document that has the set. The text of that document is read for all of them.
pub(super) struct Sets {
    pub(super) sets: HashMap<u64, Set>,
    /// (set_hash_0, set_hash_1, group_key, set) of all sets, in memory.
    rows: DataFrame,
}

impl Sets {
    /// Reads the sets of an output.
    ///
    /// # Errors
    /// [`Kind::Job`](crate::error::Kind::Job) where they take more than half of `memory` bytes; when a table cannot be read.
    pub(super) async fn read(stored: &Stored, memory: u64) -> Result<Self> {
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
        let number = |of| cast(of, DataType::UInt64);
        let clusters =
            clusters(stored)?.select(vec![document_key(col("id")).alias("clustered"), col("size")])?;
        // The smaller side of each join is the first one: a table of it is built.
        let sets = clusters
            .join(documents_of(stored)?, JoinType::Right, &["clustered"], &["doc"], None)?
            .aggregate(
                KEY.map(col).to_vec(),
                vec![
                    min(col("doc")).alias("set"),
                    max(number(col("shingle_count"))).alias("shingles"),
                    number(count(lit(1))).alias("documents"),
                    coalesce(vec![max(col("size")), lit(0_u64)]).alias("cluster"),
                ],
            )?
            .collect()
            .await?;
        let mut found = HashMap::with_capacity(sets.iter().map(RecordBatch::num_rows).sum());
        for batch in &sets {
            let column = |at: usize| as_uint64_array(batch.column(at)).map(UInt64Array::values);
            let (hashes, group, ids) = ([column(0)?, column(1)?], column(2)?, column(3)?);
            let (shingles, documents, cluster) = (column(4)?, column(5)?, column(6)?);
            for row in 0..batch.num_rows() {
                let set = Set {
                    hashes: hashes.map(|hashes| hashes[row]),
                    group: group[row],
                    shingles: shingles[row],
                    documents: documents[row],
                    cluster: cluster[row],
                };
                found.insert(ids[row], set);
            }
        }
        let rows = sets.iter().map(|batch| batch.project(&[0, 1, 2, 3])).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { sets: found, rows: stored.session().read_batches(rows)? })
    }

    /// (doc, set) of the documents of the sets `wanted`.
    pub(super) fn members(&self, stored: &Stored, wanted: impl Iterator<Item = u64>) -> Result<DataFrame> {
        let sets = keys(stored, "wanted", wanted)?;
        let sets = sets.join(self.rows.clone(), JoinType::RightSemi, &["wanted"], &["set"], None)?;
        let members = sets.select(renamed())?;
        let members = members.join(documents_of(stored)?, JoinType::Inner, &KEY_OF_SET, &KEY, None)?;
        Ok(members.select(vec![col("doc"), col("set")])?)
    }

    /// (doc, ..) of a few documents -> the same with their sets as `set`.
    pub(super) fn with_sets(&self, stored: &Stored, few: DataFrame, doc: &str) -> Result<DataFrame> {
        let few = few.join(documents_of(stored)?, JoinType::Inner, &[doc], &["doc"], None)?;
        Ok(few.join(self.rows.clone().select(renamed())?, JoinType::Inner, &KEY, &KEY_OF_SET, None)?)
    }

    /// The number of pairs of sets that have the same shingles and are compared: those of two groups.
    pub(super) fn same_across(&self, compare: Compare) -> u64 {
        if compare != Compare::Across {
            return 0;
        }
        let mut groups: HashMap<[u64; 2], u64> = HashMap::new();
        self.sets.values().for_each(|set| *groups.entry(set.hashes).or_default() += 1);
        groups.into_values().map(|count| count * (count - 1) / 2).sum()
    }

    /// Whether two sets are compared.
    pub(super) fn are_compared(&self, a: u64, b: u64, compare: Compare) -> bool {
        let group = |set| self.sets.get(&set).map(|set| set.group);
        a != b
            && match compare {
                Compare::All => true,
                Compare::Within => group(a) == group(b),
                Compare::Across => group(a) != group(b),
            }
    }
}

/// (doc, set_hash_0, set_hash_1, group_key, shingle_count) of all documents.
fn documents_of(stored: &Stored) -> Result<DataFrame> {
    let job = stored.job();
    let key = match job.candidates.compare {
        Compare::All => lit(0_u64).alias("group_key"),
        Compare::Within | Compare::Across => {
            groups::key(groups::group(job.source.group.as_deref()).unalias())
        }
    };
    let columns = vec![col("doc"), col(KEY[0]), col(KEY[1]), key, col("shingle_count")];
    Ok(stored.table(Table::Documents)?.select(columns)?)
}

/// A row for each of these keys: one column of UInt64 of this name.
pub(super) fn keys(stored: &Stored, name: &str, keys: impl Iterator<Item = u64>) -> Result<DataFrame> {
    let keys: ArrayRef = Arc::new(UInt64Array::from_iter_values(keys));
    Ok(stored.session().read_batch(RecordBatch::try_from_iter([(name, keys)])?)?)
}

/// (id, size: UInt64, representative: Boolean) of the documents in clusters. All that stay are representatives.
pub(super) fn clusters(stored: &Stored) -> Result<DataFrame> {
    let mut clusters = stored.table(Table::Clusters)?;
    if stored.job().clusters.contained.is_some() {
        clusters = merged::with_spared(clusters, stored.table(Table::Spared)?)?;
    }
    let size = cast(col("size"), DataType::UInt64).alias("size");
    Ok(clusters.filter(!col("reference"))?.select(vec![col("id"), size, col("representative")])?)
}
