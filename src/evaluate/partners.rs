//! The true partners of the sets that were drawn: a scan of all documents, which are cut from their texts again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_list_array, as_string_view_array, as_uint64_array};
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::prelude::{DataFrame, cast, col};
use futures::TryStreamExt;

use super::agreeing::Agreeing;
use super::index::Index;
use super::sets::{Sets, keys};
use crate::error::{Error, Result};
use crate::job::{Compare, Measure, Score, ScoreBy, Shingle, ShingleHash};
use crate::kernel::containment::containment_of;
use crate::kernel::jaccard::{as_set, jaccard_of};
use crate::kernel::text::beginning::Beginning;
use crate::kernel::text::shingles::{ShingleBuffers, shingles};
use crate::origins::numbered;
use crate::output::Stored;
use crate::schema::Table;
use crate::source::{self, CUT, DocumentPlaces};
use crate::udf::expr_fn::document_key;

/// What two sets have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SetOverlap {
    pub(super) shared: u64,
    /// The shingles of the set that was drawn, and of the other one.
    pub(super) of: [u64; 2],
    /// Whether their signatures agree as the job asks, where it decides by signatures.
    pub(super) agrees: bool,
}

impl SetOverlap {
    /// Whether the exact similarity reaches the threshold.
    pub(super) fn is_similar(self, score: &Score) -> bool {
        self.similarity(score.measure) >= score.threshold && score.has_min_shared(self.shared, self.of)
    }

    /// Whether the two are a pair, by the exact similarity or by the estimate, as the job says.
    pub(super) fn is_pair(self, score: &Score) -> bool {
        match score.by {
            ScoreBy::Shingles => self.is_similar(score),
            ScoreBy::Signature => self.agrees && score.has_min_shared(self.shared, self.of),
        }
    }

    pub(super) fn jaccard(self) -> f64 {
        jaccard_of(self.shared, self.of[0], self.of[1])
    }

    /// The share of the drawn set that the other one has.
    pub(super) fn containment(self) -> f64 {
        containment_of(self.shared, self.of[0])
    }

    /// The similarity by a measure.
    pub(super) fn similarity(self, measure: Measure) -> f64 {
        measure.similarity(self.shared, self.of)
    }
}

/// The partners of each set that was drawn, by both sets.
pub(super) type Partners = BTreeMap<u64, BTreeMap<u64, SetOverlap>>;

/// Reads documents as frames (doc: UInt64, ..) with `text`: Utf8View, `cut`: `List<UInt64>` or both.
///
/// `wanted` has one column of document keys; `None` reads all documents. The frames may have other documents too.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where a source is gone or has changed.
async fn documents(stored: &Stored, wanted: Option<DataFrame>) -> Result<Vec<DataFrame>> {
    let (job, session) = (stored.job(), stored.session());
    let table = stored.table(Table::Documents)?;
    if job.shingle.hash == ShingleHash::Dictionary {
        if !job.output.keep.shingles() {
            return Err(Error::job(
                "shingles are numbered by a dictionary, so texts alone do not tell them: run the job again with output.keep = \
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

/// The true partners of the sets `drawn`: the sets that are similar by the exact definition, and the `agreeing` ones.
///
/// # Errors
/// As [`documents`]; when a document that was drawn is not in its source.
pub(super) async fn partners(
    stored: &Stored,
    sets: &Arc<Sets>,
    drawn: &[u64],
    agreeing: Agreeing,
) -> Result<Partners> {
    let job = stored.job();
    let mut search = PartnerSearch {
        index: Index::new(stored.session(), job.score),
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
    // Signatures may agree where no shingle is shared.
    for (&other, agreeing) in &search.agreeing {
        for &set in agreeing {
            let of = [set, other].map(|set| sets.sets.get(&set).map_or(0, |set| set.shingles));
            let common = SetOverlap { shared: 0, of, agrees: true };
            partners.entry(set).or_default().entry(other).or_insert(common);
        }
    }
    Ok(partners)
}

/// The shingles that do not count.
async fn frequent(stored: &Stored) -> Result<HashSet<u64>> {
    let mut frequent = HashSet::new();
    if let Some(rows) = stored.frequent_shingles()? {
        for batch in rows.select(vec![col("shingle")])?.collect().await? {
            frequent.extend(as_uint64_array(batch.column(0))?.values().iter());
        }
    }
    Ok(frequent)
}

/// What a scan needs to know.
struct PartnerSearch {
    index: Index,
    sets: Arc<Sets>,
    shingle: Shingle,
    frequent: HashSet<u64>,
    score: Score,
    compare: Compare,
    agreeing: Agreeing,
}

impl PartnerSearch {
    /// Reads the shingles of one document of each drawn set.
    async fn fill(&mut self, stored: &Stored, drawn: &[u64]) -> Result<()> {
        let is_drawn: BTreeSet<u64> = drawn.iter().copied().collect();
        let mut cutter = Cutter::default();
        let wanted = keys(stored, "wanted", drawn.iter().copied())?;
        for frame in documents(stored, Some(wanted)).await? {
            let mut batches = frame.execute_stream().await?;
            while let Some(batch) = batches.try_next().await? {
                let rows = ScannedRows::of(&batch)?;
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
                "{missing} of {} documents that were drawn are not in the source any more: run the job again with --overwrite",
                drawn.len()
            )));
        }
        self.index.finish();
        Ok(())
    }
}

/// The columns of a batch of [`documents`].
struct ScannedRows<'a> {
    docs: &'a UInt64Array,
    texts: Option<&'a arrow::array::StringViewArray>,
    cuts: Option<&'a arrow::array::ListArray>,
}

impl<'a> ScannedRows<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self> {
        let column = |name: &str| batch.column_by_name(name);
        Ok(Self {
            docs: as_uint64_array(batch.column(0))?,
            texts: column("text").map(|texts| as_string_view_array(texts)).transpose()?,
            cuts: column(CUT).map(|cuts| as_list_array(cuts)).transpose()?,
        })
    }

    /// The key of a document; `None` without an id.
    fn doc(&self, row: usize) -> Option<u64> {
        self.docs.is_valid(row).then(|| self.docs.value(row))
    }

    /// The text of a document that was not cut while it was read.
    fn text(&self, row: usize) -> Option<&'a str> {
        let is_cut = self.cuts.is_some_and(|cuts| cuts.is_valid(row));
        let texts = self.texts.filter(|texts| !is_cut && texts.is_valid(row))?;
        Some(texts.value(row))
    }
}

/// Buffers for shingles, which are reused from document to document.
#[derive(Default)]
struct Cutter {
    beginning: Beginning,
    scratch: ShingleBuffers,
    set: Vec<u64>,
}

impl Cutter {
    /// The distinct shingles of a document that count; `None` if there is no text.
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

    /// Whether the beginning of a text says that its document, which has `all` shingles, is not similar to a drawn set: so many
    /// of them are in none of these that fewer than `least` are left.
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

/// (drawn set, other set, what they share) of the partners among the documents of a stream.
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
        let rows = ScannedRows::of(&batch)?;
        for row in 0..batch.num_rows() {
            let Some(other) = rows.doc(row) else { continue };
            let Some(set) = search.sets.sets.get(&other) else { continue };
            let agreeing = search.agreeing.get(&other);
            // How many shingles it shares with a set that it agrees with is not bounded.
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
                let drawn = index.drawn[place as usize];
                let shared = std::mem::take(&mut shared[place as usize]);
                let agrees = agreeing.is_some_and(|agreeing| agreeing.contains(&drawn.set));
                let common = SetOverlap { shared, of: [drawn.shingles, shingles.len() as u64], agrees };
                if (agrees || common.is_similar(&search.score))
                    && search.sets.are_compared(drawn.set, other, search.compare)
                {
                    found.push((drawn.set, other, common));
                }
            }
        }
        tokio::task::consume_budget().await;
    }
    Ok(found)
}
