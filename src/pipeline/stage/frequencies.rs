//! frequencies: how often each shingle occurs among the documents of a prefix join.

use super::interface::{AnyTable, BoxFuture, Job, OneTable, Result, Stage, StageContext, WorkTable, frames};
use crate::job::Method;
use crate::operator::token_counts;
use crate::pipeline::tables::columns_of;

/// Counts shingles. The documents determine when it can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frequencies {
    /// Of new documents, before the reference documents are read.
    New,
    /// Of all documents.
    All,
    /// Of documents in hot buckets.
    Hot,
}

impl WorkTable {
    /// How often shingles occur.
    pub(crate) const FREQUENCIES: Self = Self::new("frequencies", |_| columns_of(&token_counts::schema()));
}

impl OneTable for Frequencies {
    const TABLE: AnyTable = AnyTable::Work(WorkTable::FREQUENCIES);
    const WHAT: &'static str = "count how often each shingle occurs";
}

impl Stage for Frequencies {
    fn is_in(&self, job: &Job) -> bool {
        let is_joined = job.compares() && job.candidates.method == Method::Prefix;
        match self {
            Frequencies::New => is_joined && job.against.is_some(),
            Frequencies::All => is_joined && job.against.is_none(),
            Frequencies::Hot => false,
        }
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let documents = cx.new_documents_to_join()?;
            let frame = frames::prefix::frequencies(documents, cx.join().await?)?;
            cx.run(self, 0, vec![frame]).await
        })
    }
}
