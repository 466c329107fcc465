//! The prefix join: documents are joined by their rarest shingles, which finds candidates of all documents or of hot
//! buckets.

use datafusion::prelude::col;

use super::dense_candidates;
use super::interface::{Result, StageContext, Table, WorkTable, Writes, frames};
use super::pair_limit::{self, Population};
use crate::job::Compare;
use crate::pipeline::by_group;
use crate::pipeline::verify::BYTES_OF_PREFIX;

/// Pairs documents by their rarest shingles in `stage`: all documents, or those of hot buckets, whose pairs are added to the
/// `others`. Settles the dense groups among them.
pub(super) async fn by_prefixes(
    stage: &dyn Writes,
    cx: &StageContext<'_>,
    others: Option<WorkTable>,
) -> Result<()> {
    let job = cx.job;
    // The set of a leader is similar to those of its documents. But a set that contains a leader's need not contain the
    // others, and a document whose leader is in its own group may be similar to documents of other groups.
    let is_plain = !job.score.measure.takes_any_size() && job.candidates.compare == Compare::All;
    let dense = job.output.most_expanded().filter(|_| is_plain);
    if dense.is_none() {
        // Nothing bounds the number of pairs.
        let (of, count, reference) = match others {
            Some(_) => {
                let keys = cx.table(WorkTable::HOT)?.select(vec![col("a").alias("needed")])?;
                let count = cx.rows(WorkTable::HOT);
                (Some(Population { keys, count }), count, 0)
            }
            None => (None, cx.rows(Table::Documents), cx.rows(WorkTable::REFERENCE)),
        };
        pair_limit::check_pairs(cx, of, pair_limit::with_new(count, reference)).await?;
    }
    let (documents, join) = (cx.documents_to_join()?, cx.join().await?);
    let (frequencies, reference) = (cx.table(WorkTable::FREQUENCIES)?, cx.reference_docs()?);
    let frame = frames::prefix::candidates(documents, frequencies, join, dense, reference)?;
    let mut frame = by_group::compared(cx, frame)?;
    if let Some(others) = others {
        frame = frame.union(cx.table(others)?)?.distinct()?;
    }
    let documents = cx.rows(Table::Documents) + cx.rows(WorkTable::REFERENCE);
    cx.run(stage, (join.rows() + documents) * BYTES_OF_PREFIX, vec![frame]).await?;
    dense_candidates::settle(cx, join).await
}
