//! frequencies: how often each shingle occurs among the documents of a prefix join.

use super::interface::{
    AnyTable, BoxFuture, Job, Planned, Result, Stage, StageContext, StagePlan, WorkTable, frames,
};
use crate::operator::token_counts;
use crate::pipeline::tables::columns_of;

/// Counts the shingles of new documents, before the reference documents are read.
pub(super) static OF_NEW: Stage = counting(|job| is_joined(job) && job.against.is_some());

/// Counts the shingles of all documents.
pub(super) static OF_ALL: Stage = counting(|job| is_joined(job) && job.against.is_none());

/// Counts the shingles of documents in hot buckets.
pub(super) static OF_HOT: Stage = counting(|_| false);

impl WorkTable {
    /// How often shingles occur.
    pub(crate) const FREQUENCIES: Self = Self::new("frequencies", |_| columns_of(&token_counts::schema()));
}

const fn counting(is_in: fn(&Job) -> bool) -> Stage {
    let table = AnyTable::Work(WorkTable::FREQUENCIES);
    Stage::new(table, |_| "count how often each shingle occurs".into(), is_in, StagePlan::Later(plan))
}

fn is_joined(job: &Job) -> bool {
    job.compares() && job.candidates.method.joins_all()
}

fn plan<'a>(cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<Planned<'a>>> {
    Box::pin(async move {
        let documents = cx.new_documents_to_join()?;
        let frame = frames::prefix::frequencies(documents, cx.join().await?)?;
        Ok(Planned::new(0, vec![frame]))
    })
}
