//! The shingle sets of an output, in memory: which documents have each.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::prelude::{DataFrame, cast, col, lit};
use futures::TryStreamExt;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::frames::{by_group, merged, utf8};
use crate::job::Compare;
use crate::output::Stored;
use crate::schema::Table;
use crate::udf::expr_fn::document_key;

/// Bytes that a document takes, at most: its row, and while they are read an entry of the table of sets.
const BYTES_OF_DOCUMENT: u64 = 160;
/// Members between two neighbours of the table of their keys, on average.
const STEP: usize = 4;

/// A document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    /// Its key.
    pub(super) doc: u64,
    /// The number of its shingle set.
    pub(super) set: u32,
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
    /// The one of these with the least key, whose text is read for all of them.
    pub(super) doc: u64,
    /// The [`place`] of that document.
    pub(super) place: u64,
    /// The size of the cluster of the documents; 0 if they are not in a cluster.
    pub(super) cluster: u64,
}

impl Set {
    /// Bits that name it whatever the order in which documents are read.
    pub(super) fn key(&self) -> u64 {
        self.hashes[0] ^ self.hashes[1].rotate_left(17) ^ self.group.rotate_left(41)
    }
}

/// All documents and shingle sets of an output.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// By their keys.
    pub(super) members: Vec<Member>,
    pub(super) sets: Vec<Set>,
    /// Where the members begin whose keys have the same leading bits.
    starts: Vec<u32>,
    /// The number of the other bits.
    shift: u32,
}

/// A hash of the place of a document: its origin, its file and its number there. Of several documents with one id, one was compared.
pub(super) fn place(origin: u64, source: &str, position: u64) -> u64 {
    xxh3_64_with_seed(source.as_bytes(), xxh3_64_with_seed(&origin.to_le_bytes(), position))
}

impl Sets {
    /// The sets with their documents.
    pub(super) fn new(mut members: Vec<Member>, sets: Vec<Set>) -> Self {
        members.sort_unstable_by_key(|member| member.doc);
        let bits = (members.len() / STEP).max(1).ilog2() + 1;
        let shift = u64::BITS - bits;
        let mut starts = vec![0; (1 << bits) + 1];
        for member in &members {
            starts[(member.doc >> shift) as usize + 1] += 1;
        }
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        Self { members, sets, starts, shift }
    }

    /// Reads those of an output.
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
        // The numbers of the sets by their keys: a few bytes a set stay in the cache longer than a table that holds the hashes
        // again.
        let mut numbers: HashTable<u32> = HashTable::with_capacity(documents as usize);
        let (mut members, mut sets) = (Vec::with_capacity(documents as usize), Vec::<Set>::new());
        let mut batches = documents_of(stored)?.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let number = |at: usize| as_uint64_array(batch.column(at));
            let (docs, hashes, groups) = (number(0)?, [number(1)?, number(2)?], number(3)?);
            let (sizes, positions, sources) = (number(4)?, number(5)?, as_string_array(batch.column(6))?);
            let origins = number(7)?;
            for row in 0..batch.num_rows() {
                let (hashes, group) = ([hashes[0].value(row), hashes[1].value(row)], groups.value(row));
                let place = place(origins.value(row), sources.value(row), positions.value(row));
                let doc = docs.value(row);
                let new =
                    Set { hashes, group, shingles: sizes.value(row), documents: 0, doc, place, cluster: 0 };
                let is_it = |&set: &u32| {
                    let known = &sets[set as usize];
                    known.hashes == hashes && known.group == group
                };
                let set = match numbers.entry(new.key(), is_it, |&set| sets[set as usize].key()) {
                    Entry::Occupied(known) => *known.get(),
                    Entry::Vacant(vacant) => {
                        let number = *vacant.insert(sets.len() as u32).get();
                        sets.push(new);
                        number
                    }
                };
                let of = &mut sets[set as usize];
                of.documents += 1;
                if doc < of.doc {
                    (of.doc, of.place) = (doc, place);
                }
                members.push(Member { doc, set });
            }
        }
        drop(numbers);
        let mut found = Self::new(members, sets);
        let mut batches =
            clusters(stored)?.select(vec![document_key(col("id")), col("size")])?.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let (docs, sizes) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
            for (&doc, &size) in docs.values().iter().zip(sizes.values()) {
                if let Some(set) = found.of(doc) {
                    let of = &mut found.sets[set as usize];
                    of.cluster = of.cluster.max(size);
                }
            }
        }
        Ok(found)
    }

    /// The shingle set of a document.
    pub(super) fn of(&self, doc: u64) -> Option<u32> {
        let at = (doc >> self.shift) as usize;
        let near = self.members.get(*self.starts.get(at)? as usize..*self.starts.get(at + 1)? as usize)?;
        near.iter().find(|member| member.doc == doc).map(|member| member.set)
    }

    /// The number of pairs of sets that have the same shingles and are compared: those of two groups.
    pub(super) fn same_across(&self, compare: Compare) -> u64 {
        if compare != Compare::Across {
            return 0;
        }
        let mut groups: HashMap<[u64; 2], u64> = HashMap::new();
        self.sets.iter().for_each(|set| *groups.entry(set.hashes).or_default() += 1);
        groups.into_values().map(|count| count * (count - 1) / 2).sum()
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

/// (doc, set_hash_0, set_hash_1, group_key, shingle_count, position: UInt64, source: Utf8, origin_number: UInt64) of all documents.
fn documents_of(stored: &Stored) -> Result<DataFrame> {
    let job = stored.job();
    let key = match job.candidates.compare {
        Compare::All => lit(0_u64).alias("group_key"),
        Compare::Within | Compare::Across => {
            by_group::key(by_group::group(job.source.group.as_deref()).unalias())
        }
    };
    let number = |name: &str| cast(col(name), DataType::UInt64).alias(name);
    let documents = stored.table(Table::Documents)?;
    Ok(documents.select(vec![
        col("doc"),
        col("set_hash_0"),
        col("set_hash_1"),
        key,
        number("shingle_count"),
        number("position"),
        utf8("source"),
        number("origin_number"),
    ])?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::SplitMix64;

    #[test]
    fn each_document_is_found_by_its_key() {
        for count in [0_u32, 1, 3, 1_000] {
            let key = |number: u32| SplitMix64(number.into()).next();
            let member = |set| Member { doc: key(set), set };
            let mut members: Vec<Member> = (0..count).map(member).collect();
            members.push(Member { doc: u64::MAX, set: count });
            let sets = Sets::new(members, Vec::new());
            assert!((0..count).all(|set| sets.of(key(set)) == Some(set)));
            assert_eq!((sets.of(u64::MAX), sets.of(u64::MAX - 1)), (Some(count), None));
            assert_eq!(sets.of(key(count)), None);
        }
    }
}
