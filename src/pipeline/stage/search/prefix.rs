//! `candidates.method = "prefix"`, and the join by rarest shingles that it shares with hot buckets.

use datafusion::prelude::col;

use crate::job::Compare;
use crate::pipeline::by_group;
use crate::pipeline::stage::dense_candidates;
use crate::pipeline::stage::interface::{
    CandidateSearch, Job, Result, StageContext, Table, WorkTable, Writes, frames,
};
use crate::pipeline::stage::pair_limit::{self, Population};
use crate::pipeline::verify::BYTES_OF_PREFIX;

/// Finds documents that share one of their rarest shingles.
pub(super) static PREFIX: CandidateSearch = CandidateSearch {
    describe_candidates: |job| {
        if job.score.measure.takes_any_size() {
            return "pair documents if one of them has one of the other's rarest shingles".into();
        }
        format!("pair documents that share one of their rarest shingles{}", dense(job))
    },
    candidates: |cx, stage| Box::pin(by_prefixes(stage, cx, None)),
    follow_ups: |_| Vec::new(),
    scores: None,
    may_match: |cx, documents| {
        Box::pin(async move {
            let (new, join) = (cx.new_documents_to_join()?, cx.join().await?);
            frames::may_match::by_elements(documents, new, cx.table(WorkTable::FREQUENCIES)?, join)
        })
    },
};

/// The treatment of documents that share a shingle with very many others.
pub(super) fn dense(job: &Job) -> String {
    match job.output.most_expanded() {
        Some(limit) => format!("; where more than {limit} share one, each is paired with a leader"),
        None => String::new(),
    }
}

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
