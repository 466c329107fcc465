//! group_pairs: the number of pairs of every two groups.

use super::interface::{
    AnyTable, BYTES_OF_MEMBER, BoxFuture, Job, OneTable, Result, Stage, StageContext, Table, frames,
};
use crate::pipeline::by_group::{NAMES, own};

/// Counts the pairs of every two groups.
pub(crate) struct GroupPairs;

impl OneTable for GroupPairs {
    const TABLE: AnyTable = AnyTable::Public(Table::GroupPairs);
    const WHAT: &'static str = "count the pairs of every two groups";
}

impl Stage for GroupPairs {
    fn is_in(&self, job: &Job) -> bool {
        job.has_groups()
    }

    fn run<'a>(&'a self, cx: &'a StageContext<'_>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let documents = frames::mark::both(own(cx)?, None, &NAMES)?;
            let frame = frames::by_group::group_pairs(cx.table(Table::Pairs)?, documents)?;
            let bytes = 4 * cx.rows(Table::Pairs) * BYTES_OF_MEMBER;
            cx.run(self, bytes, vec![frame]).await
        })
    }
}
