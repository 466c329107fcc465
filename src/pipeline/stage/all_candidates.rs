//! all_candidates: the pairs of hot buckets, added to the other candidates.

use std::borrow::Cow;

use super::agreeing::Agreeing;
use super::interface::{
    BoxFuture, Job, Result, Stage, StageContext, Tables, WorkTable, Writes, not_null, null,
};
use super::prefix_join;
use crate::pipeline::tables::{pair_columns, single_columns};
use crate::pipeline::verify::signatures_first;

/// Pairs documents of hot buckets by their rarest shingles.
pub(crate) struct AllCandidates;

impl WorkTable {
    /// Candidates, and those of hot buckets.
    pub(crate) const ALL_CANDIDATES: Self = Self::new("all_candidates", pair_columns);
    /// Documents of dense buckets, where hot documents are joined.
    pub(crate) const DENSE: Self = Self::new("dense", single_columns);
}

impl Writes for AllCandidates {
    fn name(&self) -> Cow<'static, str> {
        "all_candidates".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "pair documents of hot buckets that share one of their rarest shingles".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        vec![not_null(WorkTable::ALL_CANDIDATES, "b"), null(WorkTable::DENSE, "b")]
    }
}

impl Stage for AllCandidates {
    fn runs_again(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { prefix_join::by_prefixes(self, cx, Some(WorkTable::CANDIDATES)).await })
    }

    fn follow_ups<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<Vec<&'static dyn Stage>>> {
        Box::pin(async move {
            let mut further: Vec<&'static dyn Stage> = Vec::new();
            if signatures_first(cx).await? {
                further.push(&Agreeing);
            }
            Ok(further)
        })
    }
}
