//! The first documents of a source, held in memory.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::common::JoinType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::datasource::MemTable;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::ExprFunctionExt;
use datafusion::prelude::{DataFrame, SessionContext, col, lit};

use crate::error::{Error, Result};
use crate::frames;
use crate::job::{Compare, DuplicateIds, Job, Measure, NewPairs, SameId, Shingle};
use crate::pipeline::{reference_texts, with_group};
use crate::source;

/// Rows of a batch, so that batches of long texts stay small.
const BATCH_ROWS: usize = 1_024;

/// Indices of the columns that are used here.
const ID: usize = 2;
const DOC: usize = 4;

/// The first documents of a source that can be compared, in order of (source, position), and the first reference
/// documents.
pub(super) struct LabSample {
    /// The columns of [`with_group`], a row for each document.
    own: RecordBatch,
    /// The reference documents, if the job names any, with the same columns.
    known: Option<RecordBatch>,
}

/// The documents of a sample, and which of them are compared.
pub(super) struct SampledDocuments {
    pub(super) frame: DataFrame,
    pub(super) compared: ComparedDocuments,
}

impl LabSample {
    /// Reads the first `most` documents of the job's source that have shingles by the rules of `shingle`, and as many
    /// reference documents. Reads whole sources, because their files come in any order, and holds the sample in memory.
    ///
    /// # Errors
    /// When a source cannot be read, has no document that can be compared, or the sample has an id twice and the job
    /// does not allow it.
    pub(super) async fn take(
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
        if !job.candidates.method.compares() {
            return Err(Error::job(
                "`candidates.method` = \"none\" compares no documents, which this command does: leave the key out for it",
            ));
        }
        if job.max_frequency.is_some() {
            return Err(Error::job(
                "`shingle.max_frequency` is set, and a small sample does not show which shingles are frequent: leave the key out \
                 of the job file for this command",
            ));
        }
        let source = &job.source;
        let read = source::open(session, source).await?;
        let mut own = with_group(read.frame, source, source.group.as_deref())?;
        let mut known = reference_texts(session, job, &read.types).await?;
        match (job.same_id(), &mut known) {
            (Some(SameId::Skip), Some(known)) => own = frames::reference::without(own, known.clone())?,
            (Some(SameId::Replace), Some(known)) => {
                *known = frames::reference::without(known.clone(), own.clone())?
            }
            (Some(SameId::Error) | None, _) | (_, None) => {}
        }
        let cut = Job { shingle: shingle.clone(), ..job.clone() };
        let own = first(&cut, own, source.duplicate_ids, most).await?;
        let known = match known {
            Some(known) => {
                // A repeated id was an error or rejected in the earlier run.
                let duplicates =
                    job.second_source().map_or(DuplicateIds::Reject, |second| second.duplicate_ids);
                Some(first(&cut, known, duplicates, most).await?)
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
        let sample = Self { own, known };
        sample.refuse_known_ids(job)?;
        Ok(sample)
    }

    /// Refuses a document with the id of a reference document, if a run of the job does.
    fn refuse_known_ids(&self, job: &Job) -> Result<()> {
        let (Some(known), Some(SameId::Error)) = (&self.known, job.same_id()) else { return Ok(()) };
        let known: BTreeSet<u64> = as_uint64_array(known.column(DOC))?.values().iter().copied().collect();
        let (docs, ids) = (as_uint64_array(self.own.column(DOC))?, as_string_array(self.own.column(ID))?);
        match docs.values().iter().zip(ids.iter().flatten()).find(|(doc, _)| known.contains(doc)) {
            None => Ok(()),
            Some((_, id)) => Err(Error::input(format!(
                "a document of the source has the id of a reference document, `{id}`: set against.same_id = \"replace\" if it takes \
                 the place of the known one, or \"skip\" to leave it out"
            ))),
        }
    }

    /// The number of documents of the source or of reference documents, whichever is larger.
    pub(super) fn len(&self) -> usize {
        self.own.num_rows().max(self.known.as_ref().map_or(0, RecordBatch::num_rows))
    }

    /// The first `count` documents, and the first `count` reference documents.
    pub(super) fn first(
        &self,
        session: &SessionContext,
        job: &Job,
        count: usize,
    ) -> Result<SampledDocuments> {
        let of = |rows: &RecordBatch| rows.slice(0, count.min(rows.num_rows()));
        let (own, known) = (of(&self.own), self.known.as_ref().map(of));
        let sides = std::iter::once(&own).chain(&known);
        let frame = frames::union(sides.map(|rows| partitioned(session, rows)))?;
        let frame = frame.ok_or_else(|| Error::bug("a sample has no documents"))?;
        Ok(SampledDocuments { frame, compared: ComparedDocuments::new(session, job, own, known)? })
    }

    /// The possible sizes among `asked`, and a note on the samples if one is needed.
    pub(super) fn sizes(&self, asked: &[NonZeroUsize]) -> (Vec<usize>, Option<String>) {
        let (sizes, note) = sizes(asked, self.len());
        let Some(known) = &self.known else { return (sizes, note) };
        let (own, known) = (self.own.num_rows(), known.num_rows());
        let note = format!(
            "a sample of N documents has the first N of the source ({own} at most) and the first N of those that [against] names \
             ({known} at most)"
        );
        (sizes, Some(note))
    }
}

/// The reference documents and groups of a sample.
#[derive(Clone)]
pub(super) struct ComparedDocuments {
    /// The reference documents (doc), if there are any.
    known: Option<DataFrame>,
    /// Which documents are paired with them.
    pairs: Option<NewPairs>,
    /// (doc, group_key) of all documents.
    groups: DataFrame,
    compare: Compare,
}

impl ComparedDocuments {
    /// The documents (doc, group, ..) of the source, and the reference documents.
    fn new(
        session: &SessionContext,
        job: &Job,
        own: RecordBatch,
        known: Option<RecordBatch>,
    ) -> Result<Self> {
        let table = |rows: RecordBatch| -> Result<DataFrame> {
            Ok(session.read_table(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?))?)
        };
        let mut groups = frames::groups::keys(table(own)?)?;
        let known = known.map(table).transpose()?;
        if let Some(known) = &known {
            groups = groups.union(frames::groups::keys(known.clone())?)?;
        }
        let known = known.map(|known| known.select(vec![col("doc")])).transpose()?;
        Ok(Self { known, pairs: job.new_pairs(), groups, compare: job.candidates.compare })
    }

    /// The reference documents (doc), which are not compared with each other.
    pub(super) fn known(&self) -> Option<DataFrame> {
        self.known.clone()
    }

    /// Documents (doc, ..) with a mark on the reference documents.
    pub(super) fn marked(&self, documents: DataFrame) -> Result<DataFrame> {
        match &self.known {
            Some(known) => frames::reference::mark(documents, known.clone()),
            None => Ok(documents),
        }
    }

    /// The pairs of (a, b, ..) that are compared. None of them has two reference documents.
    pub(super) fn only(&self, mut pairs: DataFrame) -> Result<DataFrame> {
        if let (Some(known), Some(NewPairs::WithReference)) = (&self.known, self.pairs) {
            pairs = frames::reference::with_reference(pairs, known.clone())?;
        }
        match self.compare {
            Compare::All => Ok(pairs),
            compare => frames::groups::compared(pairs, self.groups.clone(), compare),
        }
    }
}

/// Rows in as many partitions of equal size as the session has.
fn partitioned(session: &SessionContext, rows: &RecordBatch) -> Result<DataFrame> {
    let count = rows.num_rows();
    let partitions = session.state().config().target_partitions().max(1);
    let share = count.div_ceil(partitions).max(1);
    let batches = |from: usize, to: usize| {
        let starts = (from..to).step_by(BATCH_ROWS);
        starts.map(|at| rows.slice(at, BATCH_ROWS.min(to - at))).collect::<Vec<_>>()
    };
    let partitions =
        (0..partitions).map(|i| batches((i * share).min(count), ((i + 1) * share).min(count))).collect();
    Ok(session.read_table(Arc::new(MemTable::try_new(rows.schema(), partitions)?))?)
}

/// The first `most` of these documents, in order of (source, position), that can be compared and have unique ids.
async fn first(
    job: &Job,
    documents: DataFrame,
    duplicates: DuplicateIds,
    most: usize,
) -> Result<RecordBatch> {
    let order = || ["source", "position"].map(|name| col(name).sort(true, false)).to_vec();
    // A document is known to be too short only when it is cut.
    let cut = frames::shingles::shingles(documents.clone(), &job.shingle)?.filter(col("reason").is_null())?;
    let mut places = cut.select(["source", "position", "doc"].map(col).to_vec())?;
    if duplicates == DuplicateIds::Reject {
        let copy = row_number().partition_by(vec![col("doc")]).order_by(order()).build()?.alias("copy");
        places = places.window(vec![copy])?.filter(col("copy").eq(lit(1_u64)))?;
    }
    let places = places.sort(order())?.limit(0, Some(most))?;
    let places = places.select(PLACE.map(|(name, alias)| col(name).alias(alias)).to_vec())?;
    let places = places.cache().await?;
    let (names, aliases) = (PLACE.map(|(name, _)| name), PLACE.map(|(_, alias)| alias));
    let first = places.join(documents, JoinType::RightSemi, &aliases, &names, None)?.sort(order())?;
    let schema = Arc::new(first.schema().as_arrow().clone());
    let rows = concat_batches(&schema, &first.collect().await?)?;
    let (ids, docs) = (as_string_array(rows.column(ID))?, as_uint64_array(rows.column(DOC))?);
    let mut seen = BTreeSet::new();
    match docs.values().iter().zip(ids).find(|(doc, _)| !seen.insert(**doc)) {
        None => Ok(rows),
        Some((_, id)) => Err(Error::input(format!(
            "ids must be unique, but `{}` is the id of several documents: name a column of unique ids as source.id (or row_number), \
             or set source.duplicate_ids = \"reject\"",
            id.unwrap_or_default()
        ))),
    }
}

/// The columns that identify a document, each with its name on the other side of a join.
const PLACE: [(&str, &str); 3] = [("source", "of_source"), ("position", "of_position"), ("doc", "of_doc")];

/// The possible sizes of samples of `available` documents: those of `asked`, sorted and unique. Larger ones become
/// `available`, with a note.
fn sizes(asked: &[NonZeroUsize], available: usize) -> (Vec<usize>, Option<String>) {
    let sizes: BTreeSet<usize> = asked.iter().map(|n| n.get().min(available)).collect();
    let more: Vec<String> = asked
        .iter()
        .filter(|n| n.get() > available)
        .collect::<BTreeSet<_>>()
        .into_iter()
        .map(|n| n.to_string())
        .collect();
    let note = (!more.is_empty()).then(|| {
        format!(
            "the source has {available} documents that can be compared: instead of {}, all of them are taken",
            more.join(", ")
        )
    });
    (sizes.into_iter().collect(), note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_order_and_no_larger_than_there_are() {
        let asked = |n: &[usize]| n.iter().map(|n| NonZeroUsize::new(*n).unwrap()).collect::<Vec<_>>();
        assert_eq!(sizes(&asked(&[500, 100, 100]), 1000), (vec![100, 500], None));
        let (sizes, note) = sizes(&asked(&[100, 2000, 1000, 500]), 600);
        assert_eq!(sizes, [100, 500, 600]);
        let note = note.unwrap();
        assert!(note.contains("600 documents") && note.contains("1000, 2000"), "{note}");
    }
}
