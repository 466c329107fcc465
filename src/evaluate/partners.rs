//! The true partners of the sets that were drawn: a scan of all documents, which are cut from their texts again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::{Array, RecordBatch, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_list_array, as_string_array, as_string_view_array, as_uint64_array};
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::prelude::{DataFrame, cast, col, lit};
use futures::TryStreamExt;

use super::agreeing::Agreeing;
use super::index::Index;
use super::sets::{Set, Sets, keys, place};
use crate::error::{Error, Result};
use crate::frames::utf8;
use crate::job::{Compare, Measure, Score, ScoreBy, Shingle, ShingleHash};
use crate::kernel::containment::containment_of;
use crate::kernel::jaccard::{as_set, jaccard_of};
use crate::kernel::text::beginning::Beginning;
use crate::kernel::text::shingles::{Scratch, shingles};
use crate::origins::numbered;
use crate::output::Stored;
use crate::schema::Table;
use crate::source::{self, CUT, Places, Request};
use crate::udf::expr_fn::document_key;

/// What two sets have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Common {
    pub(super) shared: u64,
    /// The shingles of the set that was drawn, and of the other one.
    pub(super) of: [u64; 2],
    /// Whether their signatures agree as the job asks, where it decides by signatures.
    pub(super) agrees: bool,
}

impl Common {
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

/// The partners of each set that was drawn, by the numbers of both.
pub(super) type Partners = BTreeMap<u32, BTreeMap<u32, Common>>;

/// Where the shingles of documents come from.
enum Origin {
    /// A source, whose texts are cut by these rules.
    Texts(Box<Shingle>),
    /// The output: shingles have the numbers of its dictionary.
    Output,
}

/// Documents (source: Utf8, position: UInt64, doc: UInt64, origin: UInt64), with `text`: Utf8View, `cut`: `List<UInt64>` or both.
struct Documents {
    frame: DataFrame,
    origin: Origin,
}

/// The documents of an output, or those `wanted` of them, of each source. A document that was not compared may be among them.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where a source is gone or has changed.
async fn documents(stored: &Stored, wanted: Option<Places>) -> Result<Vec<Documents>> {
    let job = stored.job();
    let position = || cast(col("position"), DataType::UInt64).alias("position");
    if job.shingle.hash == ShingleHash::Dictionary {
        if !job.output.keep.shingles() {
            return Err(Error::job(
                "shingles are numbered by a dictionary, so texts alone do not tell them: run the job again with output.keep = \
                 \"shingles\"",
            ));
        }
        let origin = col("origin_number").alias("origin");
        let kept = vec![utf8("source"), position(), col("doc"), origin, col("shingles").alias(CUT)];
        let frame = stored.table(Table::Documents)?.select(kept)?;
        return Ok(vec![Documents { frame, origin: Origin::Output }]);
    }
    let sources = stored.sources("the texts are read again", "").await?;
    let (session, shingle) = (stored.session(), &job.shingle);
    let read = match wanted {
        Some(wanted) => source::read_at(session, numbered(&sources), wanted, Some(shingle)).await?,
        None => {
            let mut all = Vec::with_capacity(sources.len());
            for (origin, source, listed) in numbered(&sources) {
                let request = Request::all().cut(shingle);
                all.push((origin, source::read(session, source, listed, request).await?.frame));
            }
            all
        }
    };
    let mut all = Vec::with_capacity(read.len());
    for (origin, read) in read {
        let mut columns = vec![
            utf8("source"),
            position(),
            document_key(col("id")).alias("doc"),
            lit(origin).alias("origin"),
            cast(col("text"), DataType::Utf8View).alias("text"),
        ];
        columns.extend(read.schema().as_arrow().column_with_name(CUT).map(|_| col(CUT)));
        all.push(Documents {
            frame: read.select(columns)?,
            origin: Origin::Texts(Box::new(shingle.clone())),
        });
    }
    Ok(all)
}

/// The true partners of the sets `drawn`: the sets that are similar by the exact definition, and the `agreeing` ones.
///
/// # Errors
/// As [`documents`]; when a document that was drawn is not in its source.
pub(super) async fn partners(
    stored: &Stored,
    sets: &Arc<Sets>,
    drawn: &[u32],
    agreeing: Agreeing,
) -> Result<Partners> {
    let job = stored.job();
    let mut search = Search {
        index: Index::new(stored.session(), job.score),
        sets: Arc::clone(sets),
        frequent: frequent(stored).await?,
        score: job.score,
        compare: job.candidates.compare,
        agreeing,
    };
    search.index = index(stored, &search, drawn).await?;
    let search = Arc::new(search);
    let mut partners: Partners = drawn.iter().map(|&set| (set, BTreeMap::new())).collect();
    for Documents { frame, origin } in documents(stored, None).await? {
        let (origin, plan) = (Arc::new(origin), frame.create_physical_plan().await?);
        let streams = execute_stream_partitioned(plan, stored.session().task_ctx())?;
        let scan = |stream| SpawnedTask::spawn(scan(stream, Arc::clone(&search), Arc::clone(&origin)));
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
            let of = [set, other].map(|set| search.sets.sets[set as usize].shingles);
            let common = Common { shared: 0, of, agrees: true };
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

/// Reads the shingles of one document of each drawn set.
async fn index(stored: &Stored, search: &Search, drawn: &[u32]) -> Result<Index> {
    let mut missing: BTreeSet<u32> = drawn.iter().copied().collect();
    let docs = missing.iter().map(|&set| search.sets.sets[set as usize].doc);
    let docs = keys(stored, "wanted", docs)?;
    let places = stored.table(Table::Documents)?.select(vec![
        col("source"),
        cast(col("position"), DataType::UInt64).alias("position"),
        col("doc"),
        col("origin_number"),
    ])?;
    let places = docs.join(places, JoinType::RightSemi, &["wanted"], &["doc"], None)?;
    let wanted = Places::of_rows(places, col("origin_number")).await?;
    let mut index = Index::new(stored.session(), search.score);
    let mut cutter = Cutter::default();
    for Documents { frame, origin } in documents(stored, Some(wanted)).await? {
        let mut batches = frame.execute_stream().await?;
        while let Some(batch) = batches.try_next().await? {
            let rows = Rows::of(&batch)?;
            for row in 0..batch.num_rows() {
                let Some((number, set)) = search.set_of(&rows, row) else { continue };
                if !missing.contains(&number) || !rows.is_at(row, set.place) {
                    continue;
                }
                if let Some(shingles) = cutter.whole(&rows, row, &origin, &search.frequent)? {
                    index.add(number, shingles)?;
                    missing.remove(&number);
                }
            }
        }
    }
    if !missing.is_empty() {
        return Err(Error::input(format!(
            "{} of {} documents that were drawn are not in the source any more: run the job again with --overwrite",
            missing.len(),
            drawn.len()
        )));
    }
    index.finish();
    Ok(index)
}

/// What a scan needs to know.
struct Search {
    index: Index,
    sets: Arc<Sets>,
    frequent: HashSet<u64>,
    score: Score,
    compare: Compare,
    agreeing: Agreeing,
}

impl Search {
    /// The shingle set of a document and its number, if the document is read for all that have this set.
    fn set_of(&self, rows: &Rows<'_>, row: usize) -> Option<(u32, &Set)> {
        let doc = rows.docs.is_valid(row).then(|| rows.docs.value(row))?;
        let number = self.sets.of(doc)?;
        let set = &self.sets.sets[number as usize];
        (set.doc == doc).then_some((number, set))
    }
}

/// The columns of a batch of [`Documents`].
struct Rows<'a> {
    sources: &'a arrow::array::StringArray,
    positions: &'a UInt64Array,
    docs: &'a UInt64Array,
    origins: &'a UInt64Array,
    texts: Option<&'a arrow::array::StringViewArray>,
    cuts: Option<&'a arrow::array::ListArray>,
}

impl<'a> Rows<'a> {
    fn of(batch: &'a RecordBatch) -> Result<Self> {
        let column = |name: &str| batch.column_by_name(name);
        Ok(Self {
            sources: as_string_array(batch.column(0))?,
            positions: as_uint64_array(batch.column(1))?,
            docs: as_uint64_array(batch.column(2))?,
            origins: as_uint64_array(batch.column(3))?,
            texts: column("text").map(|texts| as_string_view_array(texts)).transpose()?,
            cuts: column(CUT).map(|cuts| as_list_array(cuts)).transpose()?,
        })
    }

    /// Whether a document is at this place.
    fn is_at(&self, row: usize, at: u64) -> bool {
        let of = |source| place(self.origins.value(row), source, self.positions.value(row));
        self.sources.is_valid(row) && of(self.sources.value(row)) == at
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
    scratch: Scratch,
    set: Vec<u64>,
}

impl Cutter {
    /// The distinct shingles of a document that count; `None` if there is no text.
    fn whole(
        &mut self,
        rows: &Rows<'_>,
        row: usize,
        origin: &Origin,
        frequent: &HashSet<u64>,
    ) -> Result<Option<&[u64]>> {
        let Self { scratch, set, .. } = self;
        set.clear();
        match (rows.text(row), origin, rows.cuts) {
            (Some(text), Origin::Texts(by), _) => shingles(text, by, scratch, set)?,
            (None, _, Some(cuts)) if cuts.is_valid(row) => {
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
    fn is_other(&mut self, text: &str, by: &Shingle, search: &Search, least: u64, all: u64) -> Result<bool> {
        let needed = all.saturating_sub(least) as usize + 1;
        let Some(some) = self.beginning.shingles(text, by, needed, all as usize)? else { return Ok(false) };
        let counting = || some.iter().filter(|shingle| !search.frequent.contains(shingle));
        let others = counting().filter(|shingle| search.index.places(**shingle).next().is_none()).count();
        Ok(others >= needed)
    }
}

/// (drawn set, other set, what they share) of the partners among the documents of a stream.
async fn scan(
    mut stream: SendableRecordBatchStream,
    search: Arc<Search>,
    origin: Arc<Origin>,
) -> Result<Vec<(u32, u32, Common)>> {
    let index = &search.index;
    let mut found = Vec::new();
    let mut cutter = Cutter::default();
    let mut shared = vec![0_u64; index.drawn.len()];
    let mut counted: Vec<u32> = Vec::new();
    while let Some(batch) = stream.try_next().await? {
        let rows = Rows::of(&batch)?;
        for row in 0..batch.num_rows() {
            let Some((other, set)) = search.set_of(&rows, row) else { continue };
            let agreeing = search.agreeing.get(&other);
            // How many shingles it shares with a set that it agrees with is not bounded.
            if agreeing.is_none() {
                let Some(least) = index.least(set.shingles) else { continue };
                if let (Some(text), Origin::Texts(by)) = (rows.text(row), &*origin)
                    && cutter.is_other(text, by, &search, least, set.shingles)?
                {
                    continue;
                }
            }
            if !rows.is_at(row, set.place) {
                continue;
            }
            let Some(shingles) = cutter.whole(&rows, row, &origin, &search.frequent)? else { continue };
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
                let common = Common { shared, of: [drawn.shingles, shingles.len() as u64], agrees };
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
