//! The stage frequencies, and `candidates.method = "prefix"`, which join documents by their rarest shingles. The method `lsh` joins the
//! documents in hot buckets in the same way.

use super::dense::settle;
use super::pair_limit;
use crate::frames::candidates::may_match_by_elements;
use crate::frames::prefix::{candidates, frequencies};
use crate::job::Compare;
use crate::operator::prefixes::counter_schema;
use crate::pipeline::groups;
use crate::pipeline::sketches::{join, new_to_join, to_join};
use crate::pipeline::stage::interface::{
    CandidateSearch, Job, Planned, Result, Stage, StageContext, Table, WorkTable, boxed, needed,
};
use crate::pipeline::tables::WorkColumns::Operator;
use crate::pipeline::verify::BYTES_OF_PREFIX;

pub(super) static PREFIX: CandidateSearch = CandidateSearch {
    describe: |job| {
        if job.score.measure.takes_any_size() {
            return "pair documents if one of them has one of the other's rarest shingles".into();
        }
        format!("pair documents that share one of their rarest shingles{}", describe_dense(job))
    },
    check: |cx| Box::pin(check_pairs(cx, None)),
    plan: |cx| Box::pin(by_prefixes(cx, None)),
    follow_ups: boxed!(|cx| {
        settle(cx).await?;
        Ok(Vec::new())
    }),
    may_match: boxed!(|cx, documents| {
        let (new, join) = (new_to_join(cx)?, join(cx).await?);
        may_match_by_elements(documents, new, cx.table(WorkTable::FREQUENCIES)?, join)
    }),
};

/// Describes how the job handles documents that share a shingle with very many other documents.
pub(super) fn describe_dense(job: &Job) -> String {
    match job.output.most_expanded() {
        Some(limit) => format!("; where more than {limit} share one, each is paired with a leader"),
        None => String::new(),
    }
}

/// The number of documents above which a group is dense. `None` if all pairs are compared.
fn dense_limit(job: &Job) -> Option<u64> {
    // A leader's set represents the sets that are similar to it. This does not hold for containment: a set that contains the leader's set
    // need not contain the sets that the leader represents. If only some groups are compared, a document with a leader in its own group
    // can be similar to documents in other groups.
    let is_plain = !job.score.measure.takes_any_size() && job.candidates.compare == Compare::All;
    job.output.most_expanded().filter(|_| is_plain)
}

/// Pairs all documents, or the documents in hot buckets, by their rarest shingles. Also returns the pairs in the table `others`.
pub(super) async fn by_prefixes<'a>(
    cx: &'a StageContext<'_>,
    others: Option<WorkTable>,
) -> Result<Planned<'a>> {
    let (documents, join) = (to_join(cx)?, join(cx).await?);
    let (counts, reference) = (cx.table(WorkTable::FREQUENCIES)?, cx.reference_docs()?);
    let mut frame = candidates(documents, counts, join, dense_limit(cx.job), reference)?;
    if let Some(others) = others {
        frame = groups::compared(cx, frame)?.union(cx.table(others)?)?.distinct()?;
    }
    let documents = cx.rows(Table::Documents) + cx.rows(WorkTable::REFERENCE);
    Ok(Planned::new((join.rows() + documents) * BYTES_OF_PREFIX, vec![frame]))
}

/// Ends a run if the prefix join would find too many pairs. The join compares the documents in the table `hot`, or all documents.
pub(super) async fn check_pairs(cx: &StageContext<'_>, hot: Option<WorkTable>) -> Result<()> {
    if dense_limit(cx.job).is_some() {
        return Ok(());
    }
    // There is no better upper bound on the number of pairs.
    let Some(hot) = hot else { return pair_limit::check_every_two(cx).await };
    let hot = needed(cx, hot, "a")?;
    let at_most = pair_limit::every_two_of(hot.count);
    pair_limit::check_pairs(cx, Some(hot), at_most).await
}

impl WorkTable {
    /// The number of occurrences of each shingle among the documents in a prefix join.
    pub(crate) const FREQUENCIES: Self = Self::new("frequencies", &[Operator(counter_schema)]);
}

/// Counts the shingles of new documents, before the reference documents are read.
pub(in crate::pipeline::stage) static NEW_FREQUENCIES: Stage =
    counting(|job| is_joined(job) && job.against.is_some());

pub(in crate::pipeline::stage) static ALL_FREQUENCIES: Stage =
    counting(|job| is_joined(job) && job.against.is_none());

pub(super) static HOT_FREQUENCIES: Stage = counting(|_| false);

fn is_joined(job: &Job) -> bool {
    job.compares() && job.candidates.method.joins_all()
}

const fn counting(is_in: fn(&Job) -> bool) -> Stage {
    Stage::work(
        WorkTable::FREQUENCIES,
        |_| "count how often each shingle occurs".into(),
        is_in,
        boxed!(|cx| {
            let frame = frequencies(new_to_join(cx)?, join(cx).await?)?;
            Ok(Planned::new(0, vec![frame]))
        }),
    )
}
