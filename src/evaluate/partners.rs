//! The true partners of the sets that were drawn: a scan of all documents, which are cut from their texts again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_list_array, as_uint64_array};
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::execute_stream_partitioned;
use datafusion::prelude::{DataFrame, SessionContext, cast, col};
use futures::TryStreamExt;

use super::sets::Sets;
use crate::error::{Error, Result};
use crate::job::{Job, Measure, Score, ShingleHash};
use crate::kernel::containment::containment_of;
use crate::kernel::jaccard::{as_set, jaccard_of};
use crate::output::Stored;
use crate::pipeline::frames;
use crate::schema::Table;
use crate::source::{self, Request};

/// What two sets have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Common {
    pub(super) shared: u64,
    /// The shingles of the set that was drawn, and of the other one.
    pub(super) of: [u64; 2],
}

impl Common {
    pub(super) fn jaccard(self) -> f64 {
        jaccard_of(self.shared, self.of[0], self.of[1])
    }

    /// The share of the drawn set that the other one has.
    pub(super) fn containment(self) -> f64 {
        containment_of(self.shared, self.of[0])
    }

    /// The similarity by a measure.
    pub(super) fn similarity(self, measure: Measure) -> f64 {
        match measure {
            Measure::Jaccard => self.jaccard(),
            Measure::Containment => containment_of(self.shared, self.of[0].min(self.of[1])),
        }
    }
}

/// The partners of each set that was drawn, by the numbers of both.
pub(super) type Partners = BTreeMap<u32, BTreeMap<u32, Common>>;

/// (doc, shingles) of all documents of an output: from their texts, or from the output if shingles have the numbers of its dictionary.
///
/// # Errors
/// [`Kind::Input`](crate::error::Kind::Input) where the source is gone or has changed.
async fn shingled(session: &SessionContext, stored: &Stored) -> Result<DataFrame> {
    let job = stored.job();
    let documents = stored.table(session, Table::Documents)?;
    if job.shingle.hash == ShingleHash::Dictionary {
        if !job.output.keep.shingles() {
            return Err(Error::job(
                "shingles are numbered by a dictionary, so texts alone do not tell them: run the job again with output.keep = \
                 \"shingles\"",
            ));
        }
        return Ok(documents.select(vec![col("doc"), col("shingles")])?);
    }
    let mut read = Vec::new();
    for (made, listed) in stored.sources(session, "the texts are read again", "").await? {
        let request = Request::all().cut(&made.shingle);
        let frame = source::read(session, &made.source, &listed, request).await?.frame;
        let texts = frames::documents::documents(frame)?;
        let shingles = frames::shingles_of_text(&texts, col("text"), &made.shingle)?;
        let source = cast(col("source"), DataType::Utf8).alias("source");
        read.push(Ok(texts.select(vec![source, col("position"), col("doc"), shingles.alias("shingles")])?));
    }
    let read = frames::union(read)?.ok_or_else(|| Error::bug("there is no source to read texts from"))?;
    // Of documents with one id, one alone was compared.
    let compared = documents.select(vec![
        cast(col("source"), DataType::Utf8).alias("of_source"),
        cast(col("position"), DataType::UInt64).alias("of_position"),
        col("doc").alias("of_doc"),
    ])?;
    let read = read.with_column("position", cast(col("position"), DataType::UInt64))?;
    let keys = (&["of_source", "of_position", "of_doc"], &["source", "position", "doc"]);
    let read = compared.join(read, JoinType::RightSemi, keys.0, keys.1, None)?;
    let read = read.select(vec![col("doc"), col("shingles")])?;
    frames::frequent::without(read, stored.frequent_shingles(session)?)
}

/// The drawn sets by their shingles.
struct Index {
    /// For each shingle, the places of the drawn sets that have it.
    places: HashMap<u64, Vec<u32>>,
    /// The numbers and sizes of the drawn sets, by their places.
    drawn: Vec<(u32, u64)>,
}

/// What decides whether two sets are partners.
#[derive(Clone, Copy)]
struct Rule {
    score: Score,
    compare: crate::job::Compare,
}

impl Rule {
    fn of(job: &Job) -> Self {
        Self { score: job.score, compare: job.candidates.compare }
    }
}

/// The true partners of the sets `drawn`, by the exact definition.
///
/// # Errors
/// As [`shingled`]; when a document of the output is not in its source.
pub(super) async fn partners(
    session: &SessionContext,
    stored: &Stored,
    sets: &Arc<Sets>,
    drawn: &[u32],
) -> Result<Partners> {
    let frame = shingled(session, stored).await?;
    let index = Arc::new(index(session, frame.clone(), sets, drawn).await?);
    let rule = Rule::of(stored.job());
    let plan = frame.create_physical_plan().await?;
    let streams = execute_stream_partitioned(plan, session.task_ctx())?;
    let scans: Vec<_> = streams
        .into_iter()
        .map(|stream| SpawnedTask::spawn(scan(stream, Arc::clone(&index), Arc::clone(sets), rule)))
        .collect();
    let mut partners: Partners = drawn.iter().map(|&set| (set, BTreeMap::new())).collect();
    for scan in scans {
        let found = scan.join().await.map_err(|e| Error::bug("a scan did not end").because(e))??;
        for (set, other, common) in found {
            partners.entry(set).or_default().insert(other, common);
        }
    }
    Ok(partners)
}

/// Reads the shingles of one document of each drawn set.
async fn index(session: &SessionContext, frame: DataFrame, sets: &Sets, drawn: &[u32]) -> Result<Index> {
    let mut wanted: BTreeMap<u32, u64> = BTreeMap::new();
    let is_drawn: std::collections::BTreeSet<u32> = drawn.iter().copied().collect();
    for member in sets.members.iter().filter(|member| is_drawn.contains(&member.set)) {
        wanted.entry(member.set).or_insert(member.doc);
    }
    let docs = arrow::array::UInt64Array::from_iter_values(wanted.values().copied());
    let docs: arrow::array::ArrayRef = Arc::new(docs);
    let docs = session.read_batch(RecordBatch::try_from_iter([("wanted", docs)])?)?;
    let frame = docs.join(frame, JoinType::RightSemi, &["wanted"], &["doc"], None)?;
    let mut index = Index { places: HashMap::new(), drawn: Vec::new() };
    for batch in frame.collect().await? {
        for (doc, shingles) in rows(&batch)? {
            let Some(set) = sets.of(doc) else { continue };
            let place = index.drawn.len() as u32;
            index.drawn.push((set, shingles.len() as u64));
            for &shingle in shingles.iter() {
                index.places.entry(shingle).or_default().push(place);
            }
        }
    }
    match index.drawn.len() == wanted.len() {
        true => Ok(index),
        false => Err(Error::input(format!(
            "{} of {} documents that were drawn are not in the source any more: run the job again with --overwrite",
            wanted.len() - index.drawn.len(),
            wanted.len()
        ))),
    }
}

/// The documents of a batch (doc, shingles), each with its sorted shingles.
fn rows(batch: &RecordBatch) -> Result<Vec<(u64, std::borrow::Cow<'_, [u64]>)>> {
    let (docs, lists) = (as_uint64_array(batch.column(0))?, as_list_array(batch.column(1))?);
    let (values, offsets) = (as_uint64_array(lists.values())?.values(), lists.value_offsets());
    let of = |row: usize| as_set(&values[offsets[row] as usize..offsets[row + 1] as usize]);
    Ok(docs.values().iter().enumerate().map(|(row, &doc)| (doc, of(row))).collect())
}

/// (drawn set, other set, what they share) of the partners among the documents of a stream.
async fn scan(
    mut stream: SendableRecordBatchStream,
    index: Arc<Index>,
    sets: Arc<Sets>,
    rule: Rule,
) -> Result<Vec<(u32, u32, Common)>> {
    let mut found = Vec::new();
    let mut shared = vec![0_u64; index.drawn.len()];
    let mut touched: Vec<u32> = Vec::new();
    while let Some(batch) = stream.try_next().await? {
        for (doc, shingles) in rows(&batch)? {
            let Some(other) = sets.of(doc) else { continue };
            for shingle in shingles.iter() {
                for &place in index.places.get(shingle).into_iter().flatten() {
                    let count = &mut shared[place as usize];
                    if *count == 0 {
                        touched.push(place);
                    }
                    *count += 1;
                }
            }
            for place in touched.drain(..) {
                let (set, size) = index.drawn[place as usize];
                let shared = std::mem::take(&mut shared[place as usize]);
                let common = Common { shared, of: [size, shingles.len() as u64] };
                let similar = common.similarity(rule.score.measure) >= rule.score.threshold
                    && rule.score.has_min_shared(common.shared, common.of);
                if similar && sets.are_compared(set, other, rule.compare) {
                    found.push((set, other, common));
                }
            }
        }
        tokio::task::consume_budget().await;
    }
    Ok(found)
}
