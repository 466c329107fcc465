//! Finds the true partners of the drawn sets: compares the shingles of all texts with the drawn sets.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_list_array, as_string_view_array, as_uint64_array};
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::prelude::{DataFrame, SessionContext, cast, col};
use futures::TryStreamExt;

use super::sets::{Sets, clusters, keys};
use crate::error::counts::{counted, either};
use crate::error::{Error, Result};
use crate::frames::keep;
use crate::job::{Compare, Score, ScoreBy, Shingle, ShingleHash};
use crate::kernel::measure::{as_set, containment_of, jaccard_of};
use crate::kernel::signature::{SignatureValues, minhash_similarity};
use crate::kernel::text::shingles::{Beginning, ShingleBuffers, shingles};
use crate::origins::numbered;
use crate::output::Stored;
use crate::pipeline::numbers::keys_of;
use crate::schema::Table;
use crate::source::{self, CUT, DocumentPlaces};
use crate::udf::arguments::{SignatureRows, ValueColumn};
use crate::udf::expr_fn::document_key;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SetOverlap {
    pub(super) shared: u64,
    /// The size of the drawn set, and the size of the other set.
    pub(super) of: [u64; 2],
    /// Whether the estimate from the signatures reaches the threshold. False if the job decides by exact similarity.
    pub(super) agrees: bool,
}

impl SetOverlap {
    /// Returns whether the exact similarity reaches the threshold, and enough shingles are shared.
    pub(super) fn is_similar(self, score: &Score) -> bool {
        score.measure.similarity(self.shared, self.of) >= score.threshold
            && score.has_min_shared(self.shared, self.of)
    }

    /// Returns whether the two sets are a pair by the rule of the job: by exact similarity, or by the estimate.
    pub(super) fn is_pair(self, score: &Score) -> bool {
        match score.by {
            ScoreBy::Shingles => self.is_similar(score),
            ScoreBy::Signature => self.agrees && score.has_min_shared(self.shared, self.of),
        }
    }

    pub(super) fn jaccard(self) -> f64 {
        jaccard_of(self.shared, self.of[0], self.of[1])
    }

    /// Returns the share of the drawn set's shingles that the other set contains.
    pub(super) fn containment(self) -> f64 {
        containment_of(self.shared, self.of[0])
    }
}

/// The partners of each drawn set. The outer keys are drawn sets, and the inner keys are their partners.
pub(super) type Partners = BTreeMap<u64, BTreeMap<u64, SetOverlap>>;

/// Reads documents as frames with the column `doc`: UInt64, and with `text`: Utf8View, [`CUT`]: `List<UInt64>`, or both columns.
///
/// `wanted` has one column with the keys of the documents to read, or is `None` for all. The frames can contain other documents too.
/// Fails with `Kind::Job` if a dictionary numbers the shingles and the output does not keep them. Fails with `Kind::Input` if a source is
/// missing or has changed.
async fn documents(stored: &Stored, wanted: Option<DataFrame>) -> Result<Vec<DataFrame>> {
    let (job, session) = (stored.job(), stored.session());
    let table = stored.table(Table::Documents)?;
    if job.shingle.hash == ShingleHash::Dictionary {
        if !job.output.keep.shingles() {
            return Err(Error::job(
                "shingles are numbered by a dictionary, so they cannot be computed from texts alone: run the job again with output.keep = \
                 \"shingles\"",
            ));
        }
        return Ok(vec![table.select(vec![col("doc"), col("shingles").alias(CUT)])?]);
    }
    let sources = stored.sources("the texts are read again", "").await?;
    let places = match wanted {
        Some(wanted) => wanted.join(table, JoinType::RightSemi, &["wanted"], &["doc"], None)?,
        None => table,
    };
    let places = DocumentPlaces::from_frame(places, col("origin_number")).await?;
    let read = source::read_at(session, numbered(&sources), places, Some(&job.shingle)).await?;
    let documents = |(_, read): (u64, DataFrame)| {
        let text = cast(col("text"), DataType::Utf8View).alias("text");
        let mut columns = vec![document_key(col("id")).alias("doc"), text];
        columns.extend(read.schema().as_arrow().column_with_name(CUT).map(|_| col(CUT)));
        Ok(read.select(columns)?)
    };
    read.into_iter().map(documents).collect()
}

/// Returns the true partners of the sets `drawn`: sets whose exact similarity reaches the threshold, and the `agreeing` sets. Returns the
/// errors of [`documents`], and `Kind::Input` if a drawn document is missing in its source.
pub(super) async fn partners(
    stored: &Stored,
    sets: &Arc<Sets>,
    drawn: &[u64],
    agreeing: Agreeing,
) -> Result<Partners> {
    let job = stored.job();
    let mut search = PartnerSearch {
        index: ShingleIndex::new(stored.session(), job.score),
        sets: Arc::clone(sets),
        shingle: job.shingle.clone(),
        frequent: frequent(stored).await?,
        score: job.score,
        compare: job.candidates.compare,
        agreeing,
    };
    search.fill(stored, drawn).await?;
    let search = Arc::new(search);
    let mut partners: Partners = drawn.iter().map(|&set| (set, BTreeMap::new())).collect();
    for frame in documents(stored, None).await? {
        let plan = frame.create_physical_plan().await?;
        let streams = execute_stream_partitioned(plan, stored.session().task_ctx())?;
        let scan = |stream| SpawnedTask::spawn(scan(stream, Arc::clone(&search)));
        let scans: Vec<_> = streams.into_iter().map(scan).collect();
        for scan in scans {
            let found = scan.join().await.map_err(|e| Error::bug("a scan did not end").because(e))??;
            for (set, other, common) in found {
                partners.entry(set).or_default().insert(other, common);
            }
        }
    }
    // Signatures can agree although the sets share no shingle.
    for (&other, agreeing) in &search.agreeing {
        for &set in agreeing {
            let of = [set, other].map(|set| sets.sets.get(&set).map_or(0, |set| set.shingles));
            let common = SetOverlap { shared: 0, of, agrees: true };
            partners.entry(set).or_default().entry(other).or_insert(common);
        }
    }
    Ok(partners)
}

async fn frequent(stored: &Stored) -> Result<HashSet<u64>> {
    match stored.frequent_shingles()? {
        Some(rows) => Ok(keys_of(rows.select(vec![col("shingle")])?).await?.into_iter().collect()),
        None => Ok(HashSet::new()),
    }
}

/// The state that all scans share.
struct PartnerSearch {
    index: ShingleIndex,
    sets: Arc<Sets>,
    shingle: Shingle,
    frequent: HashSet<u64>,
    score: Score,
    compare: Compare,
    agreeing: Agreeing,
}

impl PartnerSearch {
    /// Adds the shingles of each drawn set to the index, from one document with this set.
    async fn fill(&mut self, stored: &Stored, drawn: &[u64]) -> Result<()> {
        let is_drawn: BTreeSet<u64> = drawn.iter().copied().collect();
        let mut cutter = Cutter::default();
        let wanted = keys(stored, "wanted", drawn.iter().copied())?;
        for frame in documents(stored, Some(wanted)).await? {
            let mut batches = frame.execute_stream().await?;
            while let Some(batch) = batches.try_next().await? {
                let rows = ScannedRows::new(&batch)?;
                for row in 0..batch.num_rows() {
                    let Some(set) = rows.doc(row).filter(|doc| is_drawn.contains(doc)) else { continue };
                    if let Some(shingles) = cutter.whole(&rows, row, &self.shingle, &self.frequent)? {
                        self.index.add(set, shingles)?;
                    }
                }
            }
        }
        let missing = drawn.len() - self.index.drawn.len().min(drawn.len());
        if missing > 0 {
            return Err(Error::input(format!(
                "{missing} of {} {} no longer in the source: run the job again with --overwrite",
                counted(drawn.len() as u64, "drawn document"),
                either(missing as u64, "is", "are")
            )));
        }
        self.index.finish();
        Ok(())
    }
}

struct ScannedRows<'a> {
    docs: &'a UInt64Array,
    texts: Option<&'a arrow::array::StringViewArray>,
    cuts: Option<&'a arrow::array::ListArray>,
}

impl<'a> ScannedRows<'a> {
    fn new(batch: &'a RecordBatch) -> Result<Self> {
        let column = |name: &str| batch.column_by_name(name);
        Ok(Self {
            docs: as_uint64_array(batch.column(0))?,
            texts: column("text").map(|texts| as_string_view_array(texts)).transpose()?,
            cuts: column(CUT).map(|cuts| as_list_array(cuts)).transpose()?,
        })
    }

    fn doc(&self, row: usize) -> Option<u64> {
        self.docs.is_valid(row).then(|| self.docs.value(row))
    }

    /// Returns the text of a document, unless it has none or the reader already split it into shingles.
    fn text(&self, row: usize) -> Option<&'a str> {
        let is_cut = self.cuts.is_some_and(|cuts| cuts.is_valid(row));
        let texts = self.texts.filter(|texts| !is_cut && texts.is_valid(row))?;
        Some(texts.value(row))
    }
}

#[derive(Default)]
struct Cutter {
    beginning: Beginning,
    scratch: ShingleBuffers,
    set: Vec<u64>,
}

impl Cutter {
    /// Returns the distinct shingles of a document without frequent shingles, if it has a text or shingles.
    fn whole(
        &mut self,
        rows: &ScannedRows<'_>,
        row: usize,
        by: &Shingle,
        frequent: &HashSet<u64>,
    ) -> Result<Option<&[u64]>> {
        let Self { scratch, set, .. } = self;
        set.clear();
        match (rows.text(row), rows.cuts) {
            (Some(text), _) => shingles(text, by, scratch, set)?,
            (None, Some(cuts)) if cuts.is_valid(row) => {
                let values = cuts.value(row);
                set.extend_from_slice(&as_set(as_uint64_array(&values)?.values()));
            }
            _ => return Ok(None),
        }
        if !frequent.is_empty() {
            set.retain(|shingle| !frequent.contains(shingle));
        }
        Ok(Some(set.as_slice()))
    }

    /// Returns whether the beginning of `text` rules out that its document is similar to a drawn set. The document has `all` shingles,
    /// and must share `least` of them. It is ruled out once more than `all - least` shingles are in no drawn set.
    fn is_other(&mut self, text: &str, search: &PartnerSearch, least: u64, all: u64) -> Result<bool> {
        let needed = all.saturating_sub(least) as usize + 1;
        let Some(some) = self.beginning.shingles(text, &search.shingle, needed, all as usize)? else {
            return Ok(false);
        };
        let counting = || some.iter().filter(|shingle| !search.frequent.contains(shingle));
        let others = counting().filter(|shingle| search.index.places(**shingle).next().is_none()).count();
        Ok(others >= needed)
    }
}

/// Finds the partners of drawn sets among the documents in a stream: (drawn set, other set, overlap).
async fn scan(
    mut stream: SendableRecordBatchStream,
    search: Arc<PartnerSearch>,
) -> Result<Vec<(u64, u64, SetOverlap)>> {
    let index = &search.index;
    let mut found = Vec::new();
    let mut cutter = Cutter::default();
    let mut shared = vec![0_u64; index.drawn.len()];
    let mut counted: Vec<u32> = Vec::new();
    while let Some(batch) = stream.try_next().await? {
        let rows = ScannedRows::new(&batch)?;
        for row in 0..batch.num_rows() {
            let Some(other) = rows.doc(row) else { continue };
            let Some(set) = search.sets.sets.get(&other) else { continue };
            let agreeing = search.agreeing.get(&other);
            // A set with an agreeing signature can share any number of shingles, so it cannot be ruled out.
            if agreeing.is_none() {
                let Some(least) = index.least(set.shingles) else { continue };
                if let Some(text) = rows.text(row)
                    && cutter.is_other(text, &search, least, set.shingles)?
                {
                    continue;
                }
            }
            let Some(shingles) = cutter.whole(&rows, row, &search.shingle, &search.frequent)? else {
                continue;
            };
            for place in shingles.iter().flat_map(|&shingle| index.places(shingle)) {
                let count = &mut shared[place as usize];
                if *count == 0 {
                    counted.push(place);
                }
                *count += 1;
            }
            for place in counted.drain(..) {
                let (drawn, in_drawn) = index.drawn[place as usize];
                let shared = std::mem::take(&mut shared[place as usize]);
                let agrees = agreeing.is_some_and(|agreeing| agreeing.contains(&drawn));
                let common = SetOverlap { shared, of: [in_drawn, shingles.len() as u64], agrees };
                if (agrees || common.is_similar(&search.score))
                    && search.sets.are_compared(drawn, other, search.compare)
                {
                    found.push((drawn, other, common));
                }
            }
        }
        tokio::task::consume_budget().await;
    }
    Ok(found)
}

/// The number of filter bits per shingle. Each shingle in the drawn sets sets two bits in one word. At most one in 150 other shingles
/// passes. The filter for a thousand sets of a hundred shingles fits into the cache of a core.
const BITS_OF_SHINGLE: usize = 32;
/// The maximum number of filter bits is two to this power. The filter then takes 16 MiB.
const MOST_BITS: u32 = 27;

/// The maximum number of bytes per entry and its share of the filter. A vector at most doubles its capacity when it grows, and both
/// allocations exist while entries are copied.
const BYTES_OF_ENTRY: usize = 3 * size_of::<(u64, u32)>() + 2 * BITS_OF_SHINGLE / 8;

/// An index of the drawn sets by shingle.
pub(super) struct ShingleIndex {
    /// The drawn sets, as pairs of the id in [`Sets`] and the number of shingles.
    pub(super) drawn: Vec<(u64, u64)>,
    /// Sorted pairs of a shingle and the index of a drawn set with it.
    entries: Vec<(u64, u32)>,
    /// The words of the filter, in which each shingle of the drawn sets sets two bits of one word.
    filter: Vec<u64>,
    /// The distinct sizes of the drawn sets, sorted.
    sizes: Vec<u64>,
    score: Score,
    held: MemoryReservation,
}

impl ShingleIndex {
    pub(super) fn new(session: &SessionContext, score: Score) -> Self {
        let held = MemoryConsumer::new("Evaluate").register(&session.runtime_env().memory_pool);
        let (drawn, entries, filter, sizes) = Default::default();
        Self { drawn, entries, filter, sizes, score, held }
    }

    /// Adds a drawn set. `shingles` must be distinct. The index is usable after [`Self::finish`].
    pub(super) fn add(&mut self, set: u64, shingles: &[u64]) -> Result<()> {
        self.held.try_grow(BYTES_OF_ENTRY * shingles.len())?;
        let place = self.drawn.len() as u32;
        self.drawn.push((set, shingles.len() as u64));
        self.entries.extend(shingles.iter().map(|&shingle| (shingle, place)));
        Ok(())
    }

    pub(super) fn finish(&mut self) {
        self.entries.sort_unstable();
        self.sizes = self.drawn.iter().map(|(_, shingles)| *shingles).collect();
        self.sizes.sort_unstable();
        self.sizes.dedup();
        let bits = (BITS_OF_SHINGLE * self.entries.len()).max(64).next_power_of_two().ilog2().min(MOST_BITS);
        self.filter = vec![0; 1 << (bits - 6)];
        for at in 0..self.entries.len() {
            let (word, bits) = self.bits(self.entries[at].0);
            self.filter[word] |= bits;
        }
    }

    /// Returns the index of the filter's word for `shingle`, and its two bits. The multiplication spreads short hashes over all bits.
    fn bits(&self, shingle: u64) -> (usize, u64) {
        let hash = shingle.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The number of words is a power of two, so the leading bits of the hash select a word.
        let leading = self.filter.len().ilog2();
        let word = hash.checked_shr(u64::BITS - leading).unwrap_or(0) as usize;
        (word, 1 << (hash >> (58 - leading) & 63) | 1 << (hash >> (52 - leading) & 63))
    }

    /// Returns the indexes in [`Self::drawn`] of the sets that contain `shingle`.
    pub(super) fn places(&self, shingle: u64) -> impl Iterator<Item = u32> + '_ {
        let (word, bits) = self.bits(shingle);
        let start = if self.filter[word] & bits == bits {
            self.entries.partition_point(|entry| entry.0 < shingle)
        } else {
            self.entries.len()
        };
        self.entries[start..].iter().take_while(move |entry| entry.0 == shingle).map(|entry| entry.1)
    }

    /// Returns how many of its `shingles` shingles a document must share with a drawn set to be similar to it. Returns `None` if no drawn
    /// set has a suitable size.
    pub(super) fn least(&self, shingles: u64) -> Option<u64> {
        let Score { measure, threshold, .. } = self.score;
        measure.least_shared(shingles, &self.sizes, threshold)
    }
}

/// For each set, the drawn sets with an agreeing signature: the estimate reaches the threshold.
pub(super) type Agreeing = BTreeMap<u64, BTreeSet<u64>>;

/// Compares the signature of every set with the signatures of the sets `drawn`. Returns nothing if the job decides by exact similarity.
pub(super) async fn agreeing(stored: &Stored, sets: &Sets, drawn: &[u64]) -> Result<Agreeing> {
    let (score, compare) = (stored.job().score, stored.job().candidates.compare);
    let mut agreeing = Agreeing::new();
    if score.by != ScoreBy::Signature {
        return Ok(agreeing);
    }
    let documents = stored.table(Table::Documents)?.select(vec![col("doc"), col("signature")])?;
    let wanted = keys(stored, "wanted", drawn.iter().copied())?;
    let wanted = wanted.join(documents.clone(), JoinType::RightSemi, &["wanted"], &["doc"], None)?;
    let mut of_drawn: Vec<(u64, SignatureValues)> = Vec::with_capacity(drawn.len());
    for (frame, is_drawn) in [(wanted, true), (documents, false)] {
        let mut batches = frame.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let docs = as_uint64_array(batch.column(0))?;
            let signatures = SignatureRows::new("evaluate", batch.column(1))?;
            for (row, &doc) in docs.values().iter().enumerate() {
                // Only the document whose key is the id of its set is compared, since documents with the same set have the same signature.
                let (true, Some(signature)) = (sets.sets.contains_key(&doc), signatures.row(row)) else {
                    continue;
                };
                if is_drawn {
                    of_drawn.push((doc, signature.into()));
                    continue;
                }
                let agrees = |(drawn, other): &(u64, SignatureValues)| {
                    let estimate = minhash_similarity(signature, other.signature());
                    let reaches = estimate.is_some_and(|estimate| estimate >= score.threshold);
                    (reaches && sets.are_compared(*drawn, doc, compare)).then_some(*drawn)
                };
                let found: BTreeSet<u64> = of_drawn.iter().filter_map(agrees).collect();
                if !found.is_empty() {
                    agreeing.insert(doc, found);
                }
            }
            tokio::task::consume_budget().await;
        }
    }
    Ok(agreeing)
}

/// For each set, the ranks of its kept documents in the order of `clusters.keep`.
pub(super) type KeptRanks = BTreeMap<u64, Vec<u64>>;

/// Returns the kept documents of drawn sets and of their partners. Skips drawn sets with a single document and no partners.
pub(super) async fn kept_ranks(stored: &Stored, sets: &Sets, partners: &Partners) -> Result<KeptRanks> {
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
    let mut stay = KeptRanks::new();
    for batch in documents.collect().await? {
        let (sets, ranks) = (as_uint64_array(batch.column(0))?, as_uint64_array(batch.column(1))?);
        for (&set, &rank) in sets.values().iter().zip(ranks.values()) {
            stay.entry(set).or_default().push(rank);
        }
    }
    Ok(stay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Measure;
    use crate::kernel::hash::SplitMix64;

    fn index(score: Score, sets: &[(u64, Vec<u64>)]) -> ShingleIndex {
        let mut index = ShingleIndex::new(&SessionContext::new(), score);
        sets.iter().for_each(|(set, shingles)| index.add(*set, shingles).unwrap());
        index.finish();
        index
    }

    #[test]
    fn the_sets_of_a_shingle_are_found() {
        let mut random = SplitMix64(1);
        // Hashes with few bits are small numbers.
        let shared: Vec<u64> = (0..50).chain((0..50).map(|_| random.next())).collect();
        let own: Vec<u64> = (0..1_000).map(|_| random.next()).collect();
        let all = [(4, shared.clone()), (9, [shared.clone(), own.clone()].concat())];
        let index = index(Score::default(), &all);
        assert!(shared.iter().all(|&shingle| index.places(shingle).collect::<Vec<_>>() == [0, 1]));
        assert!(own.iter().all(|&shingle| index.places(shingle).collect::<Vec<_>>() == [1]));
        assert!((0..10_000).all(|_| index.places(random.next()).count() == 0));
        assert_eq!(index.drawn[1], (9, 1_100));
        let empty = super::tests::index(Score::default(), &[]);
        assert_eq!((empty.places(7).count(), empty.least(7)), (0, None));
    }

    /// A document never shares fewer shingles than `least` with a similar set.
    #[test]
    fn the_least_is_a_bound() {
        for measure in Measure::ALL {
            for threshold in [0.3, 0.5, 0.8, 1.0] {
                let sets = [3, 7, 40, 41].map(|size| (size, (0..size).collect::<Vec<u64>>()));
                let index = index(Score { threshold, measure, ..Score::default() }, &sets);
                for shingles in 1..120 {
                    let similar = |(size, shared): (u64, u64)| {
                        measure.similarity(shared, [size, shingles]) >= threshold
                    };
                    let overlaps = |size: u64| (0..=size.min(shingles)).map(move |shared| (size, shared));
                    let pairs = [3, 7, 40, 41].into_iter().flat_map(overlaps);
                    let fewest = pairs.filter(|&pair| similar(pair)).map(|(_, shared)| shared).min();
                    match (fewest, index.least(shingles)) {
                        (Some(fewest), Some(least)) => assert!(least > 0 && least <= fewest),
                        (None, None) => {}
                        (None, Some(_)) => assert!(measure.takes_any_size()),
                        (Some(_), None) => panic!("{measure:?} {threshold} {shingles}"),
                    }
                }
            }
        }
    }
}
