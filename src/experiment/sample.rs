//! The first documents of a source, held in memory.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::DataType;
use datafusion::common::cast::{as_string_array, as_uint64_array};
use datafusion::datasource::MemTable;
use datafusion::prelude::{DataFrame, SessionContext, cast, col};

use super::timing::{self, Step};
use crate::error::{Error, Result};
use crate::job::{DuplicateIds, Job, Measure};
use crate::{source, stage};

/// Rows of a batch, so that no batch of long texts grows large on its way.
const BATCH_ROWS: usize = 1_024;

/// The first documents of a source, in order of (source, position), that can be compared.
pub(super) struct Sample {
    /// The columns of [`stage::documents`], a row for each document.
    rows: RecordBatch,
}

impl Sample {
    /// Reads the first `most` documents of the job's source, or all where there are fewer. The whole source is read,
    /// since its files may come in any order; the documents that are kept are held in memory.
    ///
    /// # Errors
    /// When the source cannot be read, has no document that can be compared, or the sample has an id twice and the job
    /// does not allow it.
    pub(super) async fn take(session: &SessionContext, job: &Job, most: usize) -> Result<Self> {
        if job.score.measure != Measure::Jaccard {
            return Err(Error::job(
                "`score.measure` is \"containment\", and this command compares Jaccard similarities: leave the key out",
            ));
        }
        let read = source::open(session, &job.source).await?.frame;
        let documents = stage::documents::documents(read)?.filter(col("reason").is_null())?.select(vec![
            cast(col("source"), DataType::Utf8).alias("source"),
            col("position"),
            cast(col("id"), DataType::Utf8).alias("id"),
            col("text"),
            col("doc"),
            col("reason"),
        ])?;
        let order = vec![col("source").sort(true, false), col("position").sort(true, false)];
        // Which documents are too short is known only when they are cut, so some more are read than are asked for.
        let mut asked = most.saturating_add(most / 4).saturating_add(64);
        loop {
            let first = documents.clone().sort(order.clone())?.limit(0, Some(asked))?;
            let schema = Arc::new(first.schema().as_arrow().clone());
            let rows = concat_batches(&schema, &first.collect().await?)?;
            let kept = kept(session, job, &rows, most).await?;
            let all_read = rows.num_rows() < asked;
            if kept.len() < most && !all_read {
                asked = asked.saturating_mul(4);
                continue;
            }
            if kept.is_empty() {
                return Err(Error::input(format!(
                    "{} has no document that can be compared by shingles of size {}: the table rejects of `resemblance \
                     run` gives the reasons",
                    job.source.urls.join(", "),
                    job.shingle.size
                )));
            }
            return Ok(Self { rows: take_record_batch(&rows, &UInt64Array::from(kept))? });
        }
    }

    /// The number of documents.
    pub(super) fn len(&self) -> usize {
        self.rows.num_rows()
    }

    /// The first `count` documents, in as many partitions of like size as the session has.
    pub(super) fn first(&self, session: &SessionContext, count: usize) -> Result<DataFrame> {
        let count = count.min(self.len());
        let partitions = session.state().config().target_partitions().max(1);
        let share = count.div_ceil(partitions).max(1);
        let batches = |from: usize, to: usize| {
            let starts = (from..to).step_by(BATCH_ROWS);
            starts.map(|at| self.rows.slice(at, BATCH_ROWS.min(to - at))).collect::<Vec<_>>()
        };
        let partitions =
            (0..partitions).map(|i| batches((i * share).min(count), ((i + 1) * share).min(count))).collect();
        Ok(session.read_table(Arc::new(MemTable::try_new(self.rows.schema(), partitions)?))?)
    }
}

/// The numbers of the first `most` rows that can be compared and whose id is not another's.
async fn kept(session: &SessionContext, job: &Job, rows: &RecordBatch, most: usize) -> Result<Vec<u64>> {
    let comparable = comparable(session, job, rows).await?;
    let (ids, docs) = (as_string_array(rows.column(2))?, as_uint64_array(rows.column(4))?);
    let mut seen = BTreeSet::new();
    let mut kept = Vec::new();
    for (row, doc) in (0_u64..).zip(docs.values()) {
        let compared = comparable.contains(&row);
        match job.source.duplicate_ids {
            DuplicateIds::Reject if compared && !seen.insert(doc) => continue,
            DuplicateIds::Error if compared && !seen.insert(doc) => {
                return Err(Error::input(format!(
                    "ids must be unique, but `{}` is the id of several documents: name a column of unique ids as source.id (or row_number), or set source.duplicate_ids = \"reject\"",
                    ids.value(row as usize)
                )));
            }
            DuplicateIds::Reject | DuplicateIds::Error => {}
        }
        if compared {
            kept.push(row);
        }
        if kept.len() == most {
            break;
        }
    }
    Ok(kept)
}

/// The numbers of the rows that have shingles.
async fn comparable(session: &SessionContext, job: &Job, rows: &RecordBatch) -> Result<BTreeSet<u64>> {
    // The stage passes positions through, so here they carry the row's number.
    let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..rows.num_rows() as u64));
    let mut columns = rows.columns().to_vec();
    columns[1] = numbers;
    let rows = RecordBatch::try_new(rows.schema(), columns)?;
    let sample = Sample { rows };
    let cut = timing::stage(Step::Shingles, sample.first(session, sample.len())?, job).await?;
    let mut comparable = BTreeSet::new();
    for batch in cut.filter(col("reason").is_null())?.select(vec![col("position")])?.collect().await? {
        comparable.extend(as_uint64_array(batch.column(0))?.values());
    }
    Ok(comparable)
}

/// The sizes of the samples that can be taken of `available` documents: those of `asked`, in order, each once. What is
/// larger becomes all of them, and the note says so.
pub(super) fn sizes(asked: &[NonZeroUsize], available: usize) -> (Vec<usize>, Option<String>) {
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
