//! Reads the shingle sets of an output, draws a sample of sets, and reads the output's pairs with drawn sets.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_float64_array, as_uint64_array};
use datafusion::functions::expr_fn::coalesce;
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::prelude::{DataFrame, Expr, cast, col, lit};

use crate::error::{Error, Result};
use crate::frames::{groups, merged, number};
use crate::job::Compare;
use crate::kernel::hash::SplitMix64;
use crate::output::Stored;
use crate::schema::Table;
use crate::udf::expr_fn::document_key;

/// The maximum number of bytes per document, which needs at most one row and one entry in the map of all sets.
const BYTES_OF_DOCUMENT: u64 = 160;

const KEY: [&str; 3] = ["set_hash_0", "set_hash_1", "group_key"];

/// The names of [`KEY`] in frames of sets, so that a join with documents has no duplicate names.
const KEY_OF_SET: [&str; 3] = ["hash_0", "hash_1", "group"];

fn key_of_set() -> Vec<Expr> {
    let key = KEY.iter().zip(KEY_OF_SET).map(|(name, of_set)| col(*name).alias(of_set));
    key.chain([col("set")]).collect()
}

/// A shingle set. If the job compares documents by groups, equal sets in different groups are different sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Set {
    pub(super) hashes: [u64; 2],
    /// The key of the group, or 0 if the job does not compare by groups.
    pub(super) group: u64,
    pub(super) shingles: u64,
    pub(super) documents: u64,
    /// The size of the cluster of these documents, or 0 if no cluster contains them.
    pub(super) cluster: u64,
}

impl Set {
    /// Returns a hash that identifies the set by its shingles and its group.
    pub(super) fn key(&self) -> u64 {
        self.hashes[0] ^ self.hashes[1].rotate_left(17) ^ self.group.rotate_left(41)
    }
}

/// All shingle sets of an output. The id of a set is the smallest key among its documents, and this document's text represents the set.
pub(super) struct Sets {
    pub(super) sets: HashMap<u64, Set>,
    /// All sets as (set_hash_0, set_hash_1, group_key, set), in memory.
    rows: DataFrame,
}

impl Sets {
    /// Reads the shingle sets of an output. Fails with `Kind::Job` if the sets could take more than half of `memory` bytes.
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
        let clusters =
            clusters(stored)?.select(vec![document_key(col("id")).alias("clustered"), col("size")])?;
        // A join builds its hash table from the first side, here the smaller one.
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

    /// Returns the documents (doc, set) with one of the sets `wanted`.
    pub(super) fn members(&self, stored: &Stored, wanted: impl Iterator<Item = u64>) -> Result<DataFrame> {
        let sets = keys(stored, "wanted", wanted)?;
        let sets = sets.join(self.rows.clone(), JoinType::RightSemi, &["wanted"], &["set"], None)?;
        let members = sets.select(key_of_set())?;
        let members = members.join(documents_of(stored)?, JoinType::Inner, &KEY_OF_SET, &KEY, None)?;
        Ok(members.select(vec![col("doc"), col("set")])?)
    }

    /// Adds the column `set` to the small frame `few`, whose column `doc` contains keys of documents.
    pub(super) fn with_sets(&self, stored: &Stored, few: DataFrame, doc: &str) -> Result<DataFrame> {
        let few = few.join(documents_of(stored)?, JoinType::Inner, &[doc], &["doc"], None)?;
        Ok(few.join(self.rows.clone().select(key_of_set())?, JoinType::Inner, &KEY, &KEY_OF_SET, None)?)
    }

    /// Returns the number of compared pairs of sets with equal shingles, which exist only across groups.
    pub(super) fn same_across(&self, compare: Compare) -> u64 {
        if compare != Compare::Across {
            return 0;
        }
        let mut groups: HashMap<[u64; 2], u64> = HashMap::new();
        self.sets.values().for_each(|set| *groups.entry(set.hashes).or_default() += 1);
        groups.into_values().map(|count| count * (count - 1) / 2).sum()
    }

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

/// Returns all documents as (doc, set_hash_0, set_hash_1, group_key, shingle_count).
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

/// Returns a frame with the column `name`: UInt64, one row per key.
pub(super) fn keys(stored: &Stored, name: &str, keys: impl Iterator<Item = u64>) -> Result<DataFrame> {
    let keys: ArrayRef = Arc::new(UInt64Array::from_iter_values(keys));
    Ok(stored.session().read_batch(RecordBatch::try_from_iter([(name, keys)])?)?)
}

/// Returns the documents in clusters as (id, size: UInt64, representative: Boolean). Spared documents count as representatives, since
/// they are kept.
pub(super) fn clusters(stored: &Stored) -> Result<DataFrame> {
    let mut clusters = stored.table(Table::Clusters)?;
    if stored.job().clusters.spares() {
        clusters = merged::with_spared(clusters, stored.table(Table::Spared)?)?;
    }
    let size = cast(col("size"), DataType::UInt64).alias("size");
    Ok(clusters.filter(!col("reference"))?.select(vec![col("id"), size, col("representative")])?)
}

/// The key of a stratum: the number of binary digits in the number of documents with the set, and in the size of their cluster.
type StratumKey = (u32, u32);

/// A drawn shingle set, which represents `weight` sets of its stratum.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct DrawnSet {
    pub(super) set: u64,
    pub(super) stratum: usize,
    pub(super) weight: f64,
}

/// The drawn sets in the order of their strata, and the number of sets in each stratum.
pub(super) struct SetDraw {
    pub(super) drawn: Vec<DrawnSet>,
    pub(super) sizes: Vec<u64>,
}

/// The minimum number of sets to draw from a stratum. A smaller stratum is drawn completely.
const LEAST: usize = 5;

fn stratum_key(set: &Set) -> StratumKey {
    let digits = |number: u64| u64::BITS - number.leading_zeros();
    (digits(set.documents), digits(set.cluster))
}

/// Draws about `sample` sets, or all sets if there are fewer: half in proportion to the sizes of strata, and half evenly. The draw does
/// not depend on the order in which documents are read.
pub(super) fn draw(sets: &HashMap<u64, Set>, sample: usize, seed: u64) -> SetDraw {
    let mut strata: BTreeMap<StratumKey, Vec<(u64, u64)>> = BTreeMap::new();
    for (&id, set) in sets {
        let place = SplitMix64(set.key() ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next();
        strata.entry(stratum_key(set)).or_default().push((place, id));
    }
    let (all, count) = (sets.len(), strata.len());
    let mut draw = SetDraw { drawn: Vec::new(), sizes: Vec::with_capacity(count) };
    for (stratum, mut places) in strata.into_values().enumerate() {
        let size = places.len();
        draw.sizes.push(size as u64);
        let by_size = sample as f64 / 2.0 * size as f64 / all as f64;
        let evenly = sample as f64 / 2.0 / count as f64;
        let wanted =
            if sample >= all { size } else { ((by_size + evenly).ceil() as usize).max(LEAST).min(size) };
        places.sort_unstable();
        let weight = size as f64 / wanted as f64;
        draw.drawn.extend(places.into_iter().take(wanted).map(|(_, set)| DrawnSet { set, stratum, weight }));
    }
    draw
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FoundPair {
    pub(super) jaccard: f64,
    pub(super) estimate: f64,
}

/// The output's pairs with drawn sets. The outer keys are drawn sets, and the inner keys are the other sets.
pub(super) type FoundPairs = BTreeMap<u64, BTreeMap<u64, FoundPair>>;

/// Returns the output's pairs between a document with a drawn set and a document with another set.
pub(super) async fn found_pairs(stored: &Stored, sets: &Sets, drawn: &[u64]) -> Result<FoundPairs> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sets() -> HashMap<u64, Set> {
        let set = |number: u64| Set {
            hashes: [SplitMix64(number).next(), 0],
            group: 0,
            shingles: 90,
            documents: if number == 7 { 20_000 } else { 1 + number % 3 / 2 },
            cluster: if number.is_multiple_of(4) { 3 } else { 0 },
        };
        (0..1000).map(|number| (number, set(number))).collect()
    }

    #[test]
    fn weights_add_up_to_the_sets_and_rare_strata_are_drawn() {
        let first = draw(&sets(), 100, 1);
        let weights: f64 = first.drawn.iter().map(|drawn| drawn.weight).sum();
        assert!((weights - 1000.0).abs() < 1e-9, "{weights}");
        assert!(first.drawn.iter().any(|drawn| drawn.set == 7));
        // One stratum has only one set, fewer than its share of the draws.
        assert!((90..=110).contains(&first.drawn.len()), "{}", first.drawn.len());
        assert_eq!(first.sizes.iter().sum::<u64>(), 1000);
        let of = |sample, seed| draw(&sets(), sample, seed).drawn;
        assert_eq!(of(100, 1), of(100, 1));
        assert_ne!(of(100, 1), of(100, 2));
        let all = of(1000, 1);
        assert!(all.len() == 1000 && all.iter().all(|drawn| drawn.weight == 1.0));
    }
}
