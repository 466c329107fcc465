//! `candidates.method = "prefix"`, and the join by rarest shingles that it shares with hot buckets.

use datafusion::prelude::col;

use crate::job::Compare;
use crate::pipeline::by_group;
use crate::pipeline::stage::dense_candidates;
use crate::pipeline::stage::interface::{
    CandidateSearch, Job, Planned, Result, StageContext, StagePlan, Table, WorkTable, frames,
};
use crate::pipeline::stage::pair_limit::{self, EstimatedDocuments};
use crate::pipeline::verify::BYTES_OF_PREFIX;

/// Finds documents that share one of their rarest shingles.
pub(super) static PREFIX: CandidateSearch = CandidateSearch {
    describe_candidates: |job| {
        if job.score.measure.takes_any_size() {
            return "pair documents if one of them has one of the other's rarest shingles".into();
        }
        format!("pair documents that share one of their rarest shingles{}", dense(job))
    },
    check: |cx| Box::pin(check_pairs(cx, None)),
    candidates: StagePlan::Later(|cx| Box::pin(by_prefixes(cx, None))),
    follow_ups: |cx| {
        Box::pin(async move {
            dense_candidates::settle(cx).await?;
            Ok(Vec::new())
        })
    },
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

/// The limit of a dense group; `None` if all pairs are made.
fn dense_limit(job: &Job) -> Option<u64> {
    // The set of a leader is similar to those of its documents. But a set that contains a leader's need not contain the
    // others, and a document whose leader is in its own group may be similar to documents of other groups.
    let is_plain = !job.score.measure.takes_any_size() && job.candidates.compare == Compare::All;
    job.output.most_expanded().filter(|_| is_plain)
}

/// Pairs documents by their rarest shingles: all documents, or those of hot buckets, whose pairs are added to the `others`.
pub(super) async fn by_prefixes<'a>(
    cx: &'a StageContext<'_>,
    others: Option<WorkTable>,
) -> Result<Planned<'a>> {
    let dense = dense_limit(cx.job);
    let (documents, join) = (cx.documents_to_join()?, cx.join().await?);
    let (frequencies, reference) = (cx.table(WorkTable::FREQUENCIES)?, cx.reference_docs()?);
    let frame = frames::prefix::candidates(documents, frequencies, join, dense, reference)?;
    let mut frame = by_group::compared(cx, frame)?;
    if let Some(others) = others {
        frame = frame.union(cx.table(others)?)?.distinct()?;
    }
    let documents = cx.rows(Table::Documents) + cx.rows(WorkTable::REFERENCE);
    Ok(Planned::new((join.rows() + documents) * BYTES_OF_PREFIX, vec![frame]))
}

/// Ends a run whose prefix join of `hot` documents, or of all, would find too many pairs.
pub(super) async fn check_pairs(cx: &StageContext<'_>, hot: Option<WorkTable>) -> Result<()> {
    if dense_limit(cx.job).is_some() {
        return Ok(());
    }
    // Nothing bounds the number of pairs.
    match hot {
        None => pair_limit::check_every_two(cx).await,
        Some(hot) => {
            let (keys, count) = (cx.table(hot)?.select(vec![col("a").alias("needed")])?, cx.rows(hot));
            let at_most = pair_limit::every_two_of(count);
            pair_limit::check_pairs(cx, Some(EstimatedDocuments { keys, count }), at_most).await
        }
    }
}
