//! group_pairs: the number of pairs of every two groups.

use std::borrow::Cow;

use async_trait::async_trait;

use super::interface::{BYTES_OF_MEMBER, Stage, Tables, Writes, all};
use crate::error::Result;
use crate::job::Job;
use crate::pipeline::by_group::{NAMES, own};
use crate::pipeline::context::StageContext;
use crate::pipeline::frames;
use crate::schema::Table;

/// Counts the pairs of every two groups.
pub(crate) struct GroupPairs;

impl Writes for GroupPairs {
    fn name(&self) -> Cow<'static, str> {
        "group_pairs".into()
    }

    fn describe(&self, _job: &Job) -> String {
        "count the pairs of every two groups".into()
    }

    fn tables(&self, _job: &Job) -> Tables {
        all(Table::GroupPairs)
    }
}

#[async_trait]
impl Stage for GroupPairs {
    fn is_in(&self, job: &Job) -> bool {
        job.has_groups()
    }

    async fn run(&self, cx: &StageContext<'_>) -> Result<()> {
        let documents = frames::mark::both(own(cx, cx.job)?, None, &NAMES)?;
        let frame = frames::by_group::group_pairs(cx.table(Table::Pairs)?, documents)?;
        let bytes = 4 * cx.rows(Table::Pairs) * BYTES_OF_MEMBER;
        cx.run(self, bytes, vec![frame]).await
    }
}
