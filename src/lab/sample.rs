//! Reads the first documents of a source into memory.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::datasource::MemTable;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{DataFrame, SessionContext, col, lit};

use crate::error::counts::counted;
use crate::error::{Error, Result};
use crate::frames;
use crate::job::{Compare, DuplicateIds, Job, Measure, NewPairs, SameId, Shingle};
use crate::pipeline::{reference_texts, with_group};
use crate::source;

/// The maximum number of rows in a batch, which limits the size of batches with long texts.
const BATCH_ROWS: usize = 1_024;

/// The indexes of two columns of [`with_group`].
const ID: usize = 2;
const DOC: usize = 4;

/// The first comparable documents of a source in order of (source, position), and the first reference documents, in the columns of
/// [`with_group`].
pub(super) struct LabSample {
    own: RecordBatch,
    reference: Option<RecordBatch>,
}

impl LabSample {
    /// Reads at most `most` documents from the job's source, and at most as many reference documents. Takes only documents that have
    /// shingles by the settings `shingle`. Reads whole sources, because their files are read in any order.
    pub(super) async fn read(
        session: &SessionContext,
        job: &Job,
        shingle: &Shingle,
        most: usize,
    ) -> Result<Self> {
        if job.score.measure != Measure::Jaccard {
            return Err(Error::job(format!(
                "`score.measure` is \"{}\", and this command compares Jaccard similarities: leave the key out",
                job.score.measure
            )));
        }
        job.candidates.method.sample_search()?;
        if job.max_frequency.is_some() {
            return Err(Error::job(
                "`shingle.max_frequency` is set, and a small sample does not show which shingles are frequent: leave the key out \
                 of the job file for this command",
            ));
        }
        let source = &job.source;
        let read = source::open(session, source).await?;
        let mut own = with_group(read.frame, source, source.group.as_deref())?;
        let mut reference = reference_texts(session, job, &read.types).await?;
        match (job.same_id(), &mut reference) {
            (Some(SameId::Skip), Some(reference)) => {
                own = frames::reference::without(own, reference.clone())?;
            }
            (Some(SameId::Replace), Some(reference)) => {
                *reference = frames::reference::without(reference.clone(), own.clone())?;
            }
            (Some(SameId::Error) | None, _) | (_, None) => {}
        }
        let own = first(shingle, own, source.duplicate_ids, most).await?;
        let reference = match reference {
            Some(reference) => {
                // A reference output has no repeated ids, since its run rejected them.
                let second = job.second_source();
                let duplicates = second.map_or(DuplicateIds::Reject, |second| second.duplicate_ids);
                Some(first(shingle, reference, duplicates, most).await?)
            }
            None => None,
        };
        if own.num_rows() == 0 {
            return Err(Error::input(format!(
                "{} has no document that can be compared by shingles of size {}: the table rejects of `resemblance run` gives \
                 the reasons",
                source.urls.join(", "),
                shingle.size
            )));
        }
        if let (Some(reference), Some(SameId::Error)) = (&reference, job.same_id()) {
            let known: BTreeSet<u64> = keys(reference)?.map(|(doc, _)| doc).collect();
            if let Some((_, id)) = keys(&own)?.find(|(doc, _)| known.contains(doc)) {
                return Err(Error::input(format!(
                    "a document of the source has the id of a reference document, `{id}`: set against.same_id = \"replace\" if it \
                     replaces the reference document, or \"skip\" to leave it out"
                )));
            }
        }
        Ok(Self { own, reference })
    }

    /// Returns the first `count` documents, the first `count` reference documents, and the rules that decide which of their pairs are
    /// compared.
    pub(super) fn first(
        &self,
        session: &SessionContext,
        job: &Job,
        count: usize,
    ) -> Result<(DataFrame, ComparedDocuments)> {
        let head = |rows: &RecordBatch| rows.slice(0, count.min(rows.num_rows()));
        let (own, reference) = (head(&self.own), self.reference.as_ref().map(head));
        let frame =
            frames::union(std::iter::once(&own).chain(&reference).map(|rows| partitioned(session, rows)))?;
        let frame = frame.ok_or_else(|| Error::bug("a sample has no documents"))?;
        let groups = frames::groups::keys(frame.clone())?;
        let reference =
            reference.map(|rows| Ok::<_, Error>(session.read_batch(rows)?.select(vec![col("doc")])?));
        let (reference, compare) = (reference.transpose()?, job.candidates.compare);
        Ok((frame, ComparedDocuments { reference, pairs: job.new_pairs(), groups, compare }))
    }

    /// Returns the sizes of the samples instead of the sizes `asked`, and a note if the samples are not as requested.
    pub(super) fn sizes(&self, asked: &[usize]) -> (Vec<usize>, Option<String>) {
        let own = self.own.num_rows();
        let Some(reference) = self.reference.as_ref().map(RecordBatch::num_rows) else {
            return sizes(asked, own);
        };
        let note = format!(
            "a sample of N documents has the first N of the source ({own} at most) and the first N of [against] ({reference} at most)"
        );
        (sizes(asked, own.max(reference)).0, Some(note))
    }
}

/// The rules for the compared pairs of a sample.
#[derive(Clone)]
pub(super) struct ComparedDocuments {
    /// The keys (doc, ..) of the reference documents, which are not compared with each other.
    pub(super) reference: Option<DataFrame>,
    /// Whether new documents are compared with each other, or only with reference documents.
    pairs: Option<NewPairs>,
    /// All documents as (doc, group_key).
    groups: DataFrame,
    compare: Compare,
}

impl ComparedDocuments {
    /// Adds a column to `documents` (doc, ..) that marks the reference documents, if there are any.
    pub(super) fn marked(&self, documents: DataFrame) -> Result<DataFrame> {
        match &self.reference {
            Some(reference) => frames::reference::mark(documents, reference.clone()),
            None => Ok(documents),
        }
    }

    /// Keeps the pairs (a, b, ..) that the rules compare. `pairs` contains no pair of two reference documents.
    pub(super) fn compared(&self, mut pairs: DataFrame) -> Result<DataFrame> {
        if let (Some(reference), Some(NewPairs::WithReference)) = (&self.reference, self.pairs) {
            pairs = frames::reference::with_reference(pairs, reference.clone())?;
        }
        match self.compare {
            Compare::All => Ok(pairs),
            compare => frames::groups::compared(pairs, self.groups.clone(), compare),
        }
    }
}

/// Returns a frame with `rows` in as many partitions of similar sizes as the session has.
fn partitioned(session: &SessionContext, rows: &RecordBatch) -> Result<DataFrame> {
    let (count, threads) = (rows.num_rows(), session.state().config().target_partitions().max(1));
    let share = count.div_ceil(threads).max(1);
    let batch_rows = share.div_ceil(share.div_ceil(BATCH_ROWS));
    let mut partitions = vec![Vec::new(); threads];
    for (number, at) in (0..count).step_by(batch_rows).enumerate() {
        partitions[number % threads].push(rows.slice(at, batch_rows.min(count - at)));
    }
    Ok(session.read_table(Arc::new(MemTable::try_new(rows.schema(), partitions)?))?)
}

fn keys(rows: &RecordBatch) -> Result<impl Iterator<Item = (u64, &str)>> {
    let (docs, ids) = (as_uint64_array(rows.column(DOC))?, as_string_array(rows.column(ID))?);
    Ok(docs.values().iter().copied().zip(ids.iter().map(Option::unwrap_or_default)))
}

/// Returns the first `most` comparable documents in order of (source, position), with unique ids.
async fn first(
    shingle: &Shingle,
    documents: DataFrame,
    duplicates: DuplicateIds,
    most: usize,
) -> Result<RecordBatch> {
    let order = || ["source", "position"].map(|name| col(name).sort(true, false)).to_vec();
    // Only the shingles show which documents are too short.
    let cut = frames::sketches::shingles(documents.clone(), shingle)?.filter(col("reason").is_null())?;
    let mut places = cut.select(["source", "position", "doc"].map(col).to_vec())?;
    if duplicates == DuplicateIds::Reject {
        let copy = row_number().partition_by(vec![col("doc")]).order_by(order()).build()?.alias("copy");
        places = places.window(vec![copy])?.filter(col("copy").eq(lit(1_u64)))?;
    }
    let places = places.sort(order())?.limit(0, Some(most))?;
    // The columns of the two sides of a join need different names.
    let names = [("source", "of_source"), ("position", "of_position"), ("doc", "of_doc")];
    let places = places.select(frames::renamed(names))?.cache().await?;
    let (names, aliases) = (names.map(|(name, _)| name), names.map(|(_, alias)| alias));
    let first = places.join(documents, JoinType::RightSemi, &aliases, &names, None)?.sort(order())?;
    let schema = Arc::new(first.schema().as_arrow().clone());
    let rows = concat_batches(&schema, &first.collect().await?)?;
    let mut unique = BTreeSet::new();
    if let Some((_, id)) = keys(&rows)?.find(|(doc, _)| !unique.insert(*doc)) {
        return Err(Error::input(format!(
            "ids must be unique, but `{id}` is the id of several documents: name a column of unique ids as source.id (or \
             row_number), or set source.duplicate_ids = \"reject\""
        )));
    }
    Ok(rows)
}

/// Returns the sizes `asked`, ascending and without repetitions. Sizes over `available` become `available`, with a note.
fn sizes(asked: &[usize], available: usize) -> (Vec<usize>, Option<String>) {
    let asked: BTreeSet<usize> = asked.iter().copied().collect();
    let larger: Vec<String> = asked.range(available + 1..).map(usize::to_string).collect();
    let note = (!larger.is_empty()).then(|| {
        format!(
            "the source has {} that can be compared: instead of {}, all of them are taken",
            counted(available as u64, "document"),
            larger.join(", ")
        )
    });
    let sizes: BTreeSet<usize> = asked.into_iter().map(|size| size.min(available)).collect();
    (sizes.into_iter().collect(), note)
}
